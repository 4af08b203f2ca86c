import EntitlementCore
import PostgresClient

/// An event, and the people whose answers it may change.
struct BearingEvent: Sendable {
    let position: Int64
    let recordedAt: Timestamp
    let type: String
    /// Those whom it names, or whom any event about its original transaction names.
    private(set) var people: Set<LinkedCustomerKey>

    /// The events after a position, up to and with another one, in their order.
    ///
    /// An event on which no answer rests, such as a key's, names nobody here; a catalog, which concerns everybody, is
    /// handled apart.
    static func read(
        from start: Int64, to end: Int64, on connection: isolated PostgresConnection
    ) throws -> [BearingEvent] {
        // The columns of an event name only those whom its first statement names, or the first owner of what was bought on the
        // web; where it may name more, its facts count.
        let rows = try connection.query(
            """
            SELECT position, recorded_at, type, environment, original_transaction_id, identity, other_identity,
                CASE WHEN transaction_id IS NULL THEN facts END
            FROM event WHERE ledger_id = $1 AND position > $2 AND position <= $3 ORDER BY position
            """, [.int(ledgerID), .int(start), .int(end)]
        ).rows
        var events: [(event: BearingEvent, original: OriginalKey?)] = []
        for row in rows {
            let type = try row.text(2)
            guard type != "catalog_applied", !AccessFact.eventTypes.contains(type) else { continue }
            let environment = try row.optionalInt(3).map { try StoreEnvironment(stored: $0) }
            let people = try Self.people(row, from: 5)
            events.append(
                (
                    BearingEvent(
                        position: try row.int(0), recordedAt: try row.instant(1), type: type,
                        people: Set(
                            (environment.map { [$0] } ?? StoreEnvironment.allCases).flatMap { environment in
                                people.map { LinkedCustomerKey(identity: $0, environment: environment) }
                            })),
                    try environment.flatMap { environment in
                        try row.optionalText(4).map {
                            OriginalKey(environment: environment, originalTransactionID: $0)
                        }
                    }
                ))
        }
        let named = try named(beside: Set(events.compactMap(\.original)), on: connection)
        return events.map { event, original in
            var event = event
            if let original { event.people.formUnion(named[original] ?? []) }
            return event
        }
    }

    /// Whom the events about some original transactions name.
    private static func named(
        beside originals: Set<OriginalKey>, on connection: isolated PostgresConnection
    ) throws -> [OriginalKey: Set<LinkedCustomerKey>] {
        guard !originals.isEmpty else { return [:] }
        let keys = originals.sorted()
        let rows = try connection.query(
            """
            SELECT DISTINCT key.number, named.identity, named.other_identity, named.facts
            FROM unnest($2::smallint[], $3::text[]) WITH ORDINALITY AS key (environment, original, number)
            \(Statements.search(
                """
                SELECT identity, other_identity, CASE WHEN transaction_id IS NULL THEN facts END AS facts FROM event
                WHERE event.ledger_id = $1 AND event.environment = key.environment
                    AND event.original_transaction_id = key.original
                """, as: "named"))
            """,
            [
                .int(ledgerID), .int2Array(keys.map(\.environment.number)),
                .textArray(keys.map(\.originalTransactionID)),
            ]
        ).rows
        var named: [OriginalKey: Set<LinkedCustomerKey>] = [:]
        for row in rows {
            let original = keys[Int(try row.int(0)) - 1]
            for identity in try people(row, from: 1) {
                named[original, default: []].insert(
                    LinkedCustomerKey(identity: identity, environment: original.environment))
            }
        }
        return named
    }

    /// Whom two columns and the facts after them name.
    private static func people(_ row: PostgresRow, from column: Int) throws -> Set<IdentityRef> {
        var people = Set(
            try [row.optionalInt(column), row.optionalInt(column + 1)].compactMap { $0.map { IdentityRef($0) } })
        if let facts = try row.optionalBytes(column + 2) { people.formUnion(try FactCodec.decode(facts).identities) }
        return people
    }
}
