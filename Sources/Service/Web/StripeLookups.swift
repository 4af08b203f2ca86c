import AppStorePayloads
package import EntitlementCore
package import Ledger
package import StripeAPI
import StripePayloads

/// Reads from Stripe's API what an event says too little about by itself: for which invoice a refund was made, the rest of
/// a long invoice, and once more whatever two events may have said in the wrong order.
///
/// What is owed is derived from the log and kept in the database, so nothing is lost with a process. What a reading brought
/// is an event of its own, if it says something new.
package struct StripeLookups: Sendable {
    /// When it works.
    package struct Intervals: Sendable {
        /// While nothing is due.
        package var idle = Duration.seconds(5)
        /// After Stripe could not be asked at all; doubled for each further time.
        package var retry = Duration.seconds(10)
        package var longestRetry = Duration.seconds(300)

        package init() {}
    }

    /// What came of one.
    private enum Outcome: String {
        case recorded
        /// It says nothing that the ledger does not know.
        case known
        /// It was not sold by this ledger's checkout.
        case foreign
        /// It is of somebody who was forgotten, or the event was erased.
        case withheld
        case failed
    }

    /// How many are taken, and read, at once.
    private static let width = 4
    /// How long one reading may take; whoever took it has it for longer.
    private static let limit = Duration.seconds(25)

    private let clients: [StoreEnvironment: StripeClient]
    private let projector: WebLookupProjector
    private let register: WebLookupRegister
    private let reader: LedgerReader
    private let metrics: Metrics
    private let logger: Logger
    private let intervals: Intervals
    private let now: @Sendable () -> Timestamp
    private let append: @Sendable (EventDraft) async throws -> AppendOutcome

    /// - Parameters:
    ///   - clients: one for each environment at most.
    ///   - projector: notes what is owed, as ``calls`` says.
    ///   - append: records an event.
    package init(
        _ clients: [StripeClient], projector: WebLookupProjector, register: WebLookupRegister, reader: LedgerReader,
        metrics: Metrics, logger: Logger, intervals: Intervals = Intervals(), now: @escaping @Sendable () -> Timestamp,
        append: @escaping @Sendable (EventDraft) async throws -> AppendOutcome
    ) {
        self.clients = Dictionary(clients.map { ($0.environment, $0) }) { first, _ in first }
        self.projector = projector
        self.register = register
        self.reader = reader
        self.metrics = metrics
        self.logger = logger
        self.intervals = intervals
        self.now = now
        self.append = append
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
            for client in clients.values {
                group.addTask { await run(client, watch) }
            }
        }
    }

    private func run(_ client: StripeClient, _ watch: WorkWatch) async {
        let work: WorkWatch.Work = client.environment == .production ? .stripeProduction : .stripeSandbox
        var retry = intervals.retry
        while !Task.isCancelled {
            if await watch.watch(work, { while try await round(client) > 0 {} }) {
                retry = intervals.retry
                try? await Task.sleep(for: intervals.idle)
            } else {
                try? await Task.sleep(for: retry)
                retry = min(intervals.longestRetry, retry * 2)
            }
        }
    }

    /// Goes once through some of what is due in every environment; returns how many were read.
    ///
    /// - Throws: `StripeAPIError` where Stripe cannot be asked at all.
    package func round() async throws -> Int {
        var count = 0
        for client in clients.values { count += try await round(client) }
        return count
    }

    private func round(_ client: StripeClient) async throws -> Int {
        try await projector.catchUp(now: now())
        let due = try await register.take(client.environment, now: now(), limit: Self.width)
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
        guard let client = clients[environment]?.taking(.webhooks) else { return }
        try await projector.catchUp(now: now())
        guard let owed = try await register.take(eventAt: position, environment, now: now()) else { return }
        try await read(owed, client)
    }

    // MARK: - Reading

    /// Reads one thing and says what came of it.
    ///
    /// - Throws: `StripeAPIError` where Stripe cannot be asked at all, or what the database throws.
    private func read(_ owed: OwedLookup, _ client: StripeClient) async throws {
        do {
            let outcome = try await settle(owed, client)
            metrics.count(.webLookups, [outcome.rawValue])
            try await register.finish(owed)
        } catch let error as StripeAPIError {
            metrics.count(.webLookups, [Outcome.failed.rawValue])
            try await postpone(owed, "\(error)", isOwn: !error.isOfEveryRequest)
            if error.isOfEveryRequest { throw error }
        } catch let error as PayloadError {
            metrics.count(.webLookups, [Outcome.failed.rawValue])
            try await postpone(owed, "what Stripe's API answered cannot be used: \(error)", isOwn: true)
        }
    }

    private func settle(_ owed: OwedLookup, _ client: StripeClient) async throws -> Outcome {
        let end = ContinuousClock.now + Self.limit
        guard let (shown, evidence) = try await reader.event(at: owed.position), let evidence else { return .withheld }
        let body = StripeEvent.body(evidence, of: shown.record)
        let event = try StripeEvent(evidence: evidence, of: shown.record)
        var reading = StripeReading(environment: owed.environment, readAt: now())
        // Of what an event calls for, one answer may settle the rest; a thin one says only which object it is about.
        var first = event.followUps.map(\.lookup).filter { $0.path == owed.path || owed.isOfEvent && event.isThin }[...]
        if owed.isOfEvent { try reading.add(subject: body) }
        while let lookup = first.popFirst() ?? reading.next {
            if let answer = try await client.answer(to: lookup, within: end - .now) {
                try reading.add(answer: answer, to: lookup)
            } else {
                try reading.addMissing(lookup)
            }
        }
        return try await record(reading)
    }

    /// Appends what a reading says, if that is something new.
    private func record(_ reading: StripeReading) async throws -> Outcome {
        let (fact, identities) = try reading.fact(sha256: SignedWebhook.hash)
        guard let original = fact.originalTransactionID else { return .foreign }
        let known = try await reader.subscription(original, environment: reading.environment)
        if let subscription = known.subscription {
            // The answer would name them again.
            if try await reader.isForgotten(subscription) { return .withheld }
            if let web = subscription.state.web, !web.learns(from: try await numbered(fact, identities, like: web)) {
                return .known
            }
        }
        _ = try await append(EventDraft(fact, identities, reading))
        return .recorded
    }

    /// The fact with the ledger's own numbers for the owners that it knows.
    private func numbered(
        _ fact: WebFact, _ identities: IdentityList, like web: WebOriginal
    ) async throws -> WebFact {
        let names = try await reader.customerIDs(of: web.owners.map(\.value.customer))
        let numbers = Dictionary(names.map { ($0.value, $0.key) }) { first, _ in first }
        var fact = fact
        fact.owners = fact.owners.map { owner in
            let name = identities.customerIDs[Int(owner.customer.number)]
            // Whoever is not among them has no number that is.
            return WebOwner(place: owner.place, customer: numbers[name] ?? IdentityRef(.min))
        }
        return fact
    }

    private func postpone(_ owed: OwedLookup, _ reason: String, isOwn: Bool) async throws {
        let now = now()
        // Also when this task was cancelled: another goes on at once.
        try await Task { [register] in
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
