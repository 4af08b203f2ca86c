import EntitlementCore
import PostgresClient

/// The customers and original transactions that a stretch of the log is about: each is read once, up to the end of the
/// stretch, and then shown as it was known at each event.
struct DriftKnowledge {
    /// What is known of a customer up to an event, of the original transactions that ever were of one product.
    struct Person {
        let history: CustomerHistory
        let elsewhere: CustomerHistory
        let disputed: [DeviceDrift.Disputed]
        /// More is known than is compared.
        let isTooLarge: Bool

        func drift(_ report: DriftFact, at instant: Timestamp) -> DeviceDrift {
            DeviceDrift(
                report.claim, at: instant, history: history, elsewhere: elsewhere, disputed: disputed,
                isTooLarge: isTooLarge)
        }

        /// Whether an event that names something of this customer tells something about them.
        func isHeard(in event: DecodedEvent) -> Bool {
            if case .forgetting = event.fact { return true }
            if isTooLarge { return true }
            return [history, elsewhere].contains { $0.events.contains { $0.position == event.record.position } }
        }

        /// Which events bear on what is known of them.
        var keys: Set<DriftKey> {
            var keys = Set(history.identities.union(elsewhere.identities).map { DriftKey.identity($0) })
            for history in [history, elsewhere] {
                for original in Set(history.events.compactMap(\.fact.originalTransactionID)) {
                    keys.insert(
                        .original(
                            OriginalKey(environment: history.environment, originalTransactionID: original)))
                }
            }
            return keys
        }
    }

    private struct PersonKey: Hashable {
        let identity: IdentityRef
        let environment: StoreEnvironment
        let productID: String
    }

    /// The server ends a transaction that says nothing for ten seconds, and what is compared may take long.
    static let longestSilence = Duration.seconds(2)

    private let start: Int64
    private let end: Int64
    private var spokeAt = ContinuousClock.now
    /// The person as of the event that is looked at: many differences may be theirs.
    private var current: (key: PersonKey, position: Int64, person: Person)?
    /// `nil` where there is too much.
    private var gathered: [PersonKey: [DecodedEvent]?] = [:]
    private var catalogs: [DecodedEvent]?
    private var disputedEvents: [OriginalKey: [DecodedEvent]] = [:]
    private var lives: [OriginalKey: [DecodedEvent]] = [:]

    init(from start: Int64, to end: Int64) {
        self.start = start
        self.end = end
    }

    /// Sends the server a statement where it has heard nothing for a while, so that it does not end the transaction.
    mutating func stayAwake(
        on connection: isolated PostgresConnection, now: ContinuousClock.Instant = .now
    ) throws {
        guard spokeAt.duration(to: now) >= Self.longestSilence else { return }
        _ = try connection.query("SELECT 1")
        spokeAt = now
    }

    // MARK: - Customers

