import EntitlementCore
import PostgresClient

/// What the events of a page name, held against table `event_name`.
struct NameCheck: Sendable {
    /// Rows of the table whose position is one of the page's: those the page accounts for.
    private(set) var rows: Int64 = 0

    /// Every name that an event has, or had first, must lead to it; nothing else may.
    init(_ events: [RecordCheck], on connection: isolated PostgresConnection) throws {
        var wanted: [(name: EventName, position: Int64)] = []
        for event in events {
            let names = event.fact.names(
                in: event.record.environment, hasEvidence: event.record.evidenceHash != nil)
            wanted += names.map { ($0, event.record.position) }
        }
        guard !wanted.isEmpty else { return }
        let found = try connection.query(
            """
            SELECT known.position FROM unnest($2::bigint[], $3::smallint[], $4::smallint[], $5::text[], $6::bigint[])
                WITH ORDINALITY AS wanted (identity, environment, kind, original, position, number)
            LEFT JOIN LATERAL (
                SELECT name.position FROM event_name AS name
                WHERE name.ledger_id = $1 AND name.identity = wanted.identity
                    AND name.environment = wanted.environment AND name.kind = wanted.kind
                    AND name.original_transaction_id = wanted.original
                    -- As bounds, so that the index leads there however many of the same name there are.
                    AND name.position <= wanted.position
                    AND name.position >= CASE
                        WHEN wanted.kind IN (\(NameKind.list(.owner, .besideToken))) THEN 0 ELSE wanted.position END
                ORDER BY name.position LIMIT 1
            ) AS known ON true
            ORDER BY wanted.number
            """,
            [
                .int(ledgerID), .intArray(wanted.map(\.name.identity.number)),
                .int2Array(wanted.map(\.name.environment)), .int2Array(wanted.map(\.name.kind.rawValue)),
                .textArray(wanted.map(\.name.originalTransactionID)), .intArray(wanted.map(\.position)),
            ])
        for (row, (name, position)) in zip(found.rows, wanted) {
            guard let known = try row.optionalInt(0) else {
                throw VerificationDifference(
                    "event_name", name.description, "is missing; event \(position) names it")
            }
            if known == position { rows += 1 }
        }
    }
}

extension EventName: CustomStringConvertible {
    var description: String {
        let original = originalTransactionID.isEmpty ? "" : ", original transaction \(originalTransactionID)"
        return "identity \(identity.number), environment \(environment), kind \(kind.rawValue)\(original)"
    }
}

extension Verifier {
    /// Looks for names that no event of the log accounts for: as many rows as the walk of the log has found leaves none
    /// over.
    func verifyNames(upTo position: Int64, expected: Int64) async throws {
        let (found, stray) = try await page { connection in
            let row = try connection.query(
                """
                SELECT count(*) FILTER (WHERE name.position <= $2),
                    min(name.position) FILTER (WHERE name.position > head.position)
                FROM ledger_head AS head LEFT JOIN event_name AS name USING (ledger_id) WHERE ledger_id = $1
                """, [.int(ledgerID), .int(position)]
            ).first
            guard let row else { throw LogEnd.difference("is missing") }
            return (try row.int(0), try row.optionalInt(1))
        }
        if let stray {
            throw VerificationDifference("event_name", "position \(stray)", "there is no such event")
        }
        progress(VerificationProgress(stage: .names, done: found, total: expected))
        guard found == expected else {
            throw VerificationDifference(
                "event_name", "ledger \(ledgerID)",
                "has \(found) rows of the log's first \(position) events, which account for \(expected)")
        }
    }
}
