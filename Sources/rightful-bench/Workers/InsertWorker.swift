import EntitlementCore
import Foundation
import Ledger
import PostgresClient

/// Inserts rows with an event's bytes into a table that promises nothing but a primary key, a hundred to a transaction,
/// by the client library that the ledger uses.
struct InsertWorker {
    private static let rows = 100
    private static let batches = 20

    private let request: WorkerRequest.Insert

    init(_ request: WorkerRequest.Insert) { self.request = request }

    /// What one transaction inserts beside its positions.
    private struct Batch: Sendable {
        var keys: [[UInt8]?] = []
        var hashes: [[UInt8]?] = []
        var originals: [String?] = []
        var facts: [[UInt8]?] = []
        var evidence: [[UInt8]?] = []
    }

    func run() async throws -> WorkerResult {
        let stream = LifeStream(LifeStream.Shape(), evidence: try Workload.evidence())
        var (batches, bytes) = ([Batch](), 0)
        for _ in 0..<Self.batches {
            var batch = Batch()
            for _ in 0..<Self.rows {
                guard let draft = stream.next(), case .notification(let fact) = draft.fact else { continue }
                let facts = FactCodec.encode(draft.fact)
                guard case .verified(let statements) = draft.evidence else { continue }
                let stored = EvidenceParts(statements).bytes
                let evidence = try request.isCompressed ? stored : EvidenceParts.steps(of: stored)
                batch.keys.append(Array(("notification:production:" + fact.uuid).utf8))
                batch.hashes.append(fact.payloadHash.bytes)
                batch.originals.append(draft.fact.originalTransactionID)
                batch.facts.append(facts)
                batch.evidence.append(evidence)
                bytes += facts.count + evidence.count + 32 + 49 + 16 + 8
            }
            batches.append(batch)
        }
        let connection = try await PostgresConnection.connect(request.conninfo)
        try await connection.execute(
            script: """
                CREATE TABLE IF NOT EXISTS plain (
                    position bigint PRIMARY KEY, source_id bytea NOT NULL, payload_sha256 bytea NOT NULL,
                    original text NOT NULL, facts bytea NOT NULL, evidence bytea NOT NULL);
                TRUNCATE plain
                """)
        let processor = ProcessStatistics.ownProcessorTime()
        let (inserted, seconds) = try await insert(batches, through: connection)
        let used = ProcessStatistics.ownProcessorTime() - processor
        return WorkerResult(
            operations: inserted, seconds: seconds, processorSeconds: used / .seconds(1), batch: Double(Self.rows),
            rowBytes: bytes / (Self.rows * Self.batches))
    }

    private func insert(
        _ batches: [Batch], through connection: PostgresConnection
    ) async throws -> (rows: Int, seconds: Double) {
        try await connection.run { [seconds = request.seconds] connection in
            var position: Int64 = 0
            func insert(_ batch: Batch, through connection: isolated PostgresConnection) throws {
                try connection.query(
                    """
                    INSERT INTO plain (position, source_id, payload_sha256, original, facts, evidence)
                    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[], $5::bytea[], $6::bytea[])
                    """,
                    [
                        .intArray((0..<Int64(Self.rows)).map { position + $0 }), .bytesArray(batch.keys),
                        .bytesArray(batch.hashes), .textArray(batch.originals), .bytesArray(batch.facts),
                        .bytesArray(batch.evidence),
                    ])
                position += Int64(Self.rows)
            }
            try insert(batches[0], through: connection)
            let (start, before) = (ContinuousClock.now, position)
            while start.duration(to: .now) < .seconds(seconds) {
                try insert(batches[Int(position) / Self.rows % batches.count], through: connection)
            }
            return (Int(position - before), start.duration(to: .now) / .seconds(1))
        }
    }
}
