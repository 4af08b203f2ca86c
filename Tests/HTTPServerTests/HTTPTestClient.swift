import Dispatch
import Glibc

/// A client that says exactly what it is told to, byte by byte, on a blocking socket.
///
/// To be used inside `offPool`, since it blocks. Every wait ends after 20 s at the latest.
final class HTTPTestClient {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    struct Response {
        let status: Int
        let headers: [(name: String, value: String)]
        let body: [UInt8]

        var text: String { String(decoding: body, as: UTF8.self) }

        func header(_ name: String) -> String? {
            headers.first { $0.name.lowercased() == name.lowercased() }?.value
        }
    }

    private let descriptor: Int32
    private var unread: [UInt8] = []

    init(port: UInt16, ipv6: Bool = false) throws {
        descriptor = socket(ipv6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let isConnected = ipv6 ? Self.connect6(descriptor, port) : Self.connect4(descriptor, port)
        guard isConnected else { throw Failure(description: "connect: \(String(cString: strerror(errno)))") }
    }

    deinit { close(descriptor) }

    /// Makes the end of this client a reset instead of an orderly close.
    func resetWhenClosed() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Tells the server that nothing more will be sent.
    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Glibc.send(descriptor, buffer.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure(description: "send: \(String(cString: strerror(errno)))") }
            sent += count
        }
    }

    /// Sends one byte again and again, until the server ends the connection.
    func trickleUntilCut(_ byte: Character, everyMilliseconds interval: UInt32 = 20) -> Duration {
        let start = ContinuousClock.now
        while ContinuousClock.now - start < .seconds(20) {
            guard (try? send(String(byte))) != nil, !isEnded else { break }
            usleep(interval * 1000)
        }
        return ContinuousClock.now - start
    }

    /// Reads one response; `hasBody: false` for the answer to HEAD.
    func readResponse(hasBody: Bool = true) throws -> Response {
        var lines: [String] = []
        while true {
            let line = try readLine()
            if line.isEmpty { break }
            lines.append(line)
        }
        guard let status = lines.first?.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else {
            throw Failure(description: "no status line: \(lines)")
        }
        let headers = lines.dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1).map { String($0.drop { $0 == " " }) }
            return (name: parts[0], value: parts.count > 1 ? parts[1] : "")
        }
        let response = Response(status: status, headers: headers, body: [])
        guard hasBody, status >= 200, status != 204, status != 304,
            let length = response.header("Content-Length").flatMap({ Int($0) })
        else { return response }
        while unread.count < length { try fill() }
        defer { unread.removeFirst(length) }
        return Response(status: status, headers: headers, body: Array(unread.prefix(length)))
    }

    /// Sends a request and reads its response.
    func get(_ target: String, headers: String = "") throws -> Response {
        try send("GET \(target) HTTP/1.1\r\nHost: test\r\n\(headers)\r\n")
        return try readResponse()
    }

    /// Sends a request with a body and reads its response.
    func post(_ target: String, _ body: [UInt8]) throws -> Response {
        try send("POST \(target) HTTP/1.1\r\nHost: test\r\nContent-Length: \(body.count)\r\n\r\n")
        try send(body)
        return try readResponse()
    }

    /// Reads until the server ends the connection.
    func readToEnd() -> [UInt8] {
        while (try? fill()) != nil {}
        return unread
    }

    private var isEnded: Bool {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_PEEK))
        return count == 0 || (count < 0 && errno != EAGAIN)
    }

    private func readLine() throws -> String {
        while true {
            if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
                defer { unread.removeFirst(end + 1) }
                return String(decoding: unread[..<end].filter { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
            }
            try fill()
        }
    }

    private func fill() throws {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else {
            throw Failure(description: count == 0 ? "connection ended" : "recv: \(String(cString: strerror(errno)))")
        }
        unread += buffer[..<count]
    }

    private static func connect4(_ descriptor: Int32, _ port: UInt16) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return connect(descriptor, &address)
    }

    private static func connect6(_ descriptor: Int32, _ port: UInt16) -> Bool {
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_port = port.bigEndian
        address.sin6_addr = in6addr_loopback
        return connect(descriptor, &address)
    }

    private static func connect<Address>(_ descriptor: Int32, _ address: inout Address) -> Bool {
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<Address>.size)) == 0
            }
        }
    }
}

/// Runs blocking code on a thread of its own.
///
/// Not on a global queue: those share their few threads with Swift's tasks, which is where handlers run.
func offPool<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        DispatchQueue(label: "http-test-client").async { continuation.resume(with: Result(catching: body)) }
    }
}

/// Opens once; whoever waits before that waits until then.
actor Latch {
    private var isOpen = false
    private var waiters: [CheckedContinuation<Void, Never>] = []

    func open() {
        isOpen = true
        for waiter in waiters { waiter.resume() }
        waiters = []
    }

    func wait() async {
        guard !isOpen else { return }
        await withCheckedContinuation { waiters.append($0) }
    }
}
