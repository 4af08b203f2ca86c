import Foundation

/// Sends one input to a service and judges what comes back.
enum HostileConnection {
    /// The longest that an input may go without an answer or an end.
    static let limit = Duration.seconds(15)
    /// How long the service is waited for that may itself be waiting for the rest of a request; then it is told that there
    /// is none.
    private static let patience = Duration.milliseconds(150)

    /// Says what is wrong with the answer, `nil` for nothing; it blocks.
    static func fault(
        of bytes: [UInt8], sent manner: HostileRequests.Manner, to url: URL, statuses: inout [Int: Int]
    ) -> String? {
        let socket: RawSocket
        do {
            socket = try RawSocket(url, limit: limit)
        } catch {
            return "\(error)"
        }
        do {
            switch manner {
            case .atOnce: try socket.send(bytes)
            case .inPieces(let size):
                for start in stride(from: 0, to: bytes.count, by: size) {
                    try socket.send(bytes[start..<min(bytes.count, start + size)])
                }
            }
        } catch {
            // The service may hang up on whoever sends nonsense; what it said before counts.
        }
        var received = socket.receive(for: patience)
        var bytes = received.bytes
        if !received.isEnded {
            socket.endSending()
            received = socket.receive()
            bytes += received.bytes
        }
        guard received.isEnded else { return "neither answered to its end nor closed in \(limit)" }
        for status in self.statuses(in: bytes) {
            statuses[status, default: 0] += 1
            // 501 and 505 are for methods and versions of HTTP that there are not.
            if status >= 500, status != 501, status != 505 {
                return "answered \(status): \(String(decoding: bytes.prefix(600), as: UTF8.self))"
            }
        }
        return nil
    }

    /// The statuses of all responses: what a body holds is never looked at far, nor does one look like a status line.
    private static func statuses(in bytes: [UInt8]) -> [Int] {
        let mark = Array("HTTP/1.1 ".utf8)
        return bytes.indices.dropLast(mark.count + 2).compactMap { index in
            guard bytes[index] == mark[0], bytes[index..<(index + mark.count)].elementsEqual(mark) else { return nil }
            let digits = bytes[(index + mark.count)..<(index + mark.count + 3)]
            return Int(String(decoding: digits, as: UTF8.self))
        }
    }
}
