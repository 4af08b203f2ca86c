import EntitlementCore
import Foundation
import Glibc
import Synchronization

/// A receiver of webhooks that costs as little as it can; and a port at which everything is taken and nothing answered.
///
/// `GET /` tells what came since the last `DELETE /`.
final class ReceiveWorker: Sendable {
    /// What it prints once it listens.
    struct Ports: Codable {
        let port: UInt16
        let dead: UInt16
    }

    /// What came.
    struct Tally: Codable, Sendable {
        var messages = 0
        /// From the instant that each message bears to its arrival.
        var p50Milliseconds = 0.0
        var p99Milliseconds = 0.0
        /// When the last came, on the machine's monotonic clock.
        var lastNanoseconds: Int64 = 0
        /// Of one request with its head, on average.
        var bytes = 0
    }

    private struct State {
        var delays: [Double] = []
        var last: Int64 = 0
        var bytes = 0
    }

    private let state = Mutex(State())

    /// Runs for as long as its standard input is open.
    func run() throws {
        let (listener, dead) = (try Self.listen(), try Self.listen())
        say(
            String(
                decoding: try JSONEncoder().encode(Ports(port: listener.port, dead: dead.port)), as: UTF8.self))
        Thread.detachNewThread { [self] in
            while case let connection = accept(listener.socket, nil, nil), connection >= 0 {
                Thread.detachNewThread { [self] in
                    var on: Int32 = 1
                    setsockopt(
                        connection, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
                    serve(connection)
                    close(connection)
                }
            }
        }
        var byte: UInt8 = 0
        while read(0, &byte, 1) > 0 {}
    }

    private static func listen() throws -> (socket: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && Glibc.listen(descriptor, 1024) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard isListening else { throw BenchmarkFailure("no port is free") }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    /// Serves what comes on a connection, until the other side closes it.
    private func serve(_ connection: Int32) {
        let taken = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var held = 0
        while true {
            guard let request = Self.request(buffer[..<held]) else {
                guard held < buffer.count else { return }
                let count = buffer.withUnsafeMutableBytes {
                    recv(connection, $0.baseAddress?.advanced(by: held), $0.count - held, 0)
                }
                guard count > 0 else { return }
                held += count
                continue
            }
            var answer = taken
            switch buffer[0] {
            case UInt8(ascii: "G"): answer = Self.answer(tally)
            case UInt8(ascii: "D"): state.withLock { $0 = State() }
            default: note(buffer[request.body], bytes: request.end)
            }
            guard send(connection, answer, answer.count, Int32(MSG_NOSIGNAL)) == answer.count else { return }
            buffer.replaceSubrange(0..<held - request.end, with: Array(buffer[request.end..<held]))
            held -= request.end
        }
    }

    /// Where a whole request's body is, and where it ends.
    private static func request(_ bytes: ArraySlice<UInt8>) -> (body: Range<Int>, end: Int)? {
        guard let head = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let fields = String(decoding: bytes[..<head.lowerBound], as: UTF8.self).lowercased()
        let length = fields.firstRange(of: "content-length:").flatMap {
            Int(fields[$0.upperBound...].drop { $0 == " " }.prefix { $0.isNumber })
        }
        let end = head.upperBound + (length ?? 0)
        return bytes.count >= end ? (head.upperBound..<end, end) : nil
    }

    private func note(_ body: ArraySlice<UInt8>, bytes: Int) {
        let (now, passed) = (MonotonicClock.now(), Workload.now())
        let mark = Array(#""timestamp":""#.utf8)
        // It stands near the end.
        let tail = body.suffix(120)
        let instant = tail.firstRange(of: mark).flatMap { range in
            Timestamp(rfc3339: String(decoding: tail[range.upperBound...].prefix(24), as: UTF8.self))
        }
        state.withLock { state in
            state.delays.append(Double(passed.milliseconds - (instant ?? passed).milliseconds))
            state.last = now
            state.bytes += bytes
        }
    }

    private var tally: Tally {
        let (delays, last, bytes) = state.withLock { ($0.delays, $0.last, $0.bytes) }
        return Tally(
            messages: delays.count, p50Milliseconds: Quantile.of(delays, 0.5),
            p99Milliseconds: Quantile.of(delays, 0.99), lastNanoseconds: last,
            bytes: delays.isEmpty ? 0 : bytes / delays.count)
    }

    private static func answer(_ tally: Tally) -> [UInt8] {
        let body = (try? JSONEncoder().encode(tally)) ?? Data()
        return Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n".utf8) + body
    }
}
