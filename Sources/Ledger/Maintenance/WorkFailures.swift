package import EntitlementCore
package import PostgresClient

/// Work behind a running service that fails, and since when.
package struct WorkFailure: Sendable, Hashable {
    /// Such as `checkpoints`.
    package let work: String
    /// The machine that the service runs on.
    package let host: String
    package let since: Timestamp
    /// When it was last tried in vain.
    package let lastAt: Timestamp
    package let reason: String

    package init(work: String, host: String, since: Timestamp, lastAt: Timestamp, reason: String) {
        self.work = work
        self.host = host
        self.since = since
        self.lastAt = lastAt
        self.reason = reason
    }
}

/// Keeps what fails behind running services where `status` finds it.
///
/// Times are the database's own. What a service that is gone left behind is forgotten after a week.
package struct WorkFailures: Sendable {

    private static let work = "looking after what fails in the background"
    /// The name, in SQL, of what the row that only keeps room is about.
    private static let noWork = "''"

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// Notes that work has failed, once more or for the first time.
    package func note(_ work: String, on host: String, reason: String) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.pipeline([
                PostgresStatement(
                    """
                    INSERT INTO work_failure (ledger_id, work, host, since, last_at, reason)
                    VALUES ($1, $2, $3, now(), now(), $4)
                    ON CONFLICT (ledger_id, work, host) DO UPDATE SET last_at = now(), reason = excluded.reason
                    """, [.int(ledgerID), .text(work), .text(host), .reason(reason)]),
                PostgresStatement(
                    "DELETE FROM work_failure WHERE ledger_id = $1 AND last_at < now() - interval '7 days'",
                    [.int(ledgerID)]),
            ])
        }
    }

    /// Notes that work was done.
    package func clear(_ work: String, on host: String) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                "DELETE FROM work_failure WHERE ledger_id = $1 AND work = $2 AND host = $3",
                [.int(ledgerID), .text(work), .text(host)])
        }
    }

    /// Forgets what a machine's earlier services noted: whatever still fails is noted again.
    ///
    /// A row without a failure keeps the table's first page in being, so that what fails for want of room on the disk finds
    /// room there.
    package func begin(on host: String) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.pipeline([
                PostgresStatement(
                    "DELETE FROM work_failure WHERE ledger_id = $1 AND host = $2 AND work <> \(Self.noWork)",
                    [.int(ledgerID), .text(host)]),
                PostgresStatement(
                    """
                    INSERT INTO work_failure (ledger_id, work, host, since, last_at, reason)
                    VALUES ($1, \(Self.noWork), \(Self.noWork), now(), 'infinity', '') ON CONFLICT DO NOTHING
                    """, [.int(ledgerID)]),
            ])
        }
    }

    /// What fails, in the order of its names; what nobody has tried for two hours is of a service that is gone.
    package func list() async throws -> [WorkFailure] {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                SELECT work, host, since, last_at, reason FROM work_failure
                WHERE ledger_id = $1 AND last_at > now() - interval '2 hours' AND work <> \(Self.noWork)
                ORDER BY work, host
                """, [.int(ledgerID)]
            ).rows.map { row in
                WorkFailure(
                    work: try row.text(0), host: try row.text(1), since: try row.instant(2),
                    lastAt: try row.instant(3), reason: try row.text(4))
            }
        }
    }
}
