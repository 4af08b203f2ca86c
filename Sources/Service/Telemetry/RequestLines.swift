import EntitlementCore
import HTTPServer

/// The log lines of requests that the event loop answers itself: written as bytes, and handed over many at a time.
///
/// They say what `Application.finish` says of other requests. For one thread.
final class RequestLines {
    /// How long a line may wait for others.
    private static let patience = Duration.milliseconds(20)
    /// How many bytes are handed over without waiting for more.
    private static let batchBytes = 32 << 10

    private let logger: Logger
    private let middle: [UInt8]
    private let method: String
    private let route: String
    private var lines: [UInt8] = []
    private var count = 0
    /// When the lines so far are to be handed over; `nil` while there are none.
    private(set) var dueAt: ContinuousClock.Instant?

    /// Lines about the requests of one route.
    init(_ logger: Logger, method: String, route: String) {
        self.logger = logger
        self.method = method
        self.route = route
        middle = Array(#"","method":"\#(method)","route":"\#(route)","status":"#.utf8)
    }

    /// Notes an answered request; `time` is the instant as text, the request's id 20 bytes.
    ///
    /// - Parameter keyID: `nil` for a request that was sent with a customer token.
    func note(
        _ id: UnsafeBufferPointer<UInt8>, status: Int, time: String, duration: Duration, keyID: String?,
        at now: ContinuousClock.Instant
    ) {
        guard logger.logs(.info) else { return }
        let microseconds = max(0, Int64(duration / .microseconds(1)))
        guard logger.takesLines else {
            var fields: [(name: String, value: LogValue)] = [
                ("request_id", .string(String(decoding: id, as: UTF8.self))), ("method", .string(method)),
                ("route", .string(route)), ("status", .integer(Int64(status))),
                ("duration_ms", .number(Double(microseconds) / 1000)),
            ]
            if let keyID { fields.append(("key_id", .string(keyID))) }
            logger.log(.info, "request", fields)
            return
        }
        lines.append(contentsOf: #"{"time":""#.utf8)
        lines.append(contentsOf: time.utf8)
        lines.append(contentsOf: #"","level":"info","message":"request","request_id":""#.utf8)
        lines.append(contentsOf: id)
        lines.append(contentsOf: middle)
        lines.append(contentsOf: status == 200 ? "200".utf8 : "304".utf8)
        lines.append(contentsOf: #","duration_ms":"#.utf8)
        appendMilliseconds(microseconds)
        if let keyID {
            lines.append(contentsOf: #","key_id":""#.utf8)
            lines.append(contentsOf: keyID.utf8)
            lines.append(UInt8(ascii: "\""))
        }
        lines.append(contentsOf: "}\n".utf8)
        count += 1
        if dueAt == nil { dueAt = now + Self.patience }
        if lines.count >= Self.batchBytes { flush() }
    }

    /// Hands the lines over.
    func flush() {
        guard count > 0 else { return }
        logger.log(lines: lines, count: count)
        lines.removeAll(keepingCapacity: true)
        count = 0
        dueAt = nil
    }

    /// With three decimals.
    private func appendMilliseconds(_ microseconds: Int64) {
        lines.append(contentsOf: String(microseconds / 1000).utf8)
        let rest = microseconds % 1000
        lines.append(UInt8(ascii: "."))
        for divisor in [Int64(100), 10, 1] { lines.append(UInt8(ascii: "0") + UInt8(rest / divisor % 10)) }
    }
}
