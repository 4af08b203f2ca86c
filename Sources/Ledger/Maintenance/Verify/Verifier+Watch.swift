import EntitlementCore
import PostgresClient

extension Verifier {
    /// Looks again, original by original, what the store has to say next.
    ///
    /// What became of questions to the store is no part of the log.
    func verifyWatch() async throws {
        var done: Int64 = 0
        for environment in LifeWalk.environments {
            var after: String? = ""
            while let start = after {
                let limit = limits.originals
                let (last, count) = try await page {
                    try WatchPage.check(environment, after: start, limit: limit, on: $0)
                }
                after = last
                done += Int64(count)
                progress(VerificationProgress(stage: .watch, done: done, total: nil))
            }
        }
    }
}

/// Some of the originals of an environment, in the order of their ids, and what is stored of them.
private enum WatchPage {
    private struct Expectation: Equatable {
        let app: String
        let reason: Int64
        let expectedAt: Timestamp?
    }

    /// - Returns: the last id, `nil` at the end, and how many were looked at.
    static func check(
        _ environment: StoreEnvironment, after start: String, limit: Int, on connection: isolated PostgresConnection
    ) throws -> (last: String?, count: Int) {
        let originals = try connection.query(
            """
            SELECT original_transaction_id FROM event
            WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id > $3
            GROUP BY original_transaction_id ORDER BY original_transaction_id LIMIT $4
            """, [.int(ledgerID), .int2(environment.number), .text(start), .int(Int64(limit))]
        ).rows.map { try $0.text(0) }
        let last = originals.count < limit ? nil : originals.last
        guard let (counted, stored) = try stored(environment, after: start, through: last, on: connection) else {
            return (nil, 0)
        }
        // What came since the rows were read is looked for after them: an original that goes on beyond what was derived is left
        // to the page of its last event.
        let keys = Array(Set(originals).union(stored.keys)).sorted()
        let ends = try ends(of: keys, environment, on: connection)
        let settled = keys.filter { ends[$0].map { $0 <= counted } ?? true }.map {
            OriginalKey(environment: environment, originalTransactionID: $0)
        }
        let states = try StateQuery.states(of: settled, upTo: counted, on: connection)
        for key in settled {
            let watch = states[key].flatMap { WatchProjector.Watch(key, $0, now: .endless) }
            let expected = watch.map {
                Expectation(app: $0.app, reason: Int64($0.reason.number), expectedAt: $0.expectedAt)
            }
            let found = stored[key.originalTransactionID]
            guard found != expected else { continue }
            throw VerificationDifference(
                "store_watch", "\(environment.rawValue) \(key.originalTransactionID)",
                "\(found == nil ? "is missing" : "is not what the events up to \(counted) give"); "
                    + "run `rightful rebuild --only watch`")
        }
        return (last, originals.count)
    }

    /// Up to where is derived, and the rows: in one statement, so at one instant; `nil` where this program has derived nothing.
    private static func stored(
        _ environment: StoreEnvironment, after start: String, through last: String?,
        on connection: isolated PostgresConnection
    ) throws -> (counted: Int64, rows: [String: Expectation])? {
        let rows = try connection.query(
            """
            SELECT projection.checkpoint, original_transaction_id, app, reason, expected_at
            FROM projection LEFT JOIN store_watch AS watch ON watch.ledger_id = $1 AND watch.environment = $4
                AND watch.original_transaction_id > $5 AND ($6::text IS NULL OR watch.original_transaction_id <= $6)
            WHERE projection.ledger_id = $1 AND projection.name = $2 AND projection.version = $3
            """,
            [
                .int(ledgerID), .text(WatchProjector.row.name), .int4(Int32(WatchProjector.row.version)),
                .int2(environment.number), .text(start), .text(last),
            ]
        ).rows
        guard let first = rows.first else { return nil }
        var found: [String: Expectation] = [:]
        for row in rows {
            guard let original = try row.optionalText(1) else { continue }
            found[original] = Expectation(
                app: try row.text(2), reason: try row.int(3), expectedAt: try row.optionalInstant(4))
        }
        return (try first.int(0), found)
    }

    /// Where the last event of each original is; those that have none are left out.
    private static func ends(
        of originals: [String], _ environment: StoreEnvironment, on connection: isolated PostgresConnection
    ) throws -> [String: Int64] {
        let rows = try connection.query(
            """
            SELECT key.original, event.position FROM unnest($3::text[]) AS key (original)
            CROSS JOIN LATERAL (
                SELECT position FROM event WHERE event.ledger_id = $1 AND event.environment = $2
                    AND event.original_transaction_id = key.original
                ORDER BY position DESC LIMIT 1) AS event
            """, [.int(ledgerID), .int2(environment.number), .textArray(originals)]
        ).rows
        return Dictionary(uniqueKeysWithValues: try rows.map { (try $0.text(0), try $0.int(1)) })
    }
}
