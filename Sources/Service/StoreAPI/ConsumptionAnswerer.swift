package import AppStoreServer
package import EntitlementCore
package import Ledger
package import OutgoingHTTP
import Synchronization

/// Answers the store's questions about refund requests, of those apps alone whose configuration says that their customers
/// consented to it.
///
/// One process at a time does it for each app and environment. The log tells which questions are open, so after a crash
/// another process goes on with them. If a process dies between sending an answer and recording it, the answer is sent
/// again; it is the same one, because it depends only on the facts and the instant of the question, and the store keeps
/// the last.
package final class ConsumptionAnswerer: Sendable {
    /// An app in one environment whose customers consented, and who answers its questions.
    package struct ConsentedApp: Sendable {
        let client: StoreAPIClient
        let environment: StoreEnvironment
        let policy: ConsumptionPolicy

        package init(client: StoreAPIClient, environment: StoreEnvironment, policy: ConsumptionPolicy) {
            self.client = client
            self.environment = environment
            self.policy = policy
        }

        var stream: StoreStream { StoreStream(app: client.credentials.bundleID, environment: environment) }
    }

    /// When it works.
    package struct Intervals: Sendable {
        /// Between looks.
        package var look = Duration.seconds(5)
        /// After the store could not be told.
        package var backoff = Backoff(first: .seconds(60), longest: .seconds(900))

        package init() {}
    }

    /// How long the store may take for one answer: shorter than the time after which a silent holder is taken for dead.
    private static let patience = Duration.seconds(20)

    fileprivate struct State {
        /// Since when each stream's questions are answered; `nil` before the first look.
        var since: [StoreStream: Timestamp]?
        /// Up to where the log was looked through.
        var seen = EventMark.none
        var open: [Int64: ConsumptionRequest] = [:]
        /// When a stream is tried again whose store took nothing.
        var resting: [StoreStream: Rest] = [:]
        /// When a question is tried again that the store did not take.
        var failed: [Int64: Rest] = [:]
    }

    /// How long what failed is left alone.
    fileprivate struct Rest {
        var until: Timestamp
        /// How often it failed in a row.
        var failures: Int
    }

    private let apps: [ConsentedApp]
    private let register: ConsumptionRegister
    private let reader: LedgerReader
    private let append: @Sendable (EventDraft) async throws -> AppendOutcome
    private let metrics: Metrics
    private let logger: Logger
    private let watch: WorkWatch?
    private let intervals: Intervals
    private let now: @Sendable () -> Timestamp
    private let state = Mutex(State())

    /// - Parameters:
    ///   - apps: one for each app and environment whose customers consented.
    ///   - watch: says when looking fails.
    ///   - append: records an event.
    package init(
        _ apps: [ConsentedApp], register: ConsumptionRegister, reader: LedgerReader, metrics: Metrics, logger: Logger,
        watch: WorkWatch?, intervals: Intervals = Intervals(), now: @escaping @Sendable () -> Timestamp,
        append: @escaping @Sendable (EventDraft) async throws -> AppendOutcome
    ) {
        self.apps = apps
        self.register = register
        self.reader = reader
        self.metrics = metrics
        self.logger = logger
        self.watch = watch
        self.intervals = intervals
        self.now = now
        self.append = append
    }

    /// Works until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            if let watch { await watch.watch(.consumption) { try await self.look() } } else { try? await look() }
            try? await Task.sleep(for: intervals.look)
        }
    }

    /// Takes in what was asked since the last look, and answers what is open.
    package func look() async throws {
        if state.withLock({ $0.since == nil }) {
            let since = try await register.begin(apps.map(\.stream), now: now())
            state.withLock { $0.since = since }
        }
        guard !apps.isEmpty else { return }
        try await takeIn()
        for app in apps {
            let due = state.withLock { state -> [ConsumptionRequest] in
                let now = now()
                if let rest = state.resting[app.stream], rest.until > now { return [] }
                return state.open.values
                    .filter { $0.stream == app.stream && state.failed[$0.position].map { $0.until <= now } ?? true }
                    .sorted { rank($0, state, now) < rank($1, state, now) }
            }
            if !due.isEmpty { try await work(through: due, for: app) }
        }
        noteOpen()
    }

    /// What has the least time left comes first; what failed before comes after all others, unless its time is nearly over.
    private func rank(_ request: ConsumptionRequest, _ state: State, _ now: Timestamp) -> (Int, Timestamp, Int64) {
        let isLast =
            state.failed[request.position] != nil
            && request.deadline > now.adding(intervals.backoff.longest)
        return (isLast ? 1 : 0, request.askedAt, request.position)
    }

    private func takeIn() async throws {
        let (seen, since) = state.withLock { ($0.seen, $0.since ?? [:]) }
        // Those whose time was over when answering began were nobody's to answer.
        let oldest = (since.values.min() ?? now()).adding(milliseconds: -ConsumptionRequest.patience)
        let window = max(oldest, now().adding(milliseconds: -Self.memory))
        let news = try await register.requests(after: seen, since: window)
        let known = news.requests.filter { request in since[request.stream].map { request.deadline > $0 } ?? false }
        let candidates = state.withLock { state -> [Int64] in
            state.seen = news.upTo
            if news.isAnew { (state.open, state.failed) = ([:], [:]) }
            for request in known { state.open[request.position] = request }
            return Array(state.open.keys)
        }
        let settled = try await register.settled(candidates, knownAt: news.upTo)
        state.withLock { state in for position in settled { state.close(position) } }
    }

    /// For how long an open question is looked for after it was recorded, in milliseconds: far longer than anybody waits.
    private static let memory = 7 * Timestamp.millisecondsPerDay

    private func noteOpen() {
        let open = state.withLock { state in
            Dictionary(grouping: state.open.values, by: \.stream).mapValues(\.count)
        }
        metrics.note(openConsumptionRequests: apps.map { ($0.stream, open[$0.stream] ?? 0) })
    }

    private func work(through due: [ConsumptionRequest], for app: ConsentedApp) async throws {
        guard try await register.hold(app.stream) else { return }
        var failure: StoreAPIError?
        do {
            for request in due {
                try Task.checkCancellation()
                // Each answer takes its time, and another may have taken over meanwhile.
                guard try await register.hold(app.stream) else { return }
                do {
                    let seen = state.withLock { $0.seen }
                    if try await register.settled([request.position], knownAt: seen).isEmpty {
                        try await end(request, for: app, knownAt: seen)
                    }
                    state.withLock { $0.close(request.position) }
                } catch let error as StoreAPIError where !Task.isCancelled {
                    failure = error
                    // What the store cannot take of one transaction now keeps nobody else waiting, in the next round either.
                    state.withLock { state in
                        state.failed[request.position] = rest(
                            after: state.failed[request.position], before: request.deadline)
                    }
                    if error.reach != .oneRequest { break }
                }
            }
            try await register.release(app.stream)
        } catch {
            throw await Lease.letGo(after: error) { [register] _ in try await register.release(app.stream) }
        }
        state.withLock { state in
            guard let failure, failure.reach != .oneRequest else { return state.resting[app.stream] = nil }
            // Not beyond the last moment at which somebody's answer may still be in time.
            let first = state.open.values.filter { $0.stream == app.stream }.map(\.deadline).min()
            state.resting[app.stream] = rest(after: state.resting[app.stream], before: first)
        }
        if let failure { report(failure, app.stream) }
    }

    /// The next rest, which leaves time for an attempt before a deadline.
    private func rest(after last: Rest?, before deadline: Timestamp?) -> Rest {
        let now = now()
        let failures = (last?.failures ?? 0) + 1
        let shortest = intervals.backoff.first
        var until = now.adding(intervals.backoff.pause(after: failures))
        if let deadline { until = min(until, max(now, deadline).adding(.zero - shortest)) }
        return Rest(until: max(until, now.adding(shortest)), failures: failures)
    }

    private func report(_ error: StoreAPIError, _ stream: StoreStream) {
        metrics.count(.consumption, ["failed"])
        logger.log(
            .error, "the store cannot be told now how much was used; it is tried again until its 12 hours are over",
            stream.logged + [("error", .string("\(error)"))])
    }

    // MARK: - One question

    /// Brings a question to its end.
    ///
    /// - Parameter seen: the end of the log at which it was known.
    /// - Throws: `StoreAPIError` where it may still be answered later.
    private func end(_ request: ConsumptionRequest, for app: ConsentedApp, knownAt seen: EventMark) async throws {
        guard now() < request.deadline else {
            let wasInTime = request.recordedAt < request.deadline
            return try await settle(request, nil, wasInTime ? .tooLate : .withheld(.heardTooLate), knownAt: seen)
        }
        switch try await decision(request, app.policy) {
        case .withhold(let reason): try await settle(request, nil, .withheld(reason), knownAt: seen)
        case .tell(let information):
            do {
                try await app.client.send(
                    try .consumption(information, of: request.transactionID), in: app.environment,
                    within: Self.patience)
                try await settle(request, information, .accepted, knownAt: seen)
            } catch let error as StoreAPIError {
                guard error.isFinal else { throw error }
                try await settle(
                    request, information, .refused(code: error.code), error.description, knownAt: seen)
            }
        }
    }

    private func decision(_ request: ConsumptionRequest, _ policy: ConsumptionPolicy) async throws
        -> ConsumptionDecision
    {
        try await reader.consumption(
            of: request.transactionID, original: request.originalTransactionID, in: request.stream.environment,
            askedAt: request.askedAt, policy: policy)
    }

    private func settle(
        _ request: ConsumptionRequest, _ information: ConsumptionInformation?, _ outcome: StoreRequestFact.Outcome,
        _ words: String? = nil, knownAt seen: EventMark
    ) async throws {
        let fact = StoreRequestFact(
            bundleID: request.stream.app, originalTransactionID: request.originalTransactionID,
            content: .consumption(transactionID: request.transactionID, information), outcome: outcome,
            settles: request.position)
        let recorded = try await fact.recorded(
            in: request.stream.environment, source: .serverAPI, knownAt: seen, append)
        guard !recorded.isDuplicate else { return }
        metrics.count(.consumption, [outcome.word])
        var values = request.stream.logged + [("event", .integer(recorded.position))]
        if let words { values.append(("error", .string(words))) }
        switch outcome {
        case .accepted, .withheld, .pending:
            logger.log(.info, "a consumption request was settled", values + [("outcome", .string(outcome.word))])
        case .refused: logger.log(.error, "the store refused what it was told of a refund request", values)
        case .tooLate:
            logger.log(
                .warning, "a consumption request was not answered within 12 hours; the store decides without", values)
        }
    }
}

