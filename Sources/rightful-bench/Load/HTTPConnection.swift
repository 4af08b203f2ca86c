import Glibc

/// What a server answered.
struct HTTPAnswer {
    let status: Int
    /// Status line and header fields.
    let head: ArraySlice<UInt8>
    let body: ArraySlice<UInt8>

    /// A header field's value.
    func field(_ name: String) -> String? {
        for line in String(decoding: head, as: UTF8.self).split(whereSeparator: \.isNewline) {
            guard let colon = line.firstIndex(of: ":"), line[..<colon].lowercased() == name.lowercased() else {
                continue
            }
            return String(line[line.index(after: colon)...].drop { $0 == " " })
        }
        return nil
    }
}

/// One kept-alive connection of a client that costs as little as it can, for the load shares the machine.
///
/// It blocks, so it belongs on a thread of its own. It understands answers with a `Content-Length`, which are all that
/// the service gives.
final class HTTPConnection {
    private let socket: Int32
    private var buffer = [UInt8](repeating: 0, count: 256 << 10)

    /// Connects to a port of this machine; no later call waits longer than half a minute.
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
        guard socket >= 0, connected == 0 else { throw BenchmarkFailure("cannot connect to port \(port)") }
        var on: Int32 = 1
        setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        var limit = timeval(tv_sec: 30, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(socket, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    deinit { close(socket) }

    /// The bytes of a whole request.
    static func request(
        _ method: String, _ target: String, key: String? = nil, fields: [String] = [], body: [UInt8]? = nil
    ) -> [UInt8] {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: localhost\r\n"
        if let key { head += "Authorization: Bearer \(key)\r\n" }
        for field in fields { head += field + "\r\n" }
        if let body { head += "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n" }
        return Array((head + "\r\n").utf8) + (body ?? [])
    }

    /// Sends a request and reads its answer to the end.
    func exchange(_ request: [UInt8]) throws -> HTTPAnswer {
        var sent = 0
        while sent < request.count {
            let count = request.withUnsafeBytes {
                send(socket, $0.baseAddress?.advanced(by: sent), $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw BenchmarkFailure("the connection ended while sending") }
            sent += count
        }
        var received = 0
        while true {
            if received == buffer.count { buffer += [UInt8](repeating: 0, count: buffer.count) }
            let count = buffer.withUnsafeMutableBytes {
                recv(socket, $0.baseAddress?.advanced(by: received), $0.count - received, 0)
            }
            guard count > 0 else { throw BenchmarkFailure("the connection ended before the answer") }
            received += count
            guard let frame = Frame(buffer[..<received]), received >= frame.end else { continue }
            return HTTPAnswer(
                status: frame.status, head: buffer[..<frame.bodyStart], body: buffer[frame.bodyStart..<frame.end])
        }
    }

    /// Where an answer's parts are.
    private struct Frame {
        let status: Int
        let bodyStart: Int
        let end: Int

        /// `nil` until the whole head is there.
        init?(_ bytes: ArraySlice<UInt8>) {
            var status: Int?
            var length = 0
            var start = bytes.startIndex
            while let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) {
                let line = bytes[start..<end].dropLast()
                start = end + 1
                if line.isEmpty {
                    guard let status else { return nil }
                    self.status = status
                    bodyStart = start
                    self.end = start + (status == 304 ? 0 : length)
                    return
                }
                if status == nil {
                    // HTTP/1.1 200 OK
                    status = Self.number(line.dropFirst(9).prefix(3))
                } else if line.count > 15,
                    line.prefix(15).elementsEqual("content-length:".utf8, by: { $0 | 0x20 == $1 | 0x20 })
                {
                    length = Self.number(line.dropFirst(15)) ?? 0
                }
            }
            return nil
        }

        private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
            Int(String(decoding: digits.drop { $0 == UInt8(ascii: " ") }, as: UTF8.self))
        }
    }
}
