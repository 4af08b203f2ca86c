import AppStorePayloads
import EntitlementCore
package import Ledger
import OutgoingHTTP
import StripeAPI
import StripePayloads
import Synchronization

/// Reads from Stripe's API what an event says too little about by itself: for which invoice a refund was made, the rest of
/// a long invoice, and once more whatever two events may have said in the wrong order.
///
/// What is owed is derived from the log and kept in the database, so nothing is lost with a process. What a reading brought
/// is an event of its own, if it says something new.
package struct StripeLookups: Sendable {
    /// What the operator has to mend; what can be read is read meanwhile.
    private struct Complaint: Error, CustomStringConvertible {
        let description: String
    }

    /// When it works: at once while something is due.
    package static let intervals = Repetition(
        regular: .seconds(5), elsewhere: .seconds(5), retry: .seconds(10), longestRetry: .seconds(300))

    /// How many are taken at once.
    private static let width = 4
    /// Of what was taken, what is read first, all of it at once, and then.
    ///
    /// What is read again may be what an event called for, too: then it says nothing new any more.
    private static let isOfEventInTurn = [true, false]
    /// How long one reading may take.
    private static let limit = Duration.seconds(25)

    private let ingestion: StripeIngestion
    private let keyWatches: [StoreEnvironment: StripeKeyWatch]
    private let rests: [StoreEnvironment: StripeRest]
    /// Many webhooks come at once, and all want what is owed noted: one does it for the others.
    private let noting: SharedWork
    private let register: WebLookupRegister
    private let intervals: Repetition

    /// - Parameters:
    ///   - projector: notes what is owed, as ``calls`` says.
    ///   - keyInterval: between looks at whether the operator has mended what only they can mend.
    package init(
        _ ingestion: StripeIngestion, projector: WebLookupProjector, register: WebLookupRegister,
        intervals: Repetition = StripeLookups.intervals, keyInterval: Duration = .seconds(60)
    ) {
        self.ingestion = ingestion
        keyWatches = Dictionary(
            ingestion.clients.map {
                ($0.environment, StripeKeyWatch($0, ingestion, register: register, interval: keyInterval))
            }
        ) { first, _ in first }
        rests = Dictionary(
            ingestion.clients.map { ($0.environment, StripeRest(intervals.backoff)) }
        ) { first, _ in first }
        noting = SharedWork { [now = ingestion.now] in
            guard try await projector.catchUp(now: now(), patience: Self.patience) else {
                throw LedgerError(
                    .unavailable, "another process notes what is to be read from Stripe's API, and takes long")
            }
        }
        self.register = register
        self.intervals = intervals
    }

    /// What an event calls for, by its evidence.
    @Sendable
    package static func calls(_ evidence: [UInt8], _ record: EventRecord) -> [WebCall] {
        // What cannot be read any more is for `verify` to name.
        guard let event = try? StripeEvent(evidence: evidence, of: record) else { return [] }
        let again = event.followUps.filter { $0.urgency == .soon }.map { WebCall(path: $0.lookup.path) }
        let isUrgent = event.followUps.contains { $0.urgency == .now }
        return (isUrgent ? [WebCall(path: nil, names: event.fact.untracedNames)] : []) + again
    }

    // MARK: - Working

    /// Works until the current task is cancelled.
    package func run(_ watch: WorkWatch) async {
        await withTaskGroup(of: Void.self) { group in
            for client in ingestion.clients {
                let work: WorkWatch.Work = client.environment == .production ? .stripeProduction : .stripeSandbox
                let keyWatch = keyWatches[client.environment]
                group.addTask {
                    await intervals.run {
                        let isRead = Mutex(false)
                        // A webhook may have begun it.
                        if let left = rests[client.environment]?.left() { try? await Task.sleep(for: left) }
                        await watch.watch(work) {
                            try await keyWatch?.look()
                            while try await round(client) > 0 {}
                            isRead.withLock { $0 = true }
                            if let complaint = try await keyWatch?.complaint() {
                                throw Complaint(description: complaint)
                            }
                        }
                        return isRead.withLock(\.self) ? .done : .failed
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
        for client in ingestion.clients { count += try await round(client) }
        return count
    }

    private func round(_ client: StripeClient) async throws -> Int {
        try await noting.join()
        ingestion.metrics.note(owedLookups: try await register.count(client.environment), client.environment)
        let due = try await register.take(
            client.environment, for: Self.limit * Self.isOfEventInTurn.count, now: ingestion.now(), limit: Self.width)
        for isOfEvent in Self.isOfEventInTurn {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for owed in due where owed.isOfEvent == isOfEvent { group.addTask { try await read(owed, client) } }
                try await group.waitForAll()
            }
        }
        return due.count
    }

    /// Reads at once what an event cannot take effect without, or waits until whoever reads it has done so.
    ///
    /// - Parameter limit: how long it may take.
    /// - Throws: where it cannot be read now; then it is tried again behind the answer.
    func settle(_ position: Int64, _ environment: StoreEnvironment, within limit: Duration) async throws {
        guard let client = ingestion.client(environment)?.taking(.webhooks) else { return }
        let start = ContinuousClock.now
        let end = start + limit
        try await noting.join()
        var isLookedUp = false
        while true {
            let isTakenOver = ContinuousClock.now - start >= Self.othersTime
            let taking = try await register.take(
                eventAt: position, environment, for: limit, now: ingestion.now(), isTakenOver: isTakenOver)
            switch taking {
            case .taken(let owed): return try await read(owed, client, until: end)
            case .settled: return
            case .putOff, .held:
                // Whoever reads it asks Stripe, and may have been killed, or has to wait; the log need not be waited for.
                if !isLookedUp, try await settleByLog(position, environment) { return }
                isLookedUp = true
                if case .putOff(let reason) = taking { throw LedgerError(.unavailable, reason) }
                guard ContinuousClock.now < end else {
                    throw LedgerError(.unavailable, "it is being read already, and that takes long")
                }
                try await Task.sleep(for: Self.pollInterval)
            }
        }
    }

    /// Lets refunds and disputes take effect that came before what they are about, as an event tells it now.
    func settle(tracedBy fact: WebFact, _ environment: StoreEnvironment) async throws {
        guard fact.tiesPayments, let original = fact.originalTransactionID else { return }
        let waiting = try await register.events(
            naming: fact.partIDs.union([original]), environment, limit: Self.mostTraced)
        for position in waiting {
            do {
                _ = try await settleByLog(position, environment)
            } catch is PayloadError {
                // Its own next reading tells why; it keeps nothing else from taking effect.
            }
        }
    }

    /// Settles what an event calls for, where the log tells all that is missing; Stripe is not asked.
    private func settleByLog(_ position: Int64, _ environment: StoreEnvironment) async throws -> Bool {
        guard let (shown, evidence) = try await ingestion.reader.event(at: position), let evidence else { return false }
        let event = try StripeEvent(evidence: evidence, of: shown.record)
        guard let original = try await ingestion.tracedOriginal(event) else { return false }
        var reading = StripeReading(environment: environment, readAt: ingestion.now())
        reading.knownOriginal = original
        try reading.add(subject: StripeEvent.body(evidence, of: shown.record))
        guard reading.next == nil else { return false }
        let result = try await ingestion.record(reading)
        try await register.finish(eventAt: position, environment, restingOn: result.end)
        ingestion.metrics.count(.webLookups, [result.outcome.label])
        return true
    }

    /// After this long a waiting webhook takes over a look-up that another process holds: that one may have been killed.
    private static let othersTime = Duration.seconds(1)
    /// How many refunds and disputes an event is let explain before it is answered; there may be many of a forged name only.
    private static let mostTraced = 16

    /// Between looks at whether somebody else has read something.
    private static let pollInterval = Duration.milliseconds(50)
    /// How long it is waited for that another process notes what is owed.
    private static let patience = Duration.seconds(5)

    // MARK: - Reading

    /// Reads one thing and says what came of it.
    ///
    /// - Parameter hurry: when a webhook is answered that waits for it; then whatever there was no time for is tried again at
    ///   once.
    /// - Throws: `StripeAPIError` where Stripe cannot be asked at all, or what the database throws; for a webhook whatever
    ///   keeps it from being read.
    private func read(
        _ owed: OwedLookup, _ client: StripeClient, until hurry: ContinuousClock.Instant? = nil
    ) async throws {
        do {
            let (outcome, end) = try await settle(
                owed, client, until: hurry ?? .now + Self.limit, heedingRest: hurry != nil)
            ingestion.metrics.count(.webLookups, [outcome.label])
            try await register.finish(owed, restingOn: end)
        } catch let error as StripeAPIError {
            ingestion.metrics.count(.webLookups, ["failed"])
            if error.isOfEveryRequest { rests[owed.environment]?.begin(error, at: owed.position) }
            let fault = Self.fault(error, owed)
            if case .permission(let operation)? = fault { await keyWatches[owed.environment]?.deny(operation) }
            if hurry != nil, error.kind == .outOfTime {
                try await letGo(owed, "\(error)")
            } else if fault == .object, try await isGone(owed) {
                return try await giveUp(owed, "Stripe has deleted what it told of", "\(error)")
            } else {
                let reason = error.kind == .notFound ? "\(error). \(Self.unknownToStripe)" : "\(error)"
                try await postpone(owed, reason, isOwn: !error.isOfEveryRequest, fault: fault)
            }
            if error.isOfEveryRequest || hurry != nil { throw error }
        } catch let error as PayloadError {
            ingestion.metrics.count(.webLookups, ["failed"])
            try await postpone(
                owed, "what Stripe's API answered cannot be used: \(error)", isOwn: true, fault: nil)
            if hurry != nil { throw error }
        } catch  where Task.isCancelled {
            try await letGo(owed, "stopped while it was read")
            throw error
        }
    }

    private static let unknownToStripe =
        "It told of that itself: is the key of secret_key_path of the account whose webhooks come here, and was test data deleted"

    /// What the operator has to mend before something can be read.
    private static func fault(_ error: StripeAPIError, _ owed: OwedLookup) -> WebLookupFault? {
        switch error.kind {
        case .unauthorized: .key
        case .forbidden: .permission(error.operation)
        // The first time it may only have been asked for too early.
        case .notFound: owed.attempts > 0 ? .object : nil
        case .limited, .refused, .unavailable, .unreadable, .outOfTime: nil
        }
    }

    /// Whether what Stripe does not know any more was deleted there: the key is of the right account, and it was asked for
    /// again and again for forty minutes.
    private func isGone(_ owed: OwedLookup) async throws -> Bool {
        guard owed.attempts >= Self.attemptsAtObject else { return false }
        return try await keyWatches[owed.environment]?.isOfRightAccount() ?? false
    }

    private static let attemptsAtObject = 8

    /// - Parameter heedsRest: when a webhook waits for it, which comes at any time; the others begin behind the rest.
    /// - Returns: also where the log ended once it held what was read.
    private func settle(
        _ owed: OwedLookup, _ client: StripeClient, until end: ContinuousClock.Instant, heedingRest heedsRest: Bool
    ) async throws -> (StripeIngestion.Outcome, EventMark) {
        guard let (shown, evidence) = try await ingestion.reader.event(at: owed.position), let evidence else {
            return (.withheld, .none)
        }
        let body = StripeEvent.body(evidence, of: shown.record)
        let event = try StripeEvent(evidence: evidence, of: shown.record)
        var reading = StripeReading(environment: owed.environment, readAt: ingestion.now())
        // Of what an event calls for, one answer may settle the rest; a thin one says only which object it is about.
        let first = event.followUps.map(\.lookup).filter { $0.path == owed.path || owed.isOfEvent && event.isThin }
        if owed.isOfEvent { try reading.add(subject: body) }
        // Only what the log cannot tell is asked of Stripe.
        reading.knownOriginal = try await ingestion.tracedOriginal(event)
        let (keyWatch, rest) = (keyWatches[owed.environment], rests[owed.environment])
        try await ingestion.complete(&reading, beginningWith: first) { lookup in
            let request = StripeRequest.get(lookup)
            if heedsRest, let reason = rest?.reason() {
                throw StripeAPIError(.unavailable, of: request.operation, "nothing was sent, because of: \(reason)")
            }
            do {
                let answer = try await client.send(request, within: end - .now)
                rest?.end()
                try await keyWatch?.allow(request.operation)
                return answer
            } catch let error as StripeAPIError where error.kind == .notFound && lookup.isSearch {
                // Of all else Stripe itself has told: then it is another account's, or not there yet.
                return nil
            }
        }
        let result = try await ingestion.record(reading)
        return (result.outcome, result.end)
    }

    /// Leaves something to whoever takes it next, now.
    private func letGo(_ owed: OwedLookup, _ reason: String) async throws {
        let now = ingestion.now()
        try await Task { [register] in
            try await register.postpone(owed, to: now, isOwn: false, fault: nil, reason)
        }.value
    }

    private func giveUp(_ owed: OwedLookup, _ why: String, _ reason: String) async throws {
        ingestion.logger.log(
            .error, "something of Stripe's is not read any more: \(why)",
            [("position", .integer(owed.position)), ("error", .string(reason))])
        try await register.finish(owed)
    }

    private func postpone(
        _ owed: OwedLookup, _ reason: String, isOwn: Bool, fault: WebLookupFault?
    ) async throws {
        let now = ingestion.now()
        // Also when this task was cancelled: another goes on at once.
        try await Task { [register, logger = ingestion.logger] in
            if let since = owed.failingSince, now.milliseconds - since.milliseconds > Self.longestFailing {
                return try await giveUp(owed, "it could not be read for thirty days", reason)
            }
            let again = now.adding(Self.backoff.pause(after: isOwn ? owed.attempts + 1 : 1))
            try await register.postpone(owed, to: again, isOwn: isOwn, fault: fault, reason)
            // What only the operator can mend is said once for all that wait for it.
            guard isOwn, fault == nil else { return }
            logger.log(
                .warning, "something of Stripe's cannot be read; it is tried again, and the others go on",
                [
                    ("position", .integer(owed.position)), ("error", .string(reason)),
                    ("next_try_at", .string(again.description)),
                ])
        }.value
    }

    /// After one could not be read, though others might.
    private static let backoff = Backoff(first: .seconds(10), longest: .seconds(6 * 3600))
    /// Stripe itself keeps events for as long.
    private static let longestFailing: Int64 = 30 * Timestamp.millisecondsPerDay
}

extension StripeIngestion.Outcome {
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
