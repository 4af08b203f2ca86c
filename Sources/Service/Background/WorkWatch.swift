package import Ledger

/// Says when work behind the service fails, and when it succeeds again: in the log, and in the database for `status`.
package actor WorkWatch {
    /// What a service does besides answering.
    package enum Work: String, Sendable, CaseIterable {
        /// Recording anything, which somebody else's transaction, or a full disk, may keep from going on.
        case appends
        /// Making further connections to the database.
        case connections
        case views
        case remarks
        case charts
        case tree
        case streams
        case consumption
        case drift
        case webhooks
        case webhookUpkeep = "webhook_upkeep"
        case idempotencyKeys = "idempotency_keys"
        case checkpoints
        case passKeys = "pass_keys"
        case stripeProduction = "stripe_production"
        case stripeSandbox = "stripe_sandbox"
        case stripeEventsProduction = "stripe_events_production"
        case stripeEventsSandbox = "stripe_events_sandbox"
        case stripeListsProduction = "stripe_lists_production"
        case stripeListsSandbox = "stripe_lists_sandbox"
    }

    /// Between lines of the log, and rows of the database, about work that goes on failing.
    private static let interval = Duration.seconds(60)

    private let failures: WorkFailures
    private let host: String
    private let logger: Logger
    private var reported: [Work: ContinuousClock.Instant] = [:]
    /// What has succeeded since it last failed, and when the database was told: it may go back to what it said before, as after
    /// a failover.
    private var succeeded: [Work: ContinuousClock.Instant] = [:]
    /// How often the database is told.
    private static let repetition = Duration.seconds(3600)

    /// - Parameter host: the name of this machine.
    package init(failures: WorkFailures, host: String, logger: Logger) {
        self.failures = failures
        self.host = host
        self.logger = logger
    }

    /// Forgets what an earlier service of this machine noted.
    package func begin() async { try? await failures.begin(on: host) }

    /// Does some work; returns what came of it, `nil` where it failed.
    ///
    /// While the database is away nothing is noted: every request says so, and the work goes on when it is back.
    @discardableResult
    package func watch<Value: Sendable>(_ work: Work, _ body: @Sendable () async throws -> Value) async -> Value? {
        let value: Value
        do {
            value = try await body()
        } catch is CancellationError {
            return nil
        } catch let error as LedgerError where error.code == .unavailable {
            return nil
        } catch {
            await note(work, "\(error)")
            return nil
        }
        await noteSuccess(of: work)
        return value
    }

    private func note(_ work: Work, _ reason: String) async {
        succeeded[work] = nil
        if let last = reported[work], last.duration(to: .now) < Self.interval { return }
        reported[work] = .now
        logger.log(
            .error, "work behind the service fails",
            [("work", .string(work.rawValue)), ("error", .string(reason))])
        // Where the database does not take it either, the log has said it.
        try? await failures.note(work.rawValue, on: host, reason: reason)
    }

    private func noteSuccess(of work: Work) async {
        if let last = succeeded[work], last.duration(to: .now) < Self.repetition { return }
        if reported.removeValue(forKey: work) != nil {
            logger.log(.info, "work behind the service succeeds again", [("work", .string(work.rawValue))])
        }
        // Also the first time: a service before this one may have failed.
        guard (try? await failures.clear(work.rawValue, on: host)) != nil else { return }
        succeeded[work] = .now
    }
}
