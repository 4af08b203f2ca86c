import Foundation
import Glibc
import Synchronization

/// A server on the loopback that answers each request as a test tells it to, or breaks off in one of the ways in which servers
/// break off.
///
/// Each connection has a thread of its own and carries one request.
package final class HostileServer: Sendable {
    package struct Request: Sendable {
        /// Such as `GET`.
        package let method: String
        /// Path and query, as they were sent.
        package let target: String
        /// By their names in lower case.
        package let headers: [String: String]
        /// As long as its head says.
        package let body: String
    }

    package enum Reply: Sendable {
        case answer(Int, headers: [String] = [], String)
        /// Sends this, which need be no HTTP, and closes.
        case raw(String)
        /// The connection is reset once the request is read.
        case reset
        /// Says that there is more than it sends, and closes.
        case cut(String)
        /// Sends a byte now and then, and never ends.
        case drip
        /// Sends as much as is taken.
        case endless
        /// Says nothing, and keeps the connection.
        case silence
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private struct State {
        var requests: [Request] = []
        var open: Set<Int32> = []
        var isStopped = false
    }

    package let port: UInt16
    private let listener: Int32
    private let state = Mutex(State())
    private let reply: @Sendable (Request, Int) -> Reply

    /// - Parameter reply: to a request, and how many came before.
    package init(port: UInt16 = 0, _ reply: @escaping @Sendable (Request, Int) -> Reply) throws {
        self.reply = reply
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var yes: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) { [listener] pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length) == 0 && listen(listener, 64) == 0
                    && getsockname(listener, address, &length) == 0
            }
        }
        guard status else { throw Failure(description: "listen: \(String(cString: strerror(errno)))") }
        self.port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in
            // By nobody else: another server could be given its number while this one still asks for a connection.
            defer { close(listener) }
            while true {
                let connection = accept(listener, nil, nil)
                if connection < 0, errno == EINTR { continue }
                guard connection >= 0 else { return }
                let isTaken = state.withLock { state in
                    if !state.isStopped { state.open.insert(connection) }
                    return !state.isStopped
                }
                guard isTaken else {
                    close(connection)
                    return
                }
                Thread.detachNewThread { [self] in
                    serve(connection)
                    state.withLock { _ = $0.open.remove(connection) }
                    close(connection)
                }
            }
        }
    }

    package var url: String { "http://127.0.0.1:\(port)" }
    package var requests: [Request] { state.withLock(\.requests) }

    /// Ends every connection, and takes no more.
    package func stop() {
        state.withLock { state in
            state.isStopped = true
            for connection in state.open { shutdown(connection, Int32(SHUT_RDWR)) }
        }
        shutdown(listener, Int32(SHUT_RDWR))
    }

    private func serve(_ connection: Int32) {
        guard let request = Self.read(connection) else { return }
        let count = state.withLock { state in
            state.requests.append(request)
            return state.requests.count - 1
        }
        switch reply(request, count) {
        case .answer(let status, let headers, let body):
            let head =
                ["HTTP/1.1 \(status) Said", "Content-Length: \(body.utf8.count)", "Connection: close"] + headers
            _ = Self.send(head.joined(separator: "\r\n") + "\r\n\r\n" + body, to: connection)
        case .raw(let text): _ = Self.send(text, to: connection)
        case .reset:
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(connection, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        case .cut(let body):
            _ = Self.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + body, to: connection)
        case .drip:
            guard Self.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", to: connection) else { return }
            while !state.withLock(\.isStopped), Self.send(" ", to: connection) { usleep(50_000) }
        case .endless:
            guard Self.send("HTTP/1.1 200 OK\r\n\r\n", to: connection) else { return }
            let part = String(repeating: "x", count: 1 << 16)
            while !state.withLock(\.isStopped), Self.send(part, to: connection) {}
        case .silence:
            var byte: UInt8 = 0
            while recv(connection, &byte, 1, 0) > 0 {}
        }
    }

    /// One request, with a body as long as its head says; `nil` where the other side gives up.
    private static func read(_ connection: Int32) -> Request? {
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 14)
        while true {
            let count = recv(connection, &part, part.count, 0)
            guard count > 0 else { return nil }
            bytes += part[..<count]
            let text = String(decoding: bytes, as: UTF8.self)
            guard let end = text.range(of: "\r\n\r\n") else { continue }
            let lines = text[..<end.lowerBound].components(separatedBy: "\r\n")
            let words = lines[0].components(separatedBy: " ")
            guard words.count == 3 else { return nil }
            let headers = lines.dropFirst().compactMap { line -> (String, String)? in
                guard let colon = line.firstIndex(of: ":") else { return nil }
                return (line[..<colon].lowercased(), line[colon...].dropFirst().trimmingCharacters(in: .whitespaces))
            }
            let known = Dictionary(headers) { first, _ in first }
            let body = String(text[end.upperBound...])
            guard body.utf8.count >= known["content-length"].flatMap({ Int($0) }) ?? 0 else { continue }
            return Request(method: words[0], target: words[1], headers: known, body: body)
        }
    }

    private static func send(_ text: String, to connection: Int32) -> Bool {
        let bytes = Array(text.utf8)
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Glibc.send(connection, buffer.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}
