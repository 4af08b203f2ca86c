package import PostgresClient

/// How the log ends, to be brought back to it: as when a backup is restored, or a replica takes over that had not got
/// everything.
package struct LogEnd {
    private let position: Int64
    private let nextIdentity: Int64
    private let row: [PostgresValue]
    private let headers: [[UInt8]]

    package static func now(of owner: PostgresConnection) async throws -> LogEnd {
        try await owner.run { connection in
            let row = try connection.query(
                "SELECT position, next_identity, recorded_at, hash, catalog_position FROM ledger_head"
            ).row(0)
            return LogEnd(
                position: try row.int(0), nextIdentity: try row.int(1),
                row: [
                    .int(try row.int(0)), .int(try row.int(1)), .timestamp(try row.timestamp(2)),
                    .bytes(try row.bytes(3)), .int(try row.int(4)),
                ],
                headers: try connection.query("SELECT sha256 FROM jws_header").rows.map { try $0.bytes(0) })
        }
    }

    /// Takes away what came into the log since.
    package func restore(by owner: PostgresConnection) async throws {
        let tables = ["event", "event_name", "evidence", "identity", "jws_header"]
        func set(_ state: String) -> String {
            tables.map { "ALTER TABLE \($0) \(state) TRIGGER USER;" }.joined()
        }
        try await owner.execute(
            script: """
                BEGIN; \(set("DISABLE"))
                DELETE FROM event_name WHERE position > \(position);
                DELETE FROM evidence WHERE position > \(position);
                DELETE FROM identity WHERE identity >= \(nextIdentity);
                DELETE FROM event WHERE position > \(position);
                """)
        try await owner.run { [row, headers] connection in
            try connection.query("DELETE FROM jws_header WHERE sha256 <> ALL ($1)", [.bytesArray(headers)])
            try connection.query(
                """
                UPDATE ledger_head SET position = $1, next_identity = $2, recorded_at = $3, hash = $4,
                    catalog_position = $5
                """, row)
        }
        try await owner.execute(script: "\(set("ENABLE")) COMMIT")
    }
}
