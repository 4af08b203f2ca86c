import AppStoreServer
package import EntitlementCore
package import Ledger

/// Asks the store, behind the service, about what is overdue, disputed or was announced by half, one original transaction
/// after the other.
///
/// One process at a time does it for each app and environment. What was not finished is due still, so whoever comes after a
/// crash goes on with it.
package struct StoreRepairer: Sendable {
    /// When it works.
    package struct Intervals: Sendable {
        /// While nothing is due.
        package var idle = Duration.seconds(60)
        /// While another process is at work, which may die.
        package var elsewhere = Duration.seconds(15)
        /// After the store could not be asked; doubled for each further time.
        package var retry = Duration.seconds(60)
        package var longestRetry = Duration.seconds(900)

        package init() {}
    }

    /// What one round came to.
    package enum Round: Sendable, Equatable {
        case checked(Int)
        case elsewhere
        case failed
    }

    /// How many originals are looked up at once.
    private static let page = 50
    /// Well below the time after which a silent holder is taken for dead.
    private static let heartbeat = Duration.seconds(10)
    /// How long the store may take for one.
    private static let patience = Duration.seconds(120)

    private let checks: [(check: StoreCheck, environment: StoreEnvironment)]
    private let register: StreamRegister
    private let reader: LedgerReader
    private let metrics: Metrics
    private let logger: Logger
    private let intervals: Intervals
    private let now: @Sendable () -> Timestamp

    /// - Parameter checks: one for each app and each of its environments.
    package init(
        _ checks: [(check: StoreCheck, environment: StoreEnvironment)], register: StreamRegister, reader: LedgerReader,
        metrics: Metrics, logger: Logger, intervals: Intervals = Intervals(), now: @escaping @Sendable () -> Timestamp
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
                    var retry = intervals.retry
                    while !Task.isCancelled {
                        switch await round(check, environment) {
                        case .checked(let count):
                            retry = intervals.retry
                            if count == 0 { try? await Task.sleep(for: intervals.idle) }
                        case .elsewhere: try? await Task.sleep(for: intervals.elsewhere)
                        case .failed:
                            try? await Task.sleep(for: retry)
                            retry = min(intervals.longestRetry, retry * 2)
                        }
                    }
                }
            }
        }
    }

    /// Goes once through what is due, of every app and environment; returns how many were asked about.
    package func roundOfAll() async -> [Round] {
        var rounds: [Round] = []
        for (check, environment) in checks { rounds.append(await round(check, environment)) }
        return rounds
    }

    private func round(_ check: StoreCheck, _ environment: StoreEnvironment) async -> Round {
        let stream = StoreStream(app: check.app, environment: environment)
        let name: [(String, LogValue)] = [
            ("app", .string(stream.app)), ("environment", .string(environment.rawValue)),
        ]
        do {
            guard try await register.hold(stream) else { return .elsewhere }
            let signs = Task { [register] in
                while !Task.isCancelled {
                    try await Task.sleep(for: Self.heartbeat)
                    _ = try? await register.hold(stream)
                }
            }
            defer { signs.cancel() }
            let due = try await register.due(stream, now: now(), limit: Self.page)
            var repaired = 0
            for item in due {
                try Task.checkCancellation()
                // Each answer takes its time, and another may have taken over meanwhile.
                guard try await register.hold(stream) else { return .elsewhere }
                if try await ask(check, item) { repaired += 1 }
            }
            signs.cancel()
            try await register.release(stream)
            if repaired > 0 {
                logger.log(
                    .warning, "the store was asked, and told what had not been heard",
                    name + [("checked", .integer(Int64(due.count))), ("repaired", .integer(Int64(repaired)))])
            }
            return .checked(due.count)
        } catch let error as StoreAPIError where !Task.isCancelled {
            metrics.count(.storeChecks, ["repair", "failed"])
            try? await register.fail(stream, error.description)
            try? await register.release(stream)
            logger.log(
                .error, "the store cannot be asked now; it is tried again", name + [("error", .string("\(error)"))])
            return .failed
        } catch {
            let isStopped = error is CancellationError || Task.isCancelled
            // Also when this task is cancelled: another process goes on at once.
            await Task { [register] in try? await register.release(stream) }.value
            if !isStopped {
                logger.log(
                    .warning, "what is overdue cannot be looked after now",
                    name + [("error", .string("\(error)"))])
            }
            return .failed
        }
    }

    /// Asks about one original transaction; returns whether the store told something new.
    private func ask(_ check: StoreCheck, _ item: DueCheck) async throws -> Bool {
        if try await isForgotten(item) {
            // The answer would name them again.
            try await register.finish(item, again: now().adding(milliseconds: Self.longestPause), isRepaired: false)
            return false
        }
        let finding = try await check.run(
            item.originalTransactionID, in: item.stream.environment, within: Self.patience)
        let isKnown = finding.originalTransactionID != nil
        let isRepaired = finding.recorded.contains { $0.originalTransactionID == item.originalTransactionID }
        metrics.count(
            .storeChecks, [item.reason.rawValue, isRepaired ? "recorded" : isKnown ? "known" : "unknown"])
        let pause = min(Self.longestPause, Self.firstPause << Int64(min(item.attempts, 20)))
        try await register.finish(item, again: now().adding(milliseconds: pause), isRepaired: isRepaired)
        return isRepaired
    }

    /// After the store had nothing new to say; doubled for each further time, in milliseconds.
    private static let firstPause: Int64 = 6 * 3_600_000
    private static let longestPause: Int64 = 30 * Timestamp.millisecondsPerDay

    /// Whether somebody whom its statements name was forgotten.
    private func isForgotten(_ item: DueCheck) async throws -> Bool {
        let known = try await reader.subscription(item.originalTransactionID, environment: item.stream.environment)
        let people = Set(
            (known.subscription?.state.transactions ?? []).flatMap {
                [$0.fact.accountToken, $0.fact.appTransaction].compactMap(\.self)
            })
        return try await reader.customerIDs(of: Array(people)).count < people.count
    }
}
