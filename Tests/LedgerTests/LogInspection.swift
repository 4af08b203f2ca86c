import EntitlementCore
import Foundation
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// How much longer the long campaigns run than the everyday tests.
enum TestFactor {
    static let factor = Int(ProcessInfo.processInfo.environment["RIGHTFUL_TEST_FACTOR"] ?? "") ?? 1
}

/// Looks at a whole database as an auditor would, whatever wrote it.
struct LogInspection {
    private let pool: PostgresPool

    init(_ database: TestDatabase) { pool = PostgresPool(database.ownerConninfo) }

    /// Dense positions, a true chain, time that never runs back, one event per notification, keys and evidence that
    /// belong to their events, views that equal the fold, and a head and a checkpoint at the end.
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
        try await expectTrueViews(records, comment)
    }

    private func expectFixedPoints(last: Int64, hash: Digest, _ comment: String) async throws {
        let ends = [
            "SELECT position FROM ledger_head", "SELECT checkpoint FROM projection WHERE name = 'originals'",
        ]
        let strays = [
            """
            SELECT count(*) FROM event_key
            WHERE NOT EXISTS (SELECT FROM event WHERE event.position = event_key.position)
            """,
            """
            SELECT count(*) FROM evidence
            WHERE NOT EXISTS (SELECT FROM event WHERE event.position = evidence.position)
            """,
            """
            SELECT count(*) FROM event WHERE evidence_sha256 IS NOT NULL
                AND NOT EXISTS (SELECT FROM evidence WHERE evidence.position = event.position)
            """,
            "SELECT count(*) - count(DISTINCT position) FROM event_key",
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

    private func expectTrueViews(_ records: [EventRecord], _ comment: String) async throws {
        var latest: [OriginalKey: Int64] = [:]
        for record in records {
            guard let environment = record.environment, let id = record.originalTransactionID else { continue }
            latest[OriginalKey(environment: environment, originalTransactionID: id)] = record.position
        }
        let expected = latest
        try await pool.withConnection { connection in
            let folded = try StateQuery.fold(expected.keys.sorted(), upTo: .max, on: connection)
            let rows = try connection.query(
                "SELECT environment, original_transaction_id, last_position, state FROM original_view"
            ).rows
            #expect(rows.count == expected.count, "\(comment)")
            for row in rows {
                let key = OriginalKey(
                    environment: try StoreEnvironment(stored: row.text(0)), originalTransactionID: try row.text(1))
                #expect(try row.int(2) == expected[key], "\(comment)")
                #expect(try OriginalState(encoded: row.bytes(3)) == folded[key], "\(comment)")
            }
        }
    }
}
