import EntitlementCore
import Foundation
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// Looks at a whole database as an auditor would, whatever wrote it.
struct LogInspection {
    private let pool: PostgresPool
    private let views: ViewInspection

    init(_ database: TestDatabase) {
        pool = PostgresPool(database.ownerConninfo)
        views = ViewInspection(database)
    }

    /// Dense positions, a true chain, time that never runs back, one event per notification, names, keys and evidence
    /// that belong to their events, a head at the end; true views, too, once the projector has written what is due.
    func expectSound(_ comment: String) async throws {
        let records = try await pool.withConnection { connection in
            try connection.query("SELECT \(EventColumns.list) FROM event ORDER BY position").rows.map {
                try EventRecord($0)
            }
        }
        let last = Int64(records.count)
        #expect(records.map(\.position) == Array(1...last), "\(comment)")
        var (previous, recordedAt) = (Digest.zero, Timestamp.earliest)
        for record in records {
            #expect(record.previousHash == previous && record.computedHash() == record.hash, "\(comment)")
            #expect(record.recordedAt >= recordedAt, "\(comment)")
            (previous, recordedAt) = (record.hash, record.recordedAt)
        }
        let identities = try records.compactMap { record -> String? in
            guard case .notification(let fact) = try FactCodec.decode(record.facts) else { return nil }
            return "\(fact.uuid) \(fact.payloadHash.hex)"
        }
        #expect(Set(identities).count == identities.count, "\(comment)")
        try await expectFixedPoints(last: last, hash: previous, comment)
        try await views.expectTrueNames(comment)
        try await views.expectTrueReads("\(comment), before the projector")
        try await ViewProjector(pool: pool, pageEvents: 37, policy: .early).catchUp()
        try await views.expectTrue(.early, comment)
        try await views.expectTrueReads("\(comment), after the projector")
    }

    private func expectFixedPoints(last: Int64, hash: Digest, _ comment: String) async throws {
        let ends = ["SELECT position FROM ledger_head"]
        let strays = [
            """
            SELECT count(*) FROM evidence
            WHERE NOT EXISTS (SELECT FROM event WHERE event.position = evidence.position)
            """,
            """
            SELECT count(*) FROM event WHERE evidence_sha256 IS NOT NULL
                AND NOT EXISTS (SELECT FROM evidence WHERE evidence.position = event.position)
            """,
            """
            SELECT count(*) FROM ledger_head WHERE catalog_position <> coalesce(
                (SELECT max(position) FROM event WHERE type = 'catalog_applied'), 0)
            """,
        ]
        try await pool.withConnection { connection in
            for (sql, expected) in ends.map({ ($0, last) }) + strays.map({ ($0, 0) }) {
                let value = try connection.query(sql).first?.int(0)
                #expect(value == expected, "\(sql) \(comment)")
            }
            let stored = try connection.query("SELECT hash FROM ledger_head").first?.digest(0)
            #expect(stored == hash, "\(comment)")
        }
    }
}
