import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import Testing

@testable import Service

extension ServiceRig {
    /// Brings the differences to the end of the log, in pages of so many events.
    func tellApart(pageEvents: Int64 = 2000) async throws {
        try await DriftProjector(pool: pool, pageEvents: pageEvents).catchUp(isHurried: true)
    }

    /// The differences, as far as they are told apart.
    func drift(_ query: String = "", key: String? = nil) async throws -> DriftListDocument {
        let answer = try await send("GET", "/v1/drift?limit=1000\(query.isEmpty ? "" : "&\(query)")", key: key ?? admin)
        try #require(answer.status == 200, "\(answer.text)")
        return try WireJSON.decode(DriftListDocument.self, from: answer.body)
    }

    /// Tells apart what came, and says each difference in words.
    func differences(_ query: String = "") async throws -> [String] {
        try await tellApart()
        return try await drift(query).items.map(\.words)
    }

    /// All that is kept, row for row.
    func driftRows() async throws -> [String] {
        try await pool.withConnection { connection in
            try ["drift", "drift_key", "drift_count", "drift_stream"].flatMap { table in
                try connection.query(
                    """
                    SELECT '\(table) ' || (to_jsonb(stored) - 'asked_at')::text FROM \(table) AS stored
                    \(table == "drift_count" ? "WHERE found <> 0" : "") ORDER BY 1
                    """
                ).rows.map { try $0.text(0) }
            }
        }
    }

    /// Deletes every row, and the projection's own.
    func deleteDrift() async throws {
        try await pool.withConnection { connection in
            for table in ["drift", "drift_key", "drift_count", "drift_stream"] {
                _ = try connection.query("DELETE FROM \(table)")
            }
            _ = try connection.query("DELETE FROM projection WHERE name = 'drift'")
        }
    }

    /// Throws everything away and derives it again, in pages of another size: it must be the same.
    func expectSameDriftAnew(pageEvents: Int64, _ place: String = "") async throws {
        try await tellApart()
        let rows = try await driftRows()
        try await deleteDrift()
        try await tellApart(pageEvents: pageEvents)
        let again = try await driftRows()
        #expect(again == rows, "\(place)")
    }
}

extension DriftListDocument.Item {
    /// `stale_device device_ledger open`, or `late_notification device_ledger by notification`.
    var words: String {
        "\(self.class.rawValue) \(between.rawValue) " + (resolved.map { "by \($0.by.rawValue)" } ?? "open")
    }
}
