import AppStorePayloads
package import EntitlementCore

/// Something said about a log line's subject, as JSON shows it.
package enum LogValue: Sendable, Hashable {
    case string(String)
    case integer(Int64)
    case number(Double)
    case boolean(Bool)
}

extension LogValue: ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral {
    package init(stringLiteral value: String) { self = .string(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
}

/// How much a log line matters.
package enum LogLevel: Int, Sendable, Comparable, CaseIterable {
    case debug, info, warning, error

    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }

    /// As log lines spell it.
    package var name: String {
        switch self {
        case .debug: "debug"
        case .info: "info"
        case .warning: "warning"
        case .error: "error"
        }
    }
}

/// One thing that happened, before it is written anywhere.
package struct LogRecord: Sendable {
    package let time: Timestamp
    package let level: LogLevel
    package let message: String
    /// In the order in which they are written.
    package let fields: [(name: String, value: LogValue)]
}

/// Says what happens, one JSON object a line.
///
/// A value that is passed to whoever has something to say. Secrets, customers' identities and payloads are never
/// given to it.
package struct Logger: Sendable {
    private let level: LogLevel
    private let now: @Sendable () -> Timestamp
    private let sink: @Sendable (LogRecord) -> Void
    private let lineSink: (@Sendable (_ lines: [UInt8], _ count: Int, _ time: Timestamp) -> Void)?

    /// A logger that hands records of at least `level` to `sink`, which must not block; see ``LogWriter``.
    ///
    /// - Parameter lines: takes whole lines, ends included, how many there are, and the last one's time; where there is none,
    ///   `sink` takes records in their place.
    package init(
        level: LogLevel = .info, now: @escaping @Sendable () -> Timestamp,
        lines: (@Sendable (_ lines: [UInt8], _ count: Int, _ time: Timestamp) -> Void)? = nil,
        sink: @escaping @Sendable (LogRecord) -> Void
    ) {
        lineSink = lines
        self.level = level
        self.now = now
        self.sink = sink
    }

    /// Whether records of this level are written.
    func logs(_ level: LogLevel) -> Bool { level >= self.level }

    /// Whether lines may be handed over that somebody else has made.
    var takesLines: Bool { lineSink != nil }

    /// Hands over lines in the form of `LogRecord.line`, in their order.
    func log(lines: [UInt8], count: Int) { lineSink?(lines, count, now()) }

    package func log(_ level: LogLevel, _ message: String, _ fields: [(name: String, value: LogValue)] = []) {
        guard level >= self.level else { return }
        sink(LogRecord(time: now(), level: level, message: message, fields: fields))
    }

    /// Warns of what failed; an end that was asked for is no failure.
    func warn(_ message: String, _ error: any Error) {
        guard !(error is CancellationError) else { return }
        log(.warning, message, [("error", .string("\(error)"))])
    }
}

extension LogRecord {
    /// The record as one line of JSON, its end included.
    ///
    /// JSONEncoder keeps no order of members, and a log reads best in one.
    package var line: [UInt8] {
        var text = #"{"time":"\#(time)","level":"\#(level.name)","message":"# + JSONText.quoted(message)
        for (name, value) in fields {
            text += "," + JSONText.quoted(name) + ":"
            switch value {
            case .string(let string): text += JSONText.quoted(string)
            case .integer(let integer): text += String(integer)
            case .number(let number): text += number.isFinite ? String(number) : "null"
            case .boolean(let boolean): text += String(boolean)
            }
        }
        return Array((text + "}\n").utf8)
    }
}
