import Glibc

/// One client's connection, from the moment it was accepted until its socket is closed.
///
/// libmicrohttpd's own timeout starts again with every byte, so a client that trickles could stay for ever. Each
/// connection therefore has a deadline as well, kept here and enforced by the event loop, which alone uses this object.
final class ClientConnection {
    let peer: PeerAddress
    let remoteAddress: String
    /// Whether the peer stands for many clients.
    let isTrusted: Bool
    /// Since when the client has been silent, has been sending its request, or has been reading its response.
    private(set) var waitsSince: ContinuousClock.Instant
    /// Whether it was told to end to make room; kept by `ConnectionTable`.
    var isLeaving = false

    /// What a connection may wait for its client to do; where room has to be made, they go in this order.
    enum Wait: CaseIterable {
        case nextRequest
        case restOfRequest
        /// To whoever reads no answers, a connection costs as little as to whoever sends no requests.
        case reading

        /// How long a client may take before its connection counts as waiting.
        fileprivate var patience: Duration {
            switch self {
            case .nextRequest: .zero
            case .restOfRequest: .seconds(1)
            case .reading: .seconds(3)
            }
        }
    }

    /// Whose turn it is, and until when.
    private enum Turn: Equatable {
        case clientSends(until: ContinuousClock.Instant)
        case clientReads(until: ContinuousClock.Instant)
        case server
    }

    /// -1 once the socket is about to be closed, and its number free to become another socket.
    private var descriptor: Int32
    /// Whether no request is under way: none has come yet, or the last one was answered.
    private var isIdle = true
    private var turn: Turn
    /// The turn at the last sweep, if the client had ended its sending side by then.
    private var turnAtEnd: Turn?
    private var lingers = false

    init(
        descriptor: Int32, peer: PeerAddress, remoteAddress: String, trusts: (String) -> Bool,
        at now: ContinuousClock.Instant, deadline: ContinuousClock.Instant
    ) {
        self.peer = peer
        self.remoteAddress = remoteAddress
        isTrusted = trusts(remoteAddress)
        waitsSince = now
        self.descriptor = descriptor
        turn = .clientSends(until: deadline)
    }

    /// Notes that a request has begun, or that it has ended.
    func note(isIdle: Bool, at now: ContinuousClock.Instant) {
        self.isIdle = isIdle
        waitsSince = now
    }

    /// What it waits for its client to do, once that takes long; `nil` where it does not wait.
    func wait(at now: ContinuousClock.Instant) -> Wait? {
        let wait: Wait
        switch turn {
        case .server: return nil
        case .clientSends: wait = isIdle ? .nextRequest : .restOfRequest
        case .clientReads: wait = .reading
        }
        return waitsSince + wait.patience <= now ? wait : nil
    }

    /// Ends the connection; libmicrohttpd sees that at its next run.
    func endNow() {
        turn = .server
        guard descriptor >= 0 else { return }
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    /// Lets the client send its next request, or the rest of this one.
    func expectRequest(by deadline: ContinuousClock.Instant) { turn = .clientSends(until: deadline) }

    /// Brings the end of the client's sending forward, never back.
    func expectRequest(atLatestBy deadline: ContinuousClock.Instant) {
        guard case .clientSends(let current) = turn else { return }
        turn = .clientSends(until: min(current, deadline))
    }

    /// Lets the client wait for the server, as long as that takes.
    func expectNothing() { turn = .server }

    /// Lets the client read its response.
    func expectReading(by deadline: ContinuousClock.Instant) {
        turn = .clientReads(until: deadline)
        waitsSince = .now
    }

    /// Shuts the socket down when its client is late or gone; libmicrohttpd then sees the end and closes it.
    ///
    /// Gone is a client that has ended its sending side in the middle of a request. libmicrohttpd 0.9.75 misses that
    /// when the end arrives together with data. It may also be just about to see it, or to see that the request is
    /// complete; so the connection is left until the next sweep.
    func sweep(at now: ContinuousClock.Instant) {
        guard descriptor >= 0 else { return }
        let isOver: Bool
        switch turn {
        case .server: return
        case .clientReads(let deadline): isOver = deadline <= now
        case .clientSends(let deadline):
            let wasEnded = turnAtEnd == turn
            turnAtEnd = isEnded ? turn : nil
            isOver = deadline <= now || (wasEnded && turnAtEnd != nil)
        }
        if isOver { endNow() }
    }

    private var isEnded: Bool {
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0
    }

    /// Asks that the rest of the request be read and thrown away after the answer.
    ///
    /// Closing a socket with unread bytes resets it, and the client may lose the answer it has not read yet.
    func lingerWhenClosed() { lingers = true }

    /// Sends bytes past libmicrohttpd, which takes no answer in the middle of a body.
    ///
    /// To be called from a callback for this connection, when nothing else is being sent. A refusal fits any socket
    /// buffer; should it not, the client sees the connection end instead.
    func sendDirectly(_ bytes: [UInt8]) {
        guard descriptor >= 0 else { return }
        _ = send(descriptor, bytes, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
        lingers = true
    }

    /// Sends bytes past libmicrohttpd, and lets the socket be reset when it is closed.
    ///
    /// - Returns: `false`, by which libmicrohttpd closes it.
    func reset(after bytes: [UInt8]) -> Bool {
        sendDirectly(bytes)
        lingers = false
        var option = linger(l_onoff: 1, l_linger: 0)
        if descriptor >= 0 {
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        }
        return false
    }

    /// Ends this object's use of the socket; to be called before the socket is closed.
    ///
    /// - Returns: a duplicate to read the rest of the request from, when that was asked for.
    func close() -> Int32? {
        defer { descriptor = -1 }
        guard lingers, descriptor >= 0 else { return nil }
        let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        return duplicate >= 0 ? duplicate : nil
    }
}
