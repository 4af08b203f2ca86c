package import EntitlementCore
import PostgresClient

/// What messages of webhooks tell of and do not hold themselves.
package struct MessageContents: Sendable {
    package fileprivate(set) var events: [LogScope: [ShownEvent]] = [:]
    /// Those of people who were forgotten are left out.
    package fileprivate(set) var names: [IdentityRef: String] = [:]
}

extension LedgerReader {
    /// Reads what messages tell of by positions and by numbers of people, all of it as of one instant.
    ///
    /// - Parameters:
    ///   - deliveries: all that were handed out together.
    ///   - positions: where events stand of which is told, by what of the log may be told.
    ///   - people: whose names are told.
    /// - Throws: `unavailable` where the database does not hold each of the messages any more, as after a failover: then
    ///   another event may stand at a position, and a number be somebody else's.
    package func contents(
        of deliveries: [DueDelivery], events positions: [LogScope: Set<Int64>], people: Set<IdentityRef>
    ) async throws -> MessageContents {
        guard !positions.isEmpty || !people.isEmpty else { return MessageContents() }
        return try await read { connection in
            try connection.transaction(.repeatableReadReadOnly) { connection in
                guard try Self.areKept(deliveries, on: connection) else {
                    throw LedgerError(
                        .unavailable,
                        "the database has lost messages that were handed out, as after a failover, or let go of them")
                }
                var contents = MessageContents()
                for (scope, positions) in positions {
                    contents.events[scope] = try Self.events(at: positions, only: scope, on: connection)
                }
                contents.names = try Statements.customerIDs(of: Array(people), on: connection)
                return contents
            }
        }
    }

    /// Whether the database holds all these messages: their ids are made by chance, so no other message has one of them.
    private static func areKept(
        _ deliveries: [DueDelivery], on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            SELECT NOT EXISTS (
                SELECT FROM unnest($2::bigint[], $3::text[]) AS taken (number, id)
                WHERE NOT EXISTS (
                    SELECT FROM webhook_message AS message
                    WHERE message.ledger_id = $1 AND message.number = taken.number AND message.id::text = taken.id
                    OFFSET 0))
            """, [.int(ledgerID), .intArray(deliveries.map(\.number)), .textArray(deliveries.map(\.id))]
        ).row(0).bool(0)
    }

    /// The events at some positions, as far as they are within `scope`; without their evidence.
    private static func events(
        at positions: Set<Int64>, only scope: LogScope, on connection: isolated PostgresConnection
    ) throws -> [ShownEvent] {
        let rows = try connection.query(
            """
            SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position = ANY ($2::bigint[])
            ORDER BY position
            """, [.int(ledgerID), .intArray(positions.sorted())]
        ).rows
        return try scope.shown(Self.shown(rows.map { try EventRecord($0) }, on: connection), on: connection)
    }
}
