import EntitlementCore
import Ledger
import Synchronization

/// How often something may be said: so many times in a while, and the next says how often it was not.
struct NoticeBudget: Sendable {
    /// The most in one while.
    static let limit = 20
    /// In milliseconds.
    static let span: Int64 = 60_000

    private var begun: Timestamp?
    private var count = 0
    private var leftOut: Int64 = 0

    /// Returns how often it was left out since it was said last; `nil` where it is left out now, too.
    mutating func take(at now: Timestamp) -> Int64? {
        if begun.map({ now < $0 || now >= $0.adding(milliseconds: Self.span) }) ?? true { (begun, count) = (now, 0) }
        guard count < Self.limit else {
            leftOut += 1
            return nil
        }
        count += 1
        defer { leftOut = 0 }
        return leftOut
    }
}

/// Says in the service's log what becomes of endpoints, so seldom that no receiver can fill it.
final class EndpointNotices: Sendable {
    private enum Subject: Hashable {
        case failing, mended, givenUp, undelivered
    }

    private let endpoints: EndpointRegister
    private let logger: Logger
    private let now: @Sendable () -> Timestamp
    private let budgets = Mutex<[Subject: NoticeBudget]>([:])

    init(endpoints: EndpointRegister, logger: Logger, now: @escaping @Sendable () -> Timestamp) {
        (self.endpoints, self.logger, self.now) = (endpoints, logger, now)
    }

    func tell(_ turns: [EndpointTurn], _ outcomes: [DeliveryOutcome]) {
        for turn in turns {
            let since = ("since", LogValue.string("\(turn.since)"))
            if turn.isFailing {
                let last = outcomes.last { $0.endpoint == turn.endpoint && $0.failure != nil }?.failure ?? ""
                say(
                    .failing, .warning, "an endpoint of webhooks takes nothing", turn.endpoint,
                    [since, ("failure", .string(last))])
            } else {
                say(.mended, .info, "an endpoint of webhooks takes messages again", turn.endpoint, [since])
            }
        }
        for outcome in outcomes where outcome.result == .givenUp {
            say(
                .givenUp, .error, "a webhook is given up that was not taken for three days", outcome.endpoint,
                [("number", .integer(outcome.number)), ("failure", .string(outcome.failure ?? ""))])
        }
    }

    /// Tells of messages that were let go of because they waited for longer than deliveries are kept.
    func tellUndelivered(_ counts: [String: Int64]) {
        for (endpoint, count) in counts.sorted(by: { $0.key < $1.key }) {
            say(
                .undelivered, .error,
                "messages of webhooks waited for longer than they are kept, and are let go of unsent",
                endpoint, [("count", .integer(count))])
        }
    }

    private func say(
        _ subject: Subject, _ level: LogLevel, _ what: String, _ endpoint: String,
        _ fields: [(name: String, value: LogValue)]
    ) {
        guard let leftOut = budgets.withLock({ $0[subject, default: NoticeBudget()].take(at: now()) }) else { return }
        let origin = endpoints.endpoint(endpoint)?.terms.origin ?? ""
        logger.log(
            level, what,
            [("endpoint", .string(endpoint)), ("origin", .string(origin))] + fields
                + (leftOut > 0 ? [("left_out", .integer(leftOut))] : []))
    }
}