extension ConsumptionAnswerer.State {
    /// A question came to its end.
    fileprivate mutating func close(_ position: Int64) {
        open[position] = nil
        failed[position] = nil
    }
}

extension StoreAPIError {
    /// Whether the store itself will never take the same request: it gave a number, and not one that passes.
    package var isFinal: Bool {
        switch kind {
        case .refused, .notFound: code != nil && !isPassing
        case .unauthorized, .limited, .unavailable, .unreadable, .outOfTime: false
        }
    }
}

extension StoreRequestFact {
    /// Records it: what was told is an event also where somebody else has settled the same question meanwhile.
    ///
    /// - Parameter end: the end of the log at which the question was known, where nothing is to be recorded once that is lost.
    package func recorded(
        in environment: StoreEnvironment, source: EventSource, knownAt end: EventMark? = nil,
        _ append: (EventDraft) async throws -> AppendOutcome
    ) async throws -> AppendOutcome {
        func record(_ fact: StoreRequestFact) async throws -> AppendOutcome {
            var draft = EventDraft(fact, in: environment, source: source)
            draft.unchangedSince = end.map { UnchangedSince($0) }
            return try await append(draft)
        }
        let recorded = try await record(self)
        guard recorded.isDuplicate, case .consumption(_, .some) = content else { return recorded }
        var beside = self
        beside.settles = nil
        return try await record(beside)
    }
}

extension StoreRequestFact.Outcome {
    /// As metrics and the log name it.
    package var word: String {
        switch self {
        case .pending: "pending"
        case .accepted: "accepted"
        case .refused: "refused"
        case .tooLate: "too_late"
        case .withheld: "withheld"
        }
    }
}

extension LedgerReader {
    /// What is to be told of a transaction, from what the ledger knows now.
    package func consumption(
        of transactionID: String, original: String, in environment: StoreEnvironment, askedAt: Timestamp,
        policy: ConsumptionPolicy
    ) async throws -> ConsumptionDecision {
        let known = try await subscription(original, environment: environment)
        guard let facts = known.subscription else { return .withhold(.unknownTransaction) }
        guard try await !isForgotten(facts, purchase: transactionID) else { return .withhold(.forgotten) }
        let hasOwner = facts.state.winningStatements().contains { statement in
            statement.transactionIDs.contains(transactionID)
                && facts.ownership.currentOwner(of: statement.fact) != nil
        }
        return facts.state.consumption(
            of: transactionID, askedAt: askedAt, catalog: facts.catalog, hasOwner: hasOwner, policy: policy)
    }
}
