import EntitlementCore
package import PostgresClient

/// Something the log speaks of, and how often.
package struct SeenName: Sendable, Equatable {
    package let name: String
    package let events: Int64
    package let firstPosition: Int64
    package let lastPosition: Int64
}

/// What was counted, and up to which position.
package struct SeenSummary: Sendable, Equatable {
    package let checkpoint: Int64
    /// Kinds of things for a person to look at, such as `unknown_field`.
    package let remarks: [SeenName]
    package let products: [SeenName]
}

/// Counts the kinds of remarks and the products of the log, behind it and apart from the appends.
///
/// A page is one transaction under the lock of the projection's row, so any number of processes may do this at once.
package struct SeenProjector: Sendable {
    /// Changes whenever the same log would be counted otherwise.
    private static let version: Int64 = 1
    private static let pageEvents: Int64 = 2000

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// Counts on from the checkpoint, at most `events` events; returns whether the head was reached.
    @discardableResult
    package func catchUp(events: Int64 = .max) async throws -> Bool {
        var counted: Int64 = 0
        while counted < events {
            try Task.checkCancellation()
            let page = try await with { try Self.page($0) }
            counted += page
            if page < Self.pageEvents { return true }
        }
        return false
    }

    /// Forgets what was counted; the next `catchUp` begins at the first event.
    package func reset() async throws {
        try await with { connection in
            try connection.transaction { connection in
                _ = try Self.checkpoint(on: connection)
                try Self.clear(connection)
            }
        }
    }

    package func summary() async throws -> SeenSummary {
        try await with { connection in
            let results = try connection.pipeline([
                PostgresStatement(
                    "SELECT checkpoint FROM projection WHERE ledger_id = $1 AND name = 'seen'", [.int(ledgerID)]),
                PostgresStatement(
                    """
                    SELECT kind, name, events, first_position, last_position FROM seen
                    WHERE ledger_id = $1 ORDER BY events DESC, name LIMIT 1000
                    """, [.int(ledgerID)]),
            ])
            func names(_ kind: String) throws -> [SeenName] {
                try results[1].rows.filter { try $0.text(0) == kind }.map {
                    SeenName(
                        name: try $0.text(1), events: try $0.int(2), firstPosition: try $0.int(3),
                        lastPosition: try $0.int(4))
                }
            }
            return SeenSummary(
                checkpoint: try results[0].first?.int(0) ?? 0, remarks: try names("remark"),
                products: try names("product"))
        }
    }

    private func with<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        do {
            return try await pool.withConnection(body)
        } catch let error as CancellationError {
            throw error
        } catch {
            throw LedgerError(error, doing: "counting what the log speaks of")
        }
    }

    private struct Count {
        var events: Int64 = 0
        var first: Int64
        var last: Int64
    }

    private struct Subject: Hashable {
        let kind: String
        let name: String
    }

    /// Returns how many events it counted.
    private static func page(_ connection: isolated PostgresConnection) throws -> Int64 {
        // A look first: an idle service writes nothing.
        let isCurrent = try connection.query(
            """
            SELECT 1 FROM projection JOIN ledger_head AS head USING (ledger_id)
            WHERE ledger_id = $1 AND name = 'seen' AND version = $2 AND checkpoint = head.position
            """, [.int(ledgerID), .int4(Int32(version))]
        ).first
        if isCurrent != nil { return 0 }
        return try connection.transaction { connection in
            let checkpoint = try checkpoint(on: connection)
            let rows = try connection.query(
                """
                SELECT position, facts FROM event WHERE ledger_id = $1 AND position > $2
                ORDER BY position LIMIT $3
                """, [.int(ledgerID), .int(checkpoint), .int(pageEvents)]
            ).rows
            guard let last = try rows.last?.int(0) else { return 0 }
            var counts: [Subject: Count] = [:]
            for row in rows {
                let position = try row.int(0)
                var subjects: Set<Subject> = []
                // What does not decode is for `verify` to name, and no reason to stop counting.
                if let fact = try? FactCodec.decode(row.bytes(1)) {
                    for transaction in fact.transactions {
                        subjects.insert(Subject(kind: "product", name: transaction.productID))
                    }
                    for remark in fact.remarks {
                        subjects.insert(Subject(kind: "remark", name: String(remark.prefix { $0 != ":" })))
                    }
                }
                for subject in subjects {
                    counts[subject, default: Count(first: position, last: position)].events += 1
                    counts[subject]?.last = position
                }
            }
            try add(counts, on: connection)
            try connection.query(
                "UPDATE projection SET checkpoint = $2 WHERE ledger_id = $1 AND name = 'seen'",
                [.int(ledgerID), .int(last)])
            return Int64(rows.count)
        }
    }

    private static func add(_ counts: [Subject: Count], on connection: isolated PostgresConnection) throws {
        guard !counts.isEmpty else { return }
        let counts = counts.sorted { ($0.key.kind, $0.key.name) < ($1.key.kind, $1.key.name) }
        try connection.query(
            """
            INSERT INTO seen (ledger_id, kind, name, events, first_position, last_position)
            SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
            ON CONFLICT (ledger_id, kind, name) DO UPDATE SET events = seen.events + excluded.events,
                last_position = excluded.last_position
            """,
            [
                .int4(Int32(ledgerID)), .textArray(counts.map(\.key.kind)), .textArray(counts.map(\.key.name)),
                .intArray(counts.map(\.value.events)), .intArray(counts.map(\.value.first)),
                .intArray(counts.map(\.value.last)),
            ])
    }

    /// Locks the projection's row, and makes it first where it is missing or of another version.
    private static func checkpoint(on connection: isolated PostgresConnection) throws -> Int64 {
        try connection.query(
            """
            INSERT INTO projection (ledger_id, name, version, checkpoint) VALUES ($1, 'seen', $2, -1)
            ON CONFLICT (ledger_id, name) DO NOTHING
            """, [.int4(Int32(ledgerID)), .int4(Int32(version))])
        let row = try connection.query(
            "SELECT version, checkpoint FROM projection WHERE ledger_id = $1 AND name = 'seen' FOR UPDATE",
            [.int(ledgerID)]
        ).first
        guard let row, try row.int(0) == version, try row.int(1) >= 0 else {
            try clear(connection)
            return 0
        }
        return try row.int(1)
    }

    private static func clear(_ connection: isolated PostgresConnection) throws {
        try connection.query("DELETE FROM seen WHERE ledger_id = $1", [.int(ledgerID)])
        try connection.query(
            "UPDATE projection SET version = $2, checkpoint = 0 WHERE ledger_id = $1 AND name = 'seen'",
            [.int(ledgerID), .int4(Int32(version))])
    }
}
