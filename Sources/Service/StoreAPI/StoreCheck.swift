import AppStorePayloads
package import AppStoreServer
import Dispatch
package import EntitlementCore
package import Ledger

/// Asks the store about one customer's purchases in one app, and records what the ledger does not know.
///
/// What the store answers goes the way of whatever a device posts: each statement is verified to the pinned root and bound
/// to app and environment, and is an event only if it says something new.
package struct StoreCheck: Sendable {
    /// What the store said, and what came of it.
    package struct Finding: Sendable {
        /// The original transaction that was asked about; `nil` where the store knows none by that id.
        package var originalTransactionID: String?
        /// The store's own word for where each subscription stands, by original transaction: 1 active, 2 expired, 3 billing
        /// retry, 4 grace period, 5 revoked; others may come.
        package var statuses: [String: Int] = [:]
        /// The newest statement about each transaction, by its id.
        package var transactions: [String: TransactionFact] = [:]
        /// The renewal information of each subscription, by original transaction.
        package var renewals: [String: RenewalFact] = [:]
        /// The events that were appended.
        package var recorded: [(originalTransactionID: String, position: Int64)] = []
        /// How many statements were not believed, and why the last of them was not.
        package var refused = 0
        package var refusal: String?
    }

    /// Whose purchases it asks about.
    package let client: StoreAPIClient
    private let statements: StatementVerifier
    private let reader: LedgerReader
    let append: @Sendable (EventDraft) async throws -> AppendOutcome
    private let now: @Sendable () -> Timestamp
    private let queue = DispatchQueue(label: "store-check", attributes: .concurrent)

    /// - Parameters:
    ///   - client: asks the store about one app.
    ///   - statements: verifies; it should remember nothing, for the store signs each answer anew.
    ///   - append: records an event.
    package init(
        client: StoreAPIClient, statements: StatementVerifier, reader: LedgerReader,
        now: @escaping @Sendable () -> Timestamp, append: @escaping @Sendable (EventDraft) async throws -> AppendOutcome
    ) {
        self.client = client
        self.statements = statements
        self.reader = reader
        self.now = now
        self.append = append
    }

    /// The app it asks about.
    package var app: String { client.credentials.bundleID }

    /// Asks until the store has said everything, and records as it goes.
    ///
    /// - Parameters:
    ///   - id: any transaction of the customer's; an original transaction where one is to be found again in the answer.
    ///   - limit: how long all of it may take.
    /// - Throws: `StoreAPIError` where the store cannot be asked to the end; what it had said by then is recorded.
    package func run(
        _ id: String, in environment: StoreEnvironment, within limit: Duration = .seconds(120)
    ) async throws -> Finding {
        var finding = Finding()
        let end = ContinuousClock.now + limit
        func left() -> Duration { max(.zero, end - .now) }
        if let answer = try await ifKnown({
            try await client.send(.subscriptionStatuses(of: id), in: environment, within: left())
        }) {
            for subscription in answer.subscriptions {
                if let original = subscription.originalTransactionID, let status = subscription.status {
                    finding.statuses[original] = status
                }
            }
            let pairs = answer.subscriptions.compactMap { entry in
                entry.transaction.map { (transaction: $0, renewal: entry.renewal) }
            }
            try await take(pairs, environment, &finding)
        }
        let isInHistory = try await readHistory(of: id, environment, &finding, left)
        if !isInHistory, finding.transactions.isEmpty,
            let answer = try await ifKnown({
                try await client.send(.transaction(id), in: environment, within: left())
            })
        {
            try await take([(answer.transaction, nil)], environment, &finding)
        }
        finding.originalTransactionID =
            finding.transactions[id]?.originalTransactionID
            ?? finding.transactions.values.first { $0.originalTransactionID == id }?.originalTransactionID
        return finding
    }

    /// Reads the whole history, page by page; returns whether the store has one.
    private func readHistory(
        of id: String, _ environment: StoreEnvironment, _ finding: inout Finding, _ left: () -> Duration
    ) async throws -> Bool {
        var revision: String?
        for _ in 0..<Self.mostPages {
            guard
                let page = try await ifKnown({
                    try await client.send(
                        .transactionHistory(of: id, revision: revision), in: environment, within: left())
                })
            else { return revision != nil }
            try await take(page.transactions.map { ($0, nil) }, environment, &finding)
            guard page.hasMore else { return true }
            // Else it would go on for ever.
            guard let next = page.revision, next != revision, !page.transactions.isEmpty else {
                throw StoreAPIError(
                    .unreadable, of: .transactionHistory,
                    "the store says that there is more, and sends the same or nothing again")
            }
            revision = next
        }
        throw StoreAPIError(
            .unreadable, of: .transactionHistory, "the history does not end, after \(Self.mostPages) pages")
    }

    /// Of twenty transactions each.
    private static let mostPages = 500

    /// Apple's number for an id that names no transaction at all, and for one that is no subscription's.
    private static let unknownCodes: Set<Int64> = [4_000_006, 4_000_048]

    /// What the store answers; `nil` where it does not know what it was asked about.
    private func ifKnown<Answer>(_ ask: () async throws -> Answer) async throws -> Answer? {
        do {
            return try await ask()
        } catch let error as StoreAPIError {
            if error.kind == .notFound { return nil }
            if error.kind == .refused, let code = error.code, Self.unknownCodes.contains(code) { return nil }
            throw error
        }
    }

    /// Verifies statements and records what is news.
    private func take(
        _ pairs: [(transaction: UnverifiedStatement, renewal: UnverifiedStatement?)],
        _ environment: StoreEnvironment, _ finding: inout Finding
    ) async throws {
        guard !pairs.isEmpty else { return }
        let stated = await withCheckedContinuation { continuation in
            queue.async { [app, statements, now] in
                continuation.resume(
                    returning: StoreStatements(pairs, of: app, in: environment, with: statements, now: now()))
            }
        }
        finding.note(stated)
        guard !stated.transactions.isEmpty else { return }
        let snapshot = try await reader.snapshot(stated.question(environment))
        for draft in stated.drafts(environment, beside: snapshot) {
            let outcome = try await append(draft)
            guard !outcome.isDuplicate, let original = draft.fact.originalTransactionID else { continue }
            finding.recorded.append((original, outcome.position))
        }
    }
}

extension StoreCheck.Finding {
    /// Keeps what was believed, the newest of each.
    fileprivate mutating func note(_ stated: StoreStatements) {
        refused += stated.refusals.count
        refusal = stated.refusals.last ?? refusal
        func isNewer(_ date: Timestamp?, than known: Timestamp?) -> Bool {
            (date ?? .earliest) >= (known ?? .earliest)
        }
        for statement in stated.transactions {
            let id = statement.payload.transactionID
            if let known = transactions[id], !isNewer(statement.signedDate, than: known.signedDate) { continue }
            transactions[id] = statement.bareFact
        }
        for statement in stated.renewals {
            let original = statement.payload.originalTransactionID
            if let known = renewals[original], !isNewer(statement.signedDate, than: known.signedDate) { continue }
            renewals[original] = statement.fact
        }
    }

    /// The newest purchase of an original transaction.
    package func latest(of original: String) -> TransactionFact? {
        transactions.values.filter { $0.originalTransactionID == original }
            .max { ($0.purchaseDate, $0.transactionID) < ($1.purchaseDate, $1.transactionID) }
    }
}
