import Glibc
import Synchronization

/// One client's connection, from the moment it was accepted until its socket is closed.
///
/// libmicrohttpd's own timeout starts again with every byte, so a client that trickles could stay for ever. Each
/// connection therefore has a deadline as well, kept here and enforced from outside by `cutIfOverdue`.
final class ClientConnection: Sendable {
    let remoteAddress: String

    private struct State {
        /// -1 once the socket is about to be closed, and its number free to become another socket.
        var descriptor: Int32
        var deadline: ContinuousClock.Instant?
        var lingers = false
    }
    private let state: Mutex<State>

    init(descriptor: Int32, remoteAddress: String, deadline: ContinuousClock.Instant) {
        self.remoteAddress = remoteAddress
        self.state = Mutex(State(descriptor: descriptor, deadline: deadline))
    }

    /// Sets by when the client must be done with what it is doing; `nil` while the server is at work.
    func setDeadline(_ deadline: ContinuousClock.Instant?) {
        state.withLock { $0.deadline = deadline }
    }

    /// Brings the deadline forward, never back.
    func setDeadline(atMost deadline: ContinuousClock.Instant) {
        state.withLock { $0.deadline = min($0.deadline ?? deadline, deadline) }
    }

    /// Shuts the socket down when its deadline has passed; libmicrohttpd then sees the end and closes it.
    ///
    /// The lock makes sure that the number still is this connection's socket.
    func cutIfOverdue(at now: ContinuousClock.Instant) {
        state.withLock { state in
            guard state.descriptor >= 0, let deadline = state.deadline, deadline <= now else { return }
            state.deadline = nil
            shutdown(state.descriptor, Int32(SHUT_RDWR))
        }
    }

    /// Asks that the rest of the request be read and thrown away after the answer.
    ///
    /// Closing a socket with unread bytes resets it, and the client may lose the answer it has not read yet.
    func lingerWhenClosed() {
        state.withLock { $0.lingers = true }
    }

    /// Sends bytes past libmicrohttpd, which takes no answer in the middle of a body.
    ///
    /// To be called from a callback for this connection, when nothing else is being sent. A refusal fits any socket
    /// buffer; should it not, the client sees the connection end instead.
    func sendDirectly(_ bytes: [UInt8]) {
        state.withLock { state in
            guard state.descriptor >= 0 else { return }
            _ = send(state.descriptor, bytes, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
            state.lingers = true
        }
    }

    /// Ends this object's use of the socket; to be called before the socket is closed.
    ///
    /// - Returns: a duplicate to read the rest of the request from, when that was asked for.
    func close() -> Int32? {
        state.withLock { state in
            defer { state.descriptor = -1 }
            guard state.lingers, state.descriptor >= 0 else { return nil }
            let duplicate = fcntl(state.descriptor, F_DUPFD_CLOEXEC, 0)
            return duplicate >= 0 ? duplicate : nil
        }
    }
}
