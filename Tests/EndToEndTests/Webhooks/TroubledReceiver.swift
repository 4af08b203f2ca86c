import Foundation
import Glibc
import SeededRandom
import Synchronization

/// A receiver of webhooks on the loopback which keeps whatever reached it, and fails in the ways in which receivers fail.
///
/// It can be killed and started again: then every connection is reset, and nobody is at its port for a while.
final class TroubledReceiver: Sendable {
    /// A request that reached it, whatever it answered.
    struct Arrival: Sendable {
        /// Such as `/all`.
        let path: String
        /// By their names in lower case.
        let headers: [String: String]
        let body: [UInt8]
        /// In milliseconds since 1970.
        let at: Int64
        let manner: Manner
    }

    /// How a request is met.
    enum Manner: Sendable, CaseIterable {
        case taken
        /// Taken, and said so byte by byte.
        case takenSlowly
        /// Taken, but the connection is reset before that is said.
        case takenInSilence
        /// Taken, but the answer ends in its body.
        case takenInPart
        case failed
        /// Refused, with the wish to be left alone for a second.
        case busy
        case reset
        /// The answer ends in its head, behind the status.
        case cut
        /// No answer before the deadline.
        case stalled
        /// One whose head does not end before the deadline.
        case dripping

        /// Whether the sender may learn that it was taken, which the status says.
        var isTaken: Bool {
            switch self {
            case .taken, .takenSlowly, .takenInPart, .cut: true
            case .takenInSilence, .failed, .busy, .reset, .stalled, .dripping: false
            }
        }
    }

    struct Failure: Error { let what: String }

    private struct State {
        var arrivals: [Arrival] = []
        /// How often each message came.
        var attempts: [String: Int] = [:]
        var random: SplitMix64
        /// How many more may wait for the deadline.
        var stallsLeft: Int
        var isTroubled = false
        var isUp = false
        var open: Set<Int32> = []
    }

    let port: UInt16
    private let listener: Int32
    private let state: Mutex<State>

    /// - Parameters:
    ///   - stalls: the most requests that are made to wait for the deadline.
    ///   - seed: chooses how requests are met, while it is ``trouble(_:)``d.
    init(seed: UInt64, stalls: Int = 0) throws {
        state = Mutex(State(random: SplitMix64(seed: seed), stallsLeft: stalls))
        // The port is asked for twice: what is bound to a number keeps it when it is not listened to.
        let chosen = try Self.bound(to: 0)
        port = chosen.port
        listener = try Self.bound(to: chosen.port).socket
        close(chosen.socket)
        start()
    }

