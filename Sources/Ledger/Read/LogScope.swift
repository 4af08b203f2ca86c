package import EntitlementCore
import PostgresClient

/// The part of the log that a credential may see: of one environment, of one app, of both, or all of it.
package struct LogScope: Hashable, Sendable {
    /// `nil`: both.
    package let environment: StoreEnvironment?
    /// `nil`: every app.
    package let app: AppScope?

    package init(environment: StoreEnvironment?, app: AppScope?) {
        self.environment = environment
        self.app = app
    }

    package static let whole = LogScope(environment: nil, app: nil)

    package var isWhole: Bool { environment == nil && app == nil }

    package func holds(_ other: StoreEnvironment?) -> Bool {
        environment == nil || other == nil || other == environment
    }

    /// Those of some events that may be shown to somebody who names no customer.
    ///
    /// Events about keys are shown only where nothing is excluded. Links and grants hold in every app, so a credential
    /// of one app would learn of other apps' customers by them.
    func shown(_ events: [ShownEvent], on connection: isolated PostgresConnection) throws -> [ShownEvent] {
        guard !isWhole else { return events }
        let readable = events.filter { event in
            if case .access = event.fact { return false }
            return holds(event.record.environment)
        }
        guard let app else { return readable }
        let unnamed = readable.filter { app.names($0.fact) == nil }.compactMap(\.record.originalKey)
        let own = try OriginalApps.originals(unnamed, of: app, on: connection)
        return readable.filter { event in
            if case .catalog = event.fact { return true }
            return app.names(event.fact) ?? event.record.originalKey.map { own.contains($0) } ?? false
        }
    }
}

/// Tells which app original transactions are of.
enum OriginalApps {
    /// How many of an original's statements are looked at: the first one names the app.
    private static let statements = 4

    /// Those that are of an app.
    static func originals(
        _ originals: [OriginalKey], of app: AppScope, on connection: isolated PostgresConnection
    ) throws -> Set<OriginalKey> {
        var own: Set<OriginalKey> = []
        for (key, events) in try firstStatements(of: originals, on: connection) {
            if events.lazy.compactMap({ app.names($0.fact) }).first == true { own.insert(key) }
        }
        return own
    }

    /// The first statements about original transactions.
    static func firstStatements(
        of originals: [OriginalKey], on connection: isolated PostgresConnection
    ) throws -> [OriginalKey: [DecodedEvent]] {
        let keys = Set(originals).sorted()
        guard !keys.isEmpty else { return [:] }
        let result = try connection.query(
            """
            SELECT \(EventColumns.list(of: "event")) FROM unnest($2::smallint[], $3::text[]) AS key (environment, original)
            \(Statements.search(
                """
                SELECT * FROM event AS stored
                WHERE stored.ledger_id = $1 AND stored.environment = key.environment
                    AND stored.original_transaction_id = key.original
                    AND stored.type NOT IN ('claimed', 'transferred', 'transfer_undone', 'ownership_conflict')
                ORDER BY stored.position LIMIT \(statements)
                """, as: "event"))
            """,
            [
                .int(ledgerID), .int2Array(keys.map(\.environment.number)),
                .textArray(keys.map(\.originalTransactionID)),
            ])
        var found: [OriginalKey: [DecodedEvent]] = [:]
        for row in result.rows {
            let event = try DecodedEvent(EventRecord(row))
            if let key = event.record.originalKey { found[key, default: []].append(event) }
        }
        return found
    }
}

extension EventRecord {
    /// `nil` where the event is about no original transaction.
    var originalKey: OriginalKey? {
        guard let environment, let originalTransactionID else { return nil }
        return OriginalKey(environment: environment, originalTransactionID: originalTransactionID)
    }
}

extension LedgerReader {
    /// Whether something is known of an original transaction that is about the app.
    package func isKnown(_ key: OriginalKey, in app: AppScope) async throws -> Bool {
        try await read { try !OriginalApps.originals([key], of: app, on: $0).isEmpty }
    }
}
