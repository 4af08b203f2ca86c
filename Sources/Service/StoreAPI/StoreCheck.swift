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
        /// Where the log ended once it held what was appended, or was found to know it already.
        package var ends: Set<EventMark> = []
    }

    /// Whose purchases it asks about.
    package let client: StoreAPIClient
    private let statements: StatementVerifier
    private let reader: LedgerReader
    let append: @Sendable (EventDraft) async throws -> AppendOutcome
    let now: @Sendable () -> Timestamp
    private let queue = DispatchQueue(label: "store-check", attributes: .concurrent)
    private let left = UnreadHistories()

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

    /// In which order a history is read.
    package enum Order: Sendable {
        /// What was changed last first, and on to the end as far as there is time for it; what is left is read by the next
        /// check in this process.
        case newestFirst
        /// All of it or nothing, and what changes meanwhile too.
        case whole
    }

    /// Asks until the store has said everything, and records as it goes.
    ///
    /// - Parameters:
    ///   - id: any transaction of the customer's; an original transaction where one is to be found again in the answer.
    ///   - limit: how long all of it may take.
    ///   - persistence: for how long a request that fails is sent again.
    /// - Throws: `StoreAPIError` where the store cannot be asked to the end; what it had said by then is recorded.
    package func run(
        _ id: String, in environment: StoreEnvironment, _ order: Order = .newestFirst,
        within limit: Duration = .seconds(120), persistence: Duration? = nil
    ) async throws -> Finding {
        var finding = Finding()
        let asking = Asking(
            client: client, id: id, environment: environment, end: ContinuousClock.now + limit, limit: limit,
            persistence: persistence)
        // Where this answer alone fails, the history still tells what was bought.
        var unread: StoreAPIError?
        do {
            try await readStatuses(asking, &finding)
        } catch let error as StoreAPIError where error.reach == .oneRequest && error.kind != .outOfTime {
            unread = error
        }
        // A good customer's history is long, and this purchase may stand anywhere in it.
        var isAsked = false
        func askItself() async throws {
            isAsked = true
            guard let answer = try await asking.send(.transaction(id)) else { return }
            try await take([(answer.transaction, nil)], environment, &finding)
        }
        let isTold = finding.transactions.values.contains { $0.transactionID == id || $0.originalTransactionID == id }
        if order == .newestFirst, !isTold { try await askItself() }
        let isInHistory =
            switch order {
            case .newestFirst: try await readNewest(asking, &finding)
            case .whole: try await readWhole(asking, &finding)
            }
        if !isInHistory, !isAsked, finding.transactions.isEmpty { try await askItself() }
        finding.originalTransactionID =
            finding.transactions[id]?.originalTransactionID
            ?? finding.transactions.values.first { $0.originalTransactionID == id }?.originalTransactionID
        if let unread { throw unread }
        return finding
    }

    /// Reads where each subscription stands.
    private func readStatuses(_ asking: Asking, _ finding: inout Finding) async throws {
        guard let answer = try await asking.send(.subscriptionStatuses(of: asking.id)) else { return }
        for subscription in answer.subscriptions {
            if let original = subscription.originalTransactionID, let status = subscription.status {
                finding.statuses[original] = status
            }
        }
        let pairs = answer.subscriptions.compactMap { entry in
            entry.transaction.map { (transaction: $0, renewal: entry.renewal) }
        }
        try await take(pairs, asking.environment, &finding)
    }

    /// Reads the history page by page to its end; returns whether the store has one.
    private func readWhole(_ asking: Asking, _ finding: inout Finding) async throws -> Bool {
        var revision: String?
        for _ in 0..<Self.mostPages {
            guard let page = try await asking.page(after: revision, newestFirst: false) else { return revision != nil }
            _ = try await take(page.transactions.map { ($0, nil) }, asking.environment, &finding)
            guard page.hasMore else { return true }
            revision = try Self.next(of: page, after: revision)
        }
        throw Self.endless
    }

    /// Reads the history from what was changed last on, then what an earlier reading left, and on to its end while there is
    /// time; returns whether the store has one.
    private func readNewest(_ asking: Asking, _ finding: inout Finding) async throws -> Bool {
        var revision: String?
        // Where nothing was new, what comes after may wait.
        var isCaughtUp = false
        for _ in 0..<Self.mostPages {
            if isCaughtUp, asking.isNearlyOver {
                left.keep(revision, asking)
                return true
            }
            let page: TransactionPage
            do throws(StoreAPIError) {
                guard let known = try await asking.page(after: revision, newestFirst: true) else {
                    return revision != nil
                }
                page = known
            } catch {
                // What the store does not take any more is begun anew.
                if error.kind == .refused { left.forget(asking) } else { left.keep(revision, asking) }
                if isCaughtUp, error.kind == .outOfTime, !Task.isCancelled { return true }
                throw error
            }
            let isNews = try await take(page.transactions.map { ($0, nil) }, asking.environment, &finding)
            guard page.hasMore else {
                left.forget(asking)
                return true
            }
            revision = try Self.next(of: page, after: revision)
            if !isNews, !isCaughtUp {
                isCaughtUp = true
                if let place = left.place(asking) { revision = place }
            }
        }
        left.keep(revision, asking)
        throw Self.endless
    }

    private static func next(of page: TransactionPage, after revision: String?) throws -> String {
        // Else it would go on for ever.
        guard let next = page.revision, next != revision, !page.transactions.isEmpty else {
            throw StoreAPIError(
                .unreadable, of: .transactionHistory,
                "the store says that there is more, and sends the same or nothing again")
        }
        return next
    }

    /// Of twenty transactions each.
    private static let mostPages = 2000
    private static let endless = StoreAPIError(
        .unreadable, of: .transactionHistory, "the history does not end, after \(mostPages) pages")

    /// Verifies transactions apart from the threads that tasks run on.
    func verified(_ transactions: [UnverifiedStatement], _ environment: StoreEnvironment) async -> StoreStatements {
        await verified(transactions.map { ($0, nil) }, environment)
    }

    private func verified(
        _ pairs: [(transaction: UnverifiedStatement, renewal: UnverifiedStatement?)], _ environment: StoreEnvironment
    ) async -> StoreStatements {
        await withCheckedContinuation { continuation in
            queue.async { [app, statements, now] in
                continuation.resume(
                    returning: StoreStatements(pairs, of: app, in: environment, with: statements, now: now()))
            }
        }
    }

    /// Verifies statements and records what is news; returns whether anything was, or was not believed.
    @discardableResult
    private func take(
        _ pairs: [(transaction: UnverifiedStatement, renewal: UnverifiedStatement?)],
        _ environment: StoreEnvironment, _ finding: inout Finding
    ) async throws -> Bool {
        guard !pairs.isEmpty else { return false }
        let stated = await verified(pairs, environment)
        finding.note(stated)
        var isNews = !stated.refusals.isEmpty
        guard !stated.transactions.isEmpty else { return isNews }
        let snapshot = try await reader.snapshot(stated.question(environment))
        finding.ends.insert(snapshot.mark)
        let named = Set(
            snapshot.facts.originals.values.flatMap(\.transactions).flatMap {
                [$0.fact.accountToken, $0.fact.appTransaction].compactMap(\.self)
            })
        let forgotten = named.subtracting(try await reader.customerIDs(of: Array(named)).keys)
        for draft in stated.drafts(environment, beside: snapshot, forgotten: forgotten) {
            isNews = true
            let outcome = try await append(draft)
            finding.ends.insert(outcome.end)
            guard !outcome.isDuplicate, let original = draft.fact.originalTransactionID else { continue }
            finding.recorded.append((original, outcome.position))
        }
        return isNews
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
            .max { $0.isBought(before: $1) }
    }
}
