import AppStorePayloads
import EntitlementCore
package import Ledger
import StripeAPI
import StripePayloads

/// Reads from Stripe's API what an event says too little about by itself: for which invoice a refund was made, the rest of
/// a long invoice, and once more whatever two events may have said in the wrong order.
///
/// What is owed is derived from the log and kept in the database, so nothing is lost with a process. What a reading brought
/// is an event of its own, if it says something new.
package struct StripeLookups: Sendable {
    /// When it works: at once while something is due.
    package static let intervals = Repetition(
        regular: .seconds(5), elsewhere: .seconds(5), retry: .seconds(10), longestRetry: .seconds(300))

    /// How many are taken, and read, at once.
    private static let width = 4
    /// How long one reading may take; whoever took it has it for longer.
    private static let limit = Duration.seconds(25)

    private let desk: StripeDesk
    private let projector: WebLookupProjector
    private let register: WebLookupRegister
    private let intervals: Repetition

    /// - Parameter projector: notes what is owed, as ``calls`` says.
    package init(
        _ desk: StripeDesk, projector: WebLookupProjector, register: WebLookupRegister,
        intervals: Repetition = StripeLookups.intervals
    ) {
        self.desk = desk
        self.projector = projector
        self.register = register
        self.intervals = intervals
    }

    /// What an event calls for, by its evidence.
    @Sendable
    package static func calls(_ evidence: [UInt8], _ record: EventRecord) -> [WebCall] {
        // What cannot be read any more is for `verify` to name.
        guard let event = try? StripeEvent(evidence: evidence, of: record) else { return [] }
        let again = event.followUps.filter { $0.urgency == .soon }.map { WebCall(path: $0.lookup.path) }
        return (event.followUps.contains { $0.urgency == .now } ? [WebCall(path: nil)] : []) + again
    }

    // MARK: - Working

    /// Works until the current task is cancelled.
    package func run(_ watch: WorkWatch) async {
        await withTaskGroup(of: Void.self) { group in
            for client in desk.clients {
                let work: WorkWatch.Work = client.environment == .production ? .stripeProduction : .stripeSandbox
                group.addTask {
                    await intervals.run {
                        let isDone = await watch.watch(work) { while try await round(client) > 0 {} }
                        return isDone ? .done : .failed
                    }
                }
            }
        }
    }

    /// Goes once through some of what is due in every environment; returns how many were read.
    ///
    /// - Throws: `StripeAPIError` where Stripe cannot be asked at all.
    package func round() async throws -> Int {
        var count = 0
        for client in desk.clients { count += try await round(client) }
        return count
    }

    private func round(_ client: StripeClient) async throws -> Int {
        try await projector.catchUp(now: desk.now())
        desk.metrics.note(owedLookups: try await register.count(client.environment), client.environment)
        let due = try await register.take(client.environment, now: desk.now(), limit: Self.width)
        // What is read again may be what an event called for, too: then it says nothing new any more.
        for isOfEvent in [true, false] {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for owed in due where owed.isOfEvent == isOfEvent { group.addTask { try await read(owed, client) } }
                try await group.waitForAll()
            }
        }
        return due.count
    }

    /// Reads at once what an event cannot take effect without, as far as nobody else is at it.
    ///
    /// - Throws: where it cannot be read now; then it is tried again.
    func settle(_ position: Int64, _ environment: StoreEnvironment) async throws {
        guard let client = desk.client(environment)?.taking(.webhooks) else { return }
        try await projector.catchUp(now: desk.now())
        guard let owed = try await register.take(eventAt: position, environment, now: desk.now()) else { return }
        try await read(owed, client)
    }

    // MARK: - Reading

    /// Reads one thing and says what came of it.
    ///
    /// - Throws: `StripeAPIError` where Stripe cannot be asked at all, or what the database throws.
    private func read(_ owed: OwedLookup, _ client: StripeClient) async throws {
        do {
            let outcome = try await settle(owed, client)
            desk.metrics.count(.webLookups, [outcome.label])
            try await register.finish(owed)
        } catch let error as StripeAPIError {
            desk.metrics.count(.webLookups, ["failed"])
            try await postpone(owed, "\(error)", isOwn: !error.isOfEveryRequest)
            if error.isOfEveryRequest { throw error }
        } catch let error as PayloadError {
            desk.metrics.count(.webLookups, ["failed"])
            try await postpone(owed, "what Stripe's API answered cannot be used: \(error)", isOwn: true)
        }
    }

    private func settle(_ owed: OwedLookup, _ client: StripeClient) async throws -> StripeDesk.Outcome {
        let end = ContinuousClock.now + Self.limit
        guard let (shown, evidence) = try await desk.reader.event(at: owed.position), let evidence else {
            return .withheld
        }
        let body = StripeEvent.body(evidence, of: shown.record)
        let event = try StripeEvent(evidence: evidence, of: shown.record)
        var reading = StripeReading(environment: owed.environment, readAt: desk.now())
        // Of what an event calls for, one answer may settle the rest; a thin one says only which object it is about.
        let first = event.followUps.map(\.lookup).filter { $0.path == owed.path || owed.isOfEvent && event.isThin }
        if owed.isOfEvent { try reading.add(subject: body) }
        try await desk.complete(&reading, beginningWith: first, client, until: end)
        return try await desk.record(reading).outcome
    }

    private func postpone(_ owed: OwedLookup, _ reason: String, isOwn: Bool) async throws {
        let now = desk.now()
        // Also when this task was cancelled: another goes on at once.
        try await Task { [register, logger = desk.logger] in
            if let since = owed.failingSince, now.milliseconds - since.milliseconds > Self.longestFailing {
                logger.log(
                    .error, "something of Stripe's could not be read for thirty days, and is given up",
                    [("position", .integer(owed.position)), ("error", .string(reason))])
                return try await register.finish(owed)
            }
            let pause =
                isOwn ? min(Self.longestPause, Self.firstPause << Int64(min(owed.attempts, 20))) : Self.firstPause
            try await register.postpone(owed, to: now.adding(milliseconds: pause), isOwn: isOwn, reason)
            guard isOwn else { return }
            logger.log(
                .warning, "something of Stripe's cannot be read; it is tried again, and the others go on",
                [
                    ("position", .integer(owed.position)), ("error", .string(reason)),
                    ("next_try_at", .string(now.adding(milliseconds: pause).description)),
                ])
        }.value
    }

    /// After one could not be read, though others might; doubled for each further time, in milliseconds.
    private static let firstPause: Int64 = 10_000
    private static let longestPause: Int64 = 6 * 3_600_000
    /// Stripe itself keeps events for as long.
    private static let longestFailing: Int64 = 30 * Timestamp.millisecondsPerDay
}

extension StripeDesk.Outcome {
    /// As it is counted.
    fileprivate var label: String {
        switch self {
        case .recorded: "recorded"
        case .known: "known"
        case .foreign: "foreign"
        case .withheld: "withheld"
        }
    }
}
