import EntitlementCore
package import PostgresClient

/// That PostgreSQL has long failed to write what changed to its tables' files, so that its write-ahead log grows until the disk is
/// full.
package struct OverdueCheckpoint: Sendable, Hashable {
    /// When the last one that succeeded began.
    private let last: Timestamp

    /// - Parameter intervals: how long ago something must have been recorded that is in no checkpoint, in the time that
    ///   PostgreSQL lets pass from one to the next (`checkpoint_timeout`).
    /// - Returns: `nil` where everything older is in one, and on a standby, which writes none of its own.
    package static func find(
        _ pool: PostgresPool, olderThan intervals: Int64 = 4
    ) async throws -> OverdueCheckpoint? {
        try await pool.run(doing: "looking when the last checkpoint was") { connection in
            let row = try connection.query(checkpoint).row(0)
            guard try !row.bool(2) else { return nil }
            let (last, interval) = (try row.instant(0), try row.int(1))
            let then = try Statements.clock(on: connection)
                .adding(milliseconds: -1000 * intervals * interval)
            let head = try Statements.headPosition(on: connection)
            let position = try Statements.lastPosition(recordedBy: then, head: head, on: connection)
            let isMissing =
                try connection.query(
                    "SELECT FROM event WHERE ledger_id = $1 AND position = $2 AND recorded_at > $3",
                    [.int(ledgerID), .int(position), .timestamp(last.milliseconds)]
                ).first != nil
            return isMissing ? OverdueCheckpoint(last: last) : nil
        }
    }

    /// Its time is that of its beginning, in whole seconds.
    private static let checkpoint = """
        SELECT date_trunc('second', checkpoint_time) + interval '1 second', setting.setting::bigint, pg_is_in_recovery()
        FROM pg_control_checkpoint(), pg_settings AS setting WHERE setting.name = 'checkpoint_timeout'
        """
}

extension OverdueCheckpoint: CustomStringConvertible {
    /// For people: since when, and what to do.
    package var description: String {
        "no checkpoint has succeeded since \(last), though events were recorded, so pg_wal grows until the disk is full: see why in "
            + "PostgreSQL's log"
    }
}
