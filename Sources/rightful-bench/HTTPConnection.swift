import Glibc

/// One kept-alive connection of a client that costs as little as it can, for the load shares the machine.
///
/// It blocks, so it belongs on a thread of its own. It understands answers with a `Content-Length`, which are all that
/// the service gives.
final class HTTPConnection {
    private let socket: Int32
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)

    init(port: UInt16) throws {
        socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard socket >= 0, connected == 0 else { throw ConnectionFailure("cannot connect to port \(port)") }
        var on: Int32 = 1
        setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close(socket) }

    /// The bytes of a whole request.
    static func request(_ method: String, _ path: String, key: String? = nil, body: [UInt8]? = nil) -> [UInt8] {
        var head = "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n"
        if let key { head += "Authorization: Bearer \(key)\r\n" }
        if let body { head += "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n" }
        return Array((head + "\r\n").utf8) + (body ?? [])
    }

    /// Sends a request and reads its answer to the end.
    ///
    /// - Returns: the status.
    func exchange(_ request: [UInt8]) throws -> Int {
        var sent = 0
        while sent < request.count {
            let count = request.withUnsafeBytes { send(socket, $0.baseAddress?.advanced(by: sent), $0.count - sent, 0) }
            guard count > 0 else { throw ConnectionFailure("the connection ended while sending") }
            sent += count
        }
        var received = 0
        while true {
            let count = buffer.withUnsafeMutableBytes {
                recv(socket, $0.baseAddress?.advanced(by: received), $0.count - received, 0)
            }
            guard count > 0 else { throw ConnectionFailure("the connection ended before the answer") }
            received += count
            guard let answer = Answer(buffer[..<received]) else { continue }
            if received >= answer.length { return answer.status }
        }
    }

    /// The head of an answer.
    private struct Answer {
        let status: Int
        /// Head and body together, in bytes.
        let length: Int

        /// `nil` until the whole head is there.
        init?(_ bytes: ArraySlice<UInt8>) {
            let newline = UInt8(ascii: "\n")
            var status: Int?
            var body = 0
            var start = bytes.startIndex
            while let end = bytes[start...].firstIndex(of: newline) {
                let line = bytes[start..<end].dropLast()
                start = end + 1
                if line.isEmpty {
                    guard let status else { return nil }
                    self.status = status
                    length = start - bytes.startIndex + body
                    return
                }
                if status == nil {
                    // HTTP/1.1 200 OK
                    status = Self.number(line.dropFirst(9).prefix(3))
                } else if line.count > 15,
                    String(decoding: line.prefix(15), as: UTF8.self).lowercased() == "content-length:"
                {
                    body = Self.number(line.dropFirst(16)) ?? 0
                }
            }
            return nil
        }

        private static func number(_ digits: ArraySlice<UInt8>) -> Int? { Int(String(decoding: digits, as: UTF8.self)) }
    }
}

struct ConnectionFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
