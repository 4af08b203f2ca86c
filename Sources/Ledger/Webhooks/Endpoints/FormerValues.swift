package import EntitlementCore
import PostgresClient
import Synchronization

/// What is erased of table `webhook_secret`: where endpoints were, what they signed with, and what was sent along, once nothing
/// needs it.
///
/// What waits goes to the address that an endpoint has now, so a former one is needed by nobody but an attempt under way, which
/// has it already. A former secret signs along for as long as was said.
extension EndpointRegister {
    /// A value is written before the event that makes it count, and may be written again then; in seconds, and more than that
    /// takes.
    private static let appendPatience = 3600
    /// How many rows one statement erases.
    private static let page = 1000

    /// Erases what no endpoint needs any more: former secrets that sign no more, former addresses, and what nothing in the log
    /// bears out.
    ///
    /// - Returns: how many values that were.
    @discardableResult
    package func eraseFormer(now: Timestamp) async throws -> Int {
        var count = 0
        while true {
            try Task.checkCancellation()
            let erased = try await pool.run(doing: "erasing former secrets of endpoints") { connection in
                try Self.erasePage(now: now, on: connection)
            }
            forget(erased)
            count += erased.count
            if erased.count < Self.page { return count }
        }
    }

    private static func erasePage(
        now: Timestamp, on connection: isolated PostgresConnection
    ) throws -> [(endpoint: String, hash: Digest)] {
        // From the log anew: what this process has read may be of a log that was replaced by a backup.
        let head = try Statements.headPosition(on: connection)
        var book = EndpointBook()
        for event in try EndpointEvent.all(after: 0, upTo: head, on: connection) {
            book.apply(event.fact, position: event.position, at: event.recordedAt)
        }
        let made = try connection.query(
            "SELECT endpoint, hash, made_at FROM webhook_secret WHERE ledger_id = $1", [.int(ledgerID)])
        for row in made.rows { book.note(try row.digest(1), of: try row.text(0), madeAt: try row.instant(2)) }
        var (needed, ended): ([(String, Digest)], [(String, Digest)]) = ([], [])
        for endpoint in book.endpoints.values {
            needed += endpoint.needed(at: now, overlap: overlap).map { (endpoint.id, $0) }
            ended += endpoint.endedSecrets(at: now, overlap: overlap).map { (endpoint.id, $0) }
        }
        return try connection.query(
            """
            DELETE FROM webhook_secret WHERE ledger_id = $1 AND (endpoint, hash) IN (
                SELECT kept.endpoint, kept.hash FROM webhook_secret AS kept
                LEFT JOIN unnest($2::text[], $3::bytea[]) AS needed (endpoint, hash)
                    ON needed.endpoint = kept.endpoint AND needed.hash = kept.hash
                LEFT JOIN unnest($4::text[], $5::bytea[]) AS ended (endpoint, hash)
                    ON ended.endpoint = kept.endpoint AND ended.hash = kept.hash
                WHERE kept.ledger_id = $1 AND needed.hash IS NULL AND (ended.hash IS NOT NULL
                    OR kept.kept_at < clock_timestamp() - interval '\(appendPatience) s')
                LIMIT \(page))
                AND (kept_at < clock_timestamp() - interval '\(appendPatience) s' OR (endpoint, hash) IN (
                    SELECT * FROM unnest($4::text[], $5::bytea[])))
            RETURNING endpoint, hash
            """,
            [
                .int(ledgerID), .textArray(needed.map(\.0)), .bytesArray(needed.map(\.1.bytes)),
                .textArray(ended.map(\.0)), .bytesArray(ended.map(\.1.bytes)),
            ]
        ).rows.map { (try $0.text(0), try $0.digest(1)) }
    }

    /// Erases the secrets of an endpoint that were ended at once.
    func eraseEndedSecrets(of id: String) async throws {
        try await refresh()
        guard let endpoint = endpoint(id) else { return }
        let ended = endpoint.endedSecrets(at: .earliest, overlap: Self.overlap)
        try await pool.run(doing: "erasing former secrets of endpoints") { connection in
            _ = try connection.query(
                "DELETE FROM webhook_secret WHERE ledger_id = $1 AND endpoint = $2 AND hash = ANY ($3)",
                [.int(ledgerID), .text(id), .bytesArray(ended.map(\.bytes))])
        }
        forget(ended.map { (id, $0) })
    }

    private func forget(_ erased: [(endpoint: String, hash: Digest)]) {
        state.withLock { state in
            for (endpoint, hash) in erased { state.values[endpoint]?[hash] = nil }
        }
    }
}

extension Endpoint {
    /// The hashes of what it is told with: its address, what signs, and what is sent along.
    fileprivate func needed(at instant: Timestamp, overlap: Int64) -> [Digest] {
        [terms.urlHash] + [terms.authorizationHash].compactMap(\.self) + signing(at: instant, overlap: overlap)
    }

    /// The hashes of the secrets that sign no more.
    fileprivate func endedSecrets(at instant: Timestamp, overlap: Int64) -> [Digest] {
        secrets.dropFirst(signing(at: instant, overlap: overlap).count).map(\.hash)
    }
}