    /// What is known, up to an event, of a product of a customer whose device reported on it.
    mutating func person(
        _ report: DriftFact, _ environment: StoreEnvironment, upTo position: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Person {
        let key = PersonKey(identity: report.customer, environment: environment, productID: report.productID)
        if let current, current.key == key, current.position == position { return current.person }
        let person = try read(key, upTo: position, on: connection)
        current = (key, position, person)
        return person
    }

    private mutating func read(
        _ key: PersonKey, upTo position: Int64, on connection: isolated PostgresConnection
    ) throws -> Person {
        var isTooLarge = false
        func history(_ environment: StoreEnvironment, _ known: [DecodedEvent]?, _ catalogs: [DecodedEvent])
            -> CustomerHistory
        {
            if (known?.count { $0.record.position <= position } ?? .max) > DeviceDrift.historyLimit {
                isTooLarge = true
            }
            return CustomerHistory(
                of: key.identity, environment: environment, position: position,
                events: ((isTooLarge ? nil : known) ?? []).map(\.history) + catalogs.map(\.history))
        }
        let catalogs = try allCatalogs(on: connection)
        let own = history(key.environment, try events(of: key, on: connection), catalogs)
        let other: StoreEnvironment = key.environment == .production ? .sandbox : .production
        let otherKey = PersonKey(identity: key.identity, environment: other, productID: key.productID)
        let elsewhere = history(other, try events(of: otherKey, on: connection), catalogs)
        return Person(
            history: own, elsewhere: elsewhere,
            disputed: try disputed(in: own, upTo: position, on: connection), isTooLarge: isTooLarge)
    }

    private mutating func events(
        of key: PersonKey, on connection: isolated PostgresConnection
    ) throws -> [DecodedEvent]? {
        if let known = gathered[key] { return known }
        var query = CustomerHistoryQuery(environment: key.environment, upTo: end)
        do {
            // What the stretch itself adds must not make the difference.
            try query.gather(
                key.identity, about: key.productID, limit: DeviceDrift.historyLimit + Int(end - start),
                on: connection)
            gathered[key] = .some(query.events)
        } catch let error as LedgerError where error.code == .tooMuch {
            gathered[key] = .some(nil)
        }
        return gathered[key] ?? nil
    }

    /// Those in force during the stretch, and those before it that a history keeps.
    private mutating func allCatalogs(on connection: isolated PostgresConnection) throws -> [DecodedEvent] {
        if let catalogs { return catalogs }
        func read(_ condition: String, _ limit: Int) throws -> [DecodedEvent] {
            try connection.query(
                """
                SELECT \(EventColumns.list) FROM event
                WHERE ledger_id = $1 AND type = 'catalog_applied' AND position > $2 AND position <= $3
                ORDER BY position DESC LIMIT \(limit)
                """,
                [.int(ledgerID), .int(condition == "before" ? 0 : start), .int(condition == "before" ? start : end)]
            ).rows.map { try DecodedEvent(EventRecord($0)) }
        }
        let found = try read("before", CustomerHistory.catalogLimit) + read("within", LedgerReader.historyLimit)
        catalogs = found
        return found
    }

    /// The purchases of somebody else's that a customer's conflicts name.
    private mutating func disputed(
        in history: CustomerHistory, upTo position: Int64, on connection: isolated PostgresConnection
    ) throws -> [DeviceDrift.Disputed] {
        let named = Set(
            history.events.compactMap { event in
                if case .conflict(let fact) = event.fact { fact.originalTransactionID } else { nil }
            })
        guard !named.isEmpty else { return [] }
        let keys = named.sorted().map { OriginalKey(environment: history.environment, originalTransactionID: $0) }
        let unread = keys.filter { disputedEvents[$0] == nil }
        for key in unread { disputedEvents[key] = [] }
        disputedEvents.merge(try OriginalApps.firstStatements(of: unread, on: connection)) { _, read in read }
        return keys.compactMap { key in
            let transactions = (disputedEvents[key] ?? []).filter { $0.record.position <= position }
                .flatMap(\.fact.transactions)
            return transactions.first.map {
                DeviceDrift.Disputed(
                    originalTransactionID: key.originalTransactionID, bundleID: $0.bundleID,
                    products: Set(transactions.map(\.productID)))
            }
        }
    }

    // MARK: - Original transactions

    /// Reads what is known of the original transactions of some events.
    mutating func readLives(of events: [DecodedEvent], on connection: isolated PostgresConnection) throws {
        let keys = Set(events.compactMap(\.record.originalKey)).sorted()
        guard !keys.isEmpty else { return }
        let result = try connection.query(
            """
            SELECT \(EventColumns.list(of: "event")) FROM unnest($2::smallint[], $3::text[]) AS key (environment, original)
            \(Statements.search(
                """
                SELECT * FROM event AS stored
                WHERE stored.ledger_id = $1 AND stored.environment = key.environment
                    AND stored.original_transaction_id = key.original AND stored.position <= $4
                """, as: "event"))
            """,
            [
                .int(ledgerID), .int2Array(keys.map(\.environment.number)),
                .textArray(keys.map(\.originalTransactionID)), .int(end),
            ])
        for row in result.rows {
            let event = try DecodedEvent(EventRecord(row))
            if let key = event.record.originalKey { lives[key, default: []].append(event) }
        }
    }

    /// What was known of an original transaction before an event; `nil` where nothing was.
    func state(of key: OriginalKey, before position: Int64) throws -> OriginalState? {
        let events = (lives[key] ?? []).filter { $0.record.position < position }
        guard !events.isEmpty else { return nil }
        var state = OriginalState()
        for event in events.sorted(by: { $0.record.position < $1.record.position }) {
            state.join(
                event.fact, originalTransactionID: key.originalTransactionID,
                source: event.record.source.statementSource, position: event.record.position)
        }
        return state
    }
}
