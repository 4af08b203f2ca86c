import AppStorePayloads
package import EntitlementCore
package import Ledger
package import StripeAPI
import StripePayloads

/// What the background work that reads Stripe's API has in common: clients, reader and append.
package struct StripeIngestion: Sendable {
    /// One for each environment at most.
    let clients: [StripeClient]
    let reader: LedgerReader
    let metrics: Metrics
    let logger: Logger
    let now: @Sendable () -> Timestamp
    let append: @Sendable (EventDraft) async throws -> AppendOutcome

    /// - Parameters:
    ///   - clients: one for each environment at most.
    ///   - append: records an event.
    package init(
        _ clients: [StripeClient], reader: LedgerReader, metrics: Metrics, logger: Logger,
        now: @escaping @Sendable () -> Timestamp, append: @escaping @Sendable (EventDraft) async throws -> AppendOutcome
    ) {
        self.clients = clients
        self.reader = reader
        self.metrics = metrics
        self.logger = logger
        self.now = now
        self.append = append
    }

    /// The environments in which Stripe can be asked.
    package var environments: Set<StoreEnvironment> { Set(clients.map(\.environment)) }

    package func client(_ environment: StoreEnvironment) -> StripeClient? {
        clients.first { $0.environment == environment }
    }

    // MARK: - Reading

    /// What came of a reading.
    enum Outcome: Hashable, Sendable {
        case recorded(position: Int64)
        /// It says nothing that the ledger does not know.
        case known
        /// It is about nothing that the ledger keeps.
        case foreign
        /// It is of somebody who was forgotten, or the event was erased.
        case withheld
    }

    /// What a reading says, and what came of it.
    struct Result: Sendable {
        let fact: WebFact
        let outcome: Outcome
        /// Whether it is somebody's, or of no original.
        let isOwned: Bool
        /// The end of the log on which the outcome rests; none where it rests on nothing that the log holds.
        var end = EventMark.none
    }

    /// Asks what a reading is to begin with, and then whatever else it calls for; what Stripe does not know is left out.
    ///
    /// - Throws: `StripeAPIError`, and `PayloadError` where an answer cannot be used.
    func complete(
        _ reading: inout StripeReading, beginningWith first: [StripeLookup] = [], _ client: StripeClient,
        until end: ContinuousClock.Instant
    ) async throws {
        try await complete(&reading, beginningWith: first) { try await client.answer(to: $0, within: end - .now) }
    }

    /// - Parameter ask: `nil` for what may be missing and is.
    func complete(
        _ reading: inout StripeReading, beginningWith first: [StripeLookup],
        ask: @Sendable (StripeLookup) async throws -> [UInt8]?
    ) async throws {
        var first = first[...]
        while let lookup = first.popFirst() ?? reading.next {
            guard let answer = try await ask(lookup) else {
                try reading.addMissing(lookup)
                continue
            }
            do throws(PayloadError) {
                try reading.add(answer: answer, to: lookup)
            } catch {
                switch error {
                // Half an answer, which may be whole the next time.
                case .malformed(let what):
                    throw StripeAPIError(.unreadable, of: StripeRequest.get(lookup).operation, what)
                case .inconsistent: throw error
                }
            }
        }
    }

    /// Appends what a reading says, if that is something new.
    ///
    /// Whether it is, is decided when it is appended: of two that read the same at once only one is an event.
    func record(_ reading: StripeReading) async throws -> Result {
        var reading = reading
        var (fact, identities) = try reading.fact(sha256: SignedWebhook.hash)
        if fact.originalTransactionID == nil, let sale = try await knownSale(reading) {
            reading.knownSale = sale
            (fact, identities) = try reading.fact(sha256: SignedWebhook.hash)
        }
        guard let original = fact.originalTransactionID else {
            return Result(fact: fact, outcome: .foreign, isOwned: true)
        }
        let known = try await reader.subscription(original, environment: reading.environment).subscription
        let isOwned = !fact.owners.isEmpty || known?.isClaimed(at: .endless) ?? false
        // The answer would name them again.
        if let known, try await reader.isForgotten(known) {
            return Result(fact: fact, outcome: .withheld, isOwned: true, end: known.end)
        }
        let outcome = try await append(EventDraft(fact, identities, reading))
        return Result(
            fact: fact, outcome: outcome.isDuplicate ? .known : .recorded(position: outcome.position), isOwned: isOwned,
            end: outcome.end)
    }

    /// The payment that a reading is about, where its metadata does not tell that something was sold by it, and the ledger does.
    private func knownSale(_ reading: StripeReading) async throws -> String? {
        for name in reading.names where name.hasPrefix("pi_") {
            let known = try await reader.subscription(name, environment: reading.environment).subscription
            if known?.state.web != nil { return name }
        }
        return nil
    }

    /// The original whose refunds and disputes an event states without naming it, where the log tells which that is.
    func tracedOriginal(_ event: StripeEvent) async throws -> String? {
        let names = event.fact.untracedNames
        let originals = try await reader.webOriginals(naming: names, environment: event.environment)
        guard let original = originals.first, originals.count == 1 else { return nil }
        let known = try await reader.subscription(original, environment: event.environment).subscription
        return known?.state.web?.tells(whatWasPaidBackBy: event.fact) ?? false ? original : nil
    }

    // MARK: - Lists

    /// How many pages a list of one purchase or of some hours may have; one with more would be one that does not end.
    static let mostPages = 10_000

    /// Reads a page of a list.
    ///
    /// - Throws: `StripeAPIError`, also where the answer is no list.
    func page(_ path: String, _ client: StripeClient, within limit: Duration) async throws -> StripeList {
        let request = StripeRequest.get(path)
        let body = try await client.send(request, within: limit)
        do throws(PayloadError) {
            return try StripeList(parsing: body)
        } catch {
            throw StripeAPIError(.unreadable, of: request.operation, "\(error)")
        }
    }

    /// Reads a list to its end, page by page.
    ///
    /// - Parameters:
    ///   - path: of the page after an object, of the first one where that is `nil`.
    ///   - limit: how long one page may take.
    func pages(
        _ client: StripeClient, within limit: @autoclosure () -> Duration, path: (String?) -> String,
        _ take: (StripeList) async throws -> Void
    ) async throws {
        var last: String?
        var trail = ListTrail()
        for _ in 0..<Self.mostPages {
            let page = try await page(path(last), client, within: limit())
            try await take(page)
            guard page.hasMore else { return }
            guard let next = page.lastID, trail.follow(next) else { break }
            last = next
        }
        throw StripeAPIError(endless: path(nil))
    }
}

extension StripeAPIError {
    /// - Parameter path: of a list that leads in a circle, or has more pages than it can have.
    init(endless path: String) {
        self.init(.unreadable, of: StripeRequest.get(path).operation, "the list does not end")
    }
}
