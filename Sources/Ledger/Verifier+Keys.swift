import EntitlementCore
import PostgresClient

extension Verifier {
    /// Looks for keys that no event of the log accounts for.
    ///
    /// The walk of the log has found the key of every statement; as many keys as statements leaves none over.
    func verifyKeys(upTo position: Int64, expected: Int64) async throws {
        var count: Int64 = 0
        var done: Int64 = 0
        try await eachKey(limit: limits.keys) { key in
            done += 1
            if done.isMultiple(of: Int64(limits.keys)) {
                progress(VerificationProgress(stage: .keys, done: done, total: nil))
            }
            guard key.position >= 1, key.position <= key.head else {
                throw key.difference("names position \(key.position), which the log does not have")
            }
            if key.position <= position { count += 1 }
        }
        if count != expected { try await nameStrayKey(upTo: position) }
    }

    private func nameStrayKey(upTo position: Int64) async throws {
        try await eachKey(limit: limits.events, withFacts: true) { key in
            guard key.position <= position, let facts = key.facts else { return }
            let stated = try FactCodec.decode(facts).statementKey
            guard let stated, stated.id.utf8.elementsEqual(key.sourceID.utf8), stated.payloadHash.bytes == key.hash
            else { throw key.difference("is not the key of event \(key.position), which it names") }
        }
    }

    private func eachKey(
        limit: Int, withFacts: Bool = false, _ body: (StoredKey) throws -> Void
    ) async throws {
        var last: StoredKey?
        repeat {
            let keys = try await page { [last] connection in
                try StoredKey.page(after: last, limit: limit, withFacts: withFacts, on: connection)
            }
            for key in keys { try body(key) }
            last = keys.count == limit ? keys.last : nil
        } while last != nil
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
        after last: StoredKey?, limit: Int, withFacts: Bool, on connection: isolated PostgresConnection
    ) throws -> [StoredKey] {
        let rest = last == nil ? "" : "AND (key.source_id, key.payload_sha256) > ($3, $4)"
        let join = "LEFT JOIN event ON event.ledger_id = key.ledger_id AND event.position = key.position"
        let result = try connection.query(
            """
            SELECT key.source_id, key.payload_sha256, key.position, head.position,
                \(withFacts ? "event.facts" : "NULL::bytea")
            FROM event_key AS key JOIN ledger_head AS head USING (ledger_id) \(withFacts ? join : "")
            WHERE key.ledger_id = $1 \(rest)
            ORDER BY key.source_id, key.payload_sha256 LIMIT $2
            """,
            [.int(ledgerID), .int(Int64(limit))] + (last.map { [.text($0.sourceID), .bytes($0.hash)] } ?? []))
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
