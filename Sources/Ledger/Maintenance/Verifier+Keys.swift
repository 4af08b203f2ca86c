import EntitlementCore
import PostgresClient

extension Verifier {
    /// Looks for keys that no event of the log accounts for.
    ///
    /// The walk of the log has found the key of every statement; as many keys as statements leaves none over.
    func verifyKeys(upTo position: Int64, expected: Int64) async throws {
        var count: Int64 = 0
        try await eachKey(blocks: limits.keyBlocks) { key in
            guard key.position >= 1, key.position <= key.head else {
                throw key.difference("names position \(key.position), which the log does not have")
            }
            if key.position <= position { count += 1 }
        }
        guard count != expected else { return }
        // Now each is held against its event. Should none be wrong, the table was rewritten under the count.
        try await eachKey(blocks: limits.keyBlocks, withFacts: true) { key in
            guard key.position <= position, let facts = key.facts else { return }
            let stated = try FactCodec.decode(facts).statementKey
            guard let stated, stated.id.utf8.elementsEqual(key.sourceID.utf8), stated.payloadHash.bytes == key.hash
            else { throw key.difference("is not the key of event \(key.position), which it names") }
        }
    }

    /// Walks the table as it lies on disk: in the order of its keys, which are random, every row would cost a read.
    ///
    /// Rows are only ever added, so all that were there at the beginning stay where they are.
    private func eachKey(
        blocks: Int64, withFacts: Bool = false, _ body: (StoredKey) throws -> Void
    ) async throws {
        let end = try await page { connection in
            try connection.query(
                "SELECT pg_relation_size('event_key') / current_setting('block_size')::bigint"
            ).first?.int(0) ?? 0
        }
        var done: Int64 = 0
        for start in stride(from: 0, to: end, by: Int64.Stride(blocks)) {
            let keys = try await page { connection in
                try StoredKey.page(blocks: start..<(start + blocks), withFacts: withFacts, on: connection)
            }
            for key in keys { try body(key) }
            done += Int64(keys.count)
            progress(VerificationProgress(stage: .keys, done: done, total: nil))
        }
    }
}

private struct StoredKey: Sendable {
    let sourceID: String
    let hash: [UInt8]
    let position: Int64
    /// The end of the log at the instant at which the key was read.
    let head: Int64
    /// Of the event it names.
    let facts: [UInt8]?

    static func page(
        blocks: Range<Int64>, withFacts: Bool, on connection: isolated PostgresConnection
    ) throws -> [StoredKey] {
        let join = "LEFT JOIN event ON event.ledger_id = key.ledger_id AND event.position = key.position"
        let result = try connection.query(
            """
            SELECT key.source_id, key.payload_sha256, key.position, head.position,
                \(withFacts ? "event.facts" : "NULL::bytea")
            FROM event_key AS key JOIN ledger_head AS head USING (ledger_id) \(withFacts ? join : "")
            WHERE key.ledger_id = $1 AND key.ctid >= $2::text::tid AND key.ctid < $3::text::tid
            """, [.int(ledgerID), .text("(\(blocks.lowerBound),0)"), .text("(\(blocks.upperBound),0)")])
        return try result.rows.map { row in
            StoredKey(
                sourceID: try row.text(0), hash: try row.bytes(1), position: try row.int(2), head: try row.int(3),
                facts: try row.optionalBytes(4))
        }
    }

    func difference(_ problem: String) -> VerificationDifference {
        VerificationDifference("event_key", "source_id \(sourceID), payload \(Digest(hash)?.hex ?? "?")", problem)
    }
}
