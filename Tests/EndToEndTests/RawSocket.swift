import Foundation

/// A connection to a service over which a test sends exactly the bytes that it means to.
///
/// It blocks, within the limit it was made with; use it on a thread of its own (`onThread`).
final class RawSocket {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// What came back until the service ended the connection, or nothing more came in time.
    struct Received {
        let bytes: [UInt8]
        /// Whether the service closed the connection, in whatever way.
        let isEnded: Bool

        var text: String { String(decoding: bytes, as: UTF8.self) }
        /// The status of the first response; `nil` without one.
        var status: Int? {
            guard text.hasPrefix("HTTP/1.") else { return nil }
            return text.split(separator: " ", maxSplits: 2).dropFirst().first.flatMap { Int($0) }
        }
    }

    private let descriptor: Int32
    private let limit: Duration

    /// - Parameters:
    ///   - url: names a numeric IPv4 address and a port.
    ///   - limit: the longest that connecting, sending or receiving may take in all.
    ///   - source: the address of this machine that it comes from; `nil`: as the system chooses.
    init(_ url: URL, limit: Duration = .seconds(10), from source: String? = nil) throws {
        self.limit = limit
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let (seconds, attoseconds) = limit.components
        var wait = timeval(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &wait, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &wait, socklen_t(MemoryLayout<timeval>.size))
        var soon: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &soon, socklen_t(MemoryLayout<Int32>.size))
        func call(
            _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32, _ name: String, _ host: String, _ port: Int
        ) throws {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(port).bigEndian
            address.sin_addr.s_addr = inet_addr(host)
            let status = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    body(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            guard status == 0 else { throw Failure(description: "\(name): \(String(cString: strerror(errno)))") }
        }
        if let source { try call({ bind($0, $1, $2) }, "bind", source, 0) }
        try call({ connect($0, $1, $2) }, "connect", url.host() ?? "127.0.0.1", url.port ?? 80)
    }

    deinit { close(descriptor) }

    /// Sends all of it; throws where the service has closed the connection, or takes nothing more in time.
    func send(_ bytes: some Collection<UInt8>) throws {
        let bytes = Array(bytes)
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Glibc.send(descriptor, buffer.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure(description: "send: \(String(cString: strerror(errno)))") }
            sent += count
        }
    }

    /// Says that nothing more will be sent.
    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Makes the end of this connection a reset, as when the machine at the other end forgets about it.
    func resetWhenClosed() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Reads until the service ends the connection, the time is over, or a condition holds of what came.
    ///
    /// - Parameter duration: how long; `nil` takes the limit.
    func receive(for duration: Duration? = nil, until isEnough: ([UInt8]) -> Bool = { _ in false }) -> Received {
        let end = ContinuousClock.now + (duration ?? limit)
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while !isEnough(received) {
            let left = (end - .now) / .milliseconds(1)
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard left > 0, poll(&waiting, 1, Int32(left.rounded(.up))) > 0 else {
                return Received(bytes: received, isEnded: false)
            }
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return Received(bytes: received, isEnded: true) }
            received += buffer[..<count]
        }
        return Received(bytes: received, isEnded: false)
    }

    /// Whether bytes are a whole response with a `Content-Length`.
    static func isResponse(_ bytes: [UInt8]) -> Bool {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return false }
        let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).lowercased()
        let length = head.firstMatch(of: /content-length: *([0-9]+)/).flatMap { Int($0.1) } ?? 0
        return bytes.count >= end.upperBound + length
    }
}

/// Runs blocking code on a thread of its own: Swift's tasks have few, and wait for one another.
func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result(catching: body)) }
    }
}
