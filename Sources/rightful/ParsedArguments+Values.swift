import EntitlementCore
import Ledger

// What several commands read alike.

extension CommandUsage {
    static let at = Option("--at", "T", "the instant asked about, in RFC 3339; default now")
    static let knownAt = Option(
        "--known-at", "P", "believe the log up to this position, or to what was recorded by a time")
}

extension ParsedArguments {
    /// The first operand.
    func customer() throws(UsageError) -> CustomerID {
        guard let customer = CustomerID(operands[0]) else {
            throw error("no customer can be called '\(operands[0].prefix(64))'")
        }
        return customer
    }

    /// The value of `--environment`.
    func environment() throws(UsageError) -> StoreEnvironment? {
        guard let text = value("--environment") else { return nil }
        guard let environment = StoreEnvironment(rawValue: text) else {
            throw error("--environment is production or sandbox, not '\(text)'")
        }
        return environment
    }

    func timestamp(_ option: String) throws(UsageError) -> Timestamp? {
        guard let text = value(option) else { return nil }
        guard let timestamp = Timestamp(rfc3339: text) else {
            throw error("\(option) must be an RFC 3339 time, such as 2026-01-31T12:00:00Z, not '\(text)'")
        }
        return timestamp
    }

    /// The value of `--known-at`.
    func knownAt() throws(UsageError) -> KnownAt {
        guard let text = value("--known-at") else { return .head }
        // One too large to hold lies beyond every log.
        if !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) { return .position(Int64(text) ?? .max) }
        guard let timestamp = Timestamp(rfc3339: text) else {
            throw error("--known-at must be a position or an RFC 3339 time, not '\(text)'")
        }
        return .recorded(timestamp)
    }
}

extension KnownAtError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .beyondHead(let head): "--known-at is beyond the end of the log, which is position \(head)"
        case .notSettled: "--known-at is so recent that a commit could still be recorded by then; try again in seconds"
        }
    }
}
