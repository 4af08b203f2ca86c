import AppStoreServer
import EntitlementAPI
package import EntitlementCore
package import Ledger
import OutgoingHTTP

/// Asks the store, behind the service, about what is overdue, disputed or was announced by half, some original transactions
/// at a time.
///
/// One process at a time does it for each app and environment. What was not finished is due still, so whoever comes after a
/// crash goes on with it. One that the store cannot be asked about waits by itself, and keeps no other from its turn.
package struct StoreRepairer: Sendable {
    /// When it works.
    package static let intervals = Repetition(
        regular: .seconds(60), elsewhere: .seconds(15), retry: .seconds(60), longestRetry: .seconds(900))

    /// What one round came to.
    enum Round: Sendable, Equatable {
        case checked(Int)
        case elsewhere
        case failed
    }

    /// How many originals are looked up at once.
    private static let page = 50
    /// How many are asked about at once, which is all that matters where the store is slow: each request waits for its turn.
    private static let width = 8
    /// After so many different ones in a row that the store could not be asked about, it is the store.
    private static let mostInARow = 5
    /// How long the store may take for one.
    private static let patience = Duration.seconds(120)

    let checks: [(check: StoreCheck, environment: StoreEnvironment)]
    private let register: CheckRegister
    private let reader: LedgerReader
    private let metrics: Metrics
    private let logger: Logger
    private let intervals: Repetition
    private let now: @Sendable () -> Timestamp

    /// - Parameter checks: one for each app and each of its environments.
    package init(
        _ checks: [(check: StoreCheck, environment: StoreEnvironment)], register: CheckRegister, reader: LedgerReader,
        metrics: Metrics, logger: Logger, intervals: Repetition = StoreRepairer.intervals,
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.checks = checks
        self.register = register
        self.reader = reader
        self.metrics = metrics
        self.logger = logger
        self.intervals = intervals
        self.now = now
    }

    /// Works until the current task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            for (check, environment) in checks {
                group.addTask {
                    await intervals.run {
                        switch await round(check, environment) {
                        case .checked(0): .done
                        case .checked: .more
                        case .elsewhere: .elsewhere
                        case .failed: .failed
                        }
                    }
                }
            }
        }
    }

    /// Goes once through what is due.
    func round(_ check: StoreCheck, _ environment: StoreEnvironment) async -> Round {
        let stream = StoreStream(app: check.app, environment: environment)
        let name = stream.logged
        do {
            guard try await register.hold(stream) else { return .elsewhere }
            let tally = try await Lease.keepAlive(by: { [register] in _ = try await register.hold(stream) }) {
                let due = try await register.due(stream, now: now(), limit: Self.page)
                return try await ask(check, due, name)
            }
            if let error = tally.error { try await register.fail(stream, error) }
            try await register.release(stream)
            if tally.repaired > 0 {
                logger.log(
                    .warning, "the store was asked, and told what had not been heard",
                    name + [
                        ("checked", .integer(Int64(tally.answered))), ("repaired", .integer(Int64(tally.repaired))),
                    ])
            }
            if let error = tally.error {
                logger.log(
                    .error, "the store cannot be asked now; it is tried again", name + [("error", .string(error))])
                return .failed
            }
            return tally.isElsewhere ? .elsewhere : .checked(tally.answered + tally.failed)
        } catch {
            let error = await Lease.letGo(after: error) { [register] _ in try await register.release(stream) }
            if !(error is CancellationError) {
                logger.log(
                    .warning, "what is overdue cannot be looked after now",
                    name + [("error", .string("\(error)"))])
            }
            return .failed
        }
    }

    /// What came of those that were due.
    private struct Tally {
        var answered = 0
        var repaired = 0
        var failed = 0
        /// Failures since the last answer.
        var inARow = 0
        /// Another process has taken over.
        var isElsewhere = false
        /// Why nothing more is asked about, with the one that it was found out by.
        var error: String?
        var isOver: Bool { isElsewhere || error != nil }
    }

    /// What came of one.
    private enum Answer: Sendable {
        case told(isRepaired: Bool)
        case failed(DueCheck, StoreAPIError)
        case elsewhere
    }

    /// Asks about several at once, and goes on beside one that the store cannot be asked about.
    private func ask(_ check: StoreCheck, _ due: [DueCheck], _ name: [(String, LogValue)]) async throws -> Tally {
        var waiting = due[...]
        var tally = Tally()
        try await withThrowingTaskGroup(of: Answer.self) { group in
            var running = 0
            while running > 0 || (!waiting.isEmpty && !tally.isOver) {
                while running < Self.width, !tally.isOver, let item = waiting.popFirst() {
                    running += 1
                    group.addTask { try await answer(check, item) }
                }
                guard let answer = try await group.next() else { break }
                running -= 1
                switch answer {
                case .told(let isRepaired):
                    tally.answered += 1
                    tally.repaired += isRepaired ? 1 : 0
                    tally.inARow = 0
                case .elsewhere: tally.isElsewhere = true
                case .failed(let item, let error):
                    try Task.checkCancellation()
                    metrics.count(.storeChecks, ["repair", "failed"])
                    tally.failed += 1
                    tally.inARow += 1
                    let words = "original transaction \(item.originalTransactionID): \(error)"
                    if error.reach == .everyRequest {
                        tally.error = words
                        continue
                    }
                    try await postpone(item, error, name)
                    if tally.inARow >= Self.mostInARow { tally.error = words }
                }
            }
        }
        // All of a few are as many in a row as there can be.
        if tally.error == nil, tally.failed > 1, tally.answered == 0, !tally.isElsewhere {
            tally.error = "none of \(tally.failed) could be asked about; see the log"
        }
        return tally
    }

    private func postpone(_ item: DueCheck, _ error: StoreAPIError, _ name: [(String, LogValue)]) async throws {
        let again = now().adding(Self.unanswered.pause(after: item.attempts + 1))
        try await register.postpone(item, again: again, error.description)
        logger.log(
            .error, "the store cannot be asked about a subscription; the others go on",
            name + [
                ("original_transaction_id", .string(item.originalTransactionID)),
                ("error", .string(error.description)), ("next_try_at", .string(again.description)),
            ])
    }

    /// Asks about one original transaction.
    private func answer(_ check: StoreCheck, _ item: DueCheck) async throws -> Answer {
        // Each answer takes its time, and another may have taken over meanwhile.
        guard try await register.hold(item.stream) else { return .elsewhere }
        let known = try await reader.subscription(item.originalTransactionID, environment: item.stream.environment)
        if let subscription = known.subscription, try await reader.isForgotten(subscription) {
            // The answer would name them again.
            try await register.finish(
                item, again: now().adding(Self.settled.longest), isRepaired: false, isSettled: true,
                restingOn: [subscription.end])
            return .told(isRepaired: false)
        }
        let finding: StoreCheck.Finding
        do {
            finding = try await check.run(
                item.originalTransactionID, in: item.stream.environment, within: Self.patience)
        } catch let error as StoreAPIError {
            return .failed(item, error)
        }
        let isKnown = finding.originalTransactionID != nil
        let isRepaired = finding.recorded.contains { $0.originalTransactionID == item.originalTransactionID }
        metrics.count(
            .storeChecks, [item.reason.rawValue, isRepaired ? "recorded" : isKnown ? "known" : "unknown"])
        try await register.finish(
            item, again: now().adding(Self.settled.pause(after: item.attempts + 1)), isRepaired: isRepaired,
            isSettled: try await isSettled(item, finding), restingOn: finding.ends)
        return .told(isRepaired: isRepaired)
    }

    /// Whether the store itself says that nothing is missing: its word is the ledger's, and all of it was believed.
    ///
    /// What the store does not know at all is not settled: it may be another store, or another app, than the ledger's.
    private func isSettled(_ item: DueCheck, _ finding: StoreCheck.Finding) async throws -> Bool {
        guard finding.refused == 0, let status = finding.statuses[item.originalTransactionID],
            let latest = finding.latest(of: item.originalTransactionID)
        else { return false }
        let now = now()
        let known = try await reader.subscription(item.originalTransactionID, environment: item.stream.environment)
        let state = known.subscription?.document(at: now, knownAt: known.position).state
        let word = StoreCheckDocument.StoreWord(status: status, latest: latest, renewal: nil, transactions: 1)
        return word.state != nil && word.state == state
    }

    /// After the store had nothing new to say.
    private static let settled = Backoff(first: .seconds(6 * 3600), longest: .seconds(30 * 86_400))
    /// After the store could not be asked about one, though about others.
    private static let unanswered = Backoff(first: .seconds(600), longest: .seconds(30 * 86_400))
}