    private static func bound(to port: UInt16) throws -> (socket: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(descriptor, address, length) == 0 && getsockname(descriptor, address, &length) == 0
            }
        }
        guard isBound else { throw Failure(what: "bind: \(String(cString: strerror(errno)))") }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }

    /// What reached it, in its order.
    func arrivals(at path: String) -> [Arrival] { state.withLock { $0.arrivals.filter { $0.path == path } } }

    /// Whether it fails now and then.
    func trouble(_ isTroubled: Bool) { state.withLock { $0.isTroubled = isTroubled } }

    // MARK: - Being there

    /// Listens, where it does not already.
    func start() {
        let isNews = state.withLock { state in
            defer { state.isUp = true }
            return !state.isUp
        }
        guard isNews, listen(listener, 256) == 0 else { return }
        Thread.detachNewThread { [self] in
            while case let connection = accept(listener, nil, nil), connection >= 0 {
                _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
                let isTaken = state.withLock { state in
                    if state.isUp { state.open.insert(connection) }
                    return state.isUp
                }
                guard isTaken else {
                    Self.reset(connection)
                    close(connection)
                    continue
                }
                Thread.detachNewThread { [self] in
                    while serve(connection) {}
                    state.withLock { _ = $0.open.remove(connection) }
                    close(connection)
                }
            }
        }
    }

    /// Ends at once, as a killed process does: whatever is under way is reset, and nobody listens.
    func kill() {
        state.withLock { state in
            state.isUp = false
            for connection in state.open {
                Self.reset(connection)
                shutdown(connection, Int32(SHUT_RDWR))
            }
        }
        shutdown(listener, Int32(SHUT_RDWR))
    }

    /// Ends for good.
    func stop() {
        kill()
        close(listener)
    }

    /// What is closed from now on ends without a word.
    private static func reset(_ connection: Int32) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(connection, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    // MARK: - Answering

    /// Serves a request; returns whether another one may follow.
    private func serve(_ connection: Int32) -> Bool {
        guard let (path, headers, body) = Self.read(connection) else { return false }
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let manner: Manner? = state.withLock { state in
            guard state.isUp else { return nil }
            let name = path + (headers["webhook-id"] ?? "")
            let attempt = state.attempts[name, default: 0]
            state.attempts[name] = attempt + 1
            let manner = state.isTroubled ? Self.manner(attempt, &state) : .taken
            state.arrivals.append(Arrival(path: path, headers: headers, body: body, at: now, manner: manner))
            return manner
        }
        let taken = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        switch manner {
        case .taken: return Self.send(taken, to: connection)
        case .takenSlowly:
            for character in taken {
                guard Self.send(String(character), to: connection) else { return false }
                usleep(5000)
            }
            return true
        case .failed: return Self.send("HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nno\n", to: connection)
        case .busy:
            return Self.send("HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", to: connection)
        case .reset, .takenInSilence:
            Self.reset(connection)
            return false
        case .takenInPart:
            _ = Self.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nok", to: connection)
            return false
        case .cut:
            _ = Self.send("HTTP/1.1 200 OK\r\nContent-Len", to: connection)
            return false
        case .stalled:
            var byte: UInt8 = 0
            while recv(connection, &byte, 1, 0) > 0 {}
            return false
        case .dripping:
            guard Self.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSlow: ", to: connection) else { return false }
            while Self.send(".", to: connection) { usleep(100_000) }
            return false
        case nil: return false
        }
    }

    /// A message is failed at its first two attempts at the most, so that what it waits for between them stays seconds.
    private static func manner(_ attempt: Int, _ state: inout State) -> Manner {
        guard attempt < 2, state.random.chance(attempt == 0 ? 30 : 10) else {
            return state.random.chance(10) ? .takenSlowly : .taken
        }
        let manner = state.random.pick([
            Manner.takenInSilence, .takenInPart, .failed, .busy, .reset, .cut, .stalled, .dripping,
        ])
        guard manner == .stalled || manner == .dripping else { return manner }
        guard state.stallsLeft > 0 else { return .failed }
        state.stallsLeft -= 1
        return manner
    }

    /// One request, with a body as long as its head says; `nil` where the other side gives up.
    private static func read(_ connection: Int32) -> (path: String, headers: [String: String], body: [UInt8])? {
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        var head: (path: String, headers: [String: String], end: Int)?
        while true {
            if let head {
                let end = head.end + (head.headers["content-length"].flatMap { Int($0) } ?? 0)
                if bytes.count >= end { return (head.path, head.headers, Array(bytes[head.end..<end])) }
            }
            let count = recv(connection, &part, part.count, 0)
            guard count > 0 else { return nil }
            bytes += part[..<count]
            guard head == nil, let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { continue }
            let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
            let words = lines[0].components(separatedBy: " ")
            guard words.count == 3, words[0] == "POST" else { return nil }
            let fields = lines.dropFirst().compactMap { line -> (String, String)? in
                guard let colon = line.firstIndex(of: ":") else { return nil }
                return (line[..<colon].lowercased(), line[colon...].dropFirst().trimmingCharacters(in: .whitespaces))
            }
            head = (words[1], Dictionary(fields) { first, _ in first }, end.upperBound)
        }
    }

    private static func send(_ text: String, to connection: Int32) -> Bool {
        let bytes = Array(text.utf8)
        return Glibc.send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }
}
