import EntitlementCore
package import PostgresClient

/// Keeps, behind the log, the differences between device, ledger and store, and tells them apart.
///
/// Events are taken one after the other, each with what is known up to it; so the rows are the same whatever the pages were.
package struct DriftProjector: Sendable {
    static let row = ProjectionRow(name: "drift", version: 2)

    private let follower: LogFollower
    private let pageEvents: Int64

    /// - Parameter pageEvents: how many positions one transaction goes through.
    package init(pool: PostgresPool, pageEvents: Int64 = 2000) {
        follower = LogFollower(
            Self.row, pool, doing: "telling differences apart", pageEvents: pageEvents, former: .cleared(by: Self.clear)
        )
        self.pageEvents = pageEvents
    }

    /// Goes on from the checkpoint to the head of the log, or through as many events.
    ///
    /// After each page it rests for as long as that took, so that those who ask are served first.
    ///
    /// - Parameters:
    ///   - isHurried: it does not rest, because somebody waits for the end.
    ///   - patience: how long it waits for another process that is at it; after that it returns.
    ///   - progress: told of each page: up to where it came.
    package func catchUp(
        events: Int64 = .max, isHurried: Bool = false, patience: Duration = .zero,
        progress: (Int64) -> Void = { _ in }
    ) async throws {
        try await follower.catchUp(
            events: events, rest: isHurried ? .never : .afterEachPage, patience: patience, progress: progress
        ) { connection, stretch, head in
            try connection.walkByIndex()
            let hasOpen =
                try connection.query("SELECT 1 FROM drift_key WHERE ledger_id = $1 LIMIT 1", [.int(ledgerID)]).first
                != nil
            let start = hasOpen ? stretch.start : try Self.quietUntil(stretch.start, head, on: connection)
            let end = min(start + pageEvents, head)
            if start < end {
                var page = try DriftPage(from: start, to: end, on: connection)
                try page.goThrough(on: connection)
                try page.write(on: connection)
            }
            return end
        }
    }

    /// Begins anew where rows are missing, such as after somebody deleted them.
    package func restore() async throws {
        try await follower.restore { connection, checkpoint in
            // Each difference is counted, an open one has keys, and a log that may show one led to a stream's beginning.
            try connection.query(
                """
                SELECT (SELECT (count(*), count(*) FILTER (WHERE is_open)) FROM drift WHERE ledger_id = $1)
                        <> (
                            SELECT (coalesce(sum(found), 0)::bigint, coalesce(sum(open), 0)::bigint)
                            FROM drift_count WHERE ledger_id = $1)
                    OR EXISTS (SELECT FROM drift WHERE ledger_id = $1 AND is_open AND NOT EXISTS (
                        SELECT FROM drift_key WHERE drift_key.ledger_id = $1 AND drift_key.position = drift.position))
                    OR NOT EXISTS (SELECT FROM drift WHERE ledger_id = $1)
                        AND NOT EXISTS (SELECT FROM drift_stream WHERE ledger_id = $1)
                        AND EXISTS (
                            SELECT FROM event WHERE ledger_id = $1 AND (source = 2 OR type = 'drift') AND position <= $2)
                """, [.int(ledgerID), .int(checkpoint)]
            ).row(0).bool(0)
        }
    }

    /// Forgets what is kept; the next `catchUp` begins at the first event.
    package func reset() async throws { try await follower.reset() }

    /// While no difference may still change: the position before the next event that may find one, which is the head where
    /// none may.
    static func quietUntil(
        _ checkpoint: Int64, _ head: Int64, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        let next = try connection.query(
            """
            SELECT position FROM event WHERE ledger_id = $1 AND position > $2 AND (source = 2 OR type = 'drift')
            ORDER BY position LIMIT 1
            """, [.int(ledgerID), .int(checkpoint)]
        ).first?.int(0)
        return next.map { min($0 - 1, head) } ?? head
    }

    private static func clear(_ connection: isolated PostgresConnection) throws {
        for table in ["drift", "drift_key", "drift_count", "drift_stream"] {
            try connection.query("DELETE FROM \(table) WHERE ledger_id = $1", [.int(ledgerID)])
        }
    }
}
