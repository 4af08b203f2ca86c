import EntitlementCore
import PostgresClient

/// Walks all original transactions in the order of their keys and finds those that should have a snapshot by the
/// projection's checkpoint, and have none, or one that is too old.
struct DueSnapshots: Sendable {
    private static let pageOriginals: Int64 = 5000

    private let policy: SnapshotPolicy
    private var pending = LifeWalk.environments[...]
    private var after = ""

    init(policy: SnapshotPolicy) { self.policy = policy }

    /// The next originals; `nil` when there are no more.
    func next(
        on connection: isolated PostgresConnection
    ) throws -> (missing: [OriginalKey], originals: Int, rest: DueSnapshots)? {
        guard let environment = pending.first else { return nil }
        let rows = try connection.transactionUnlessInOne { connection in
            try connection.walkByIndex()
            return try connection.query(
                """
                SELECT key.original, key.events - coalesce(view.events, 0)
                    < \(policy.tailLimitSQL(after: "coalesce(view.events, 0)"))
                FROM (
                    SELECT environment, original_transaction_id AS original, count(*) AS events FROM event
                    WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id > $3
                        AND position <= (SELECT checkpoint FROM projection WHERE ledger_id = $1 AND name = $6)
                    GROUP BY environment, original_transaction_id
                    ORDER BY environment, original_transaction_id LIMIT $5
                ) AS key
                \(StateQuery.snapshotJoin(of: "key", version: "$4"))
                ORDER BY key.original
                """,
                [
                    .int(ledgerID), .int2(environment.number), .text(after), .int4(Int32(OriginalState.foldVersion)),
                    .int(Self.pageOriginals), .text(ViewProjector.row.name),
                ]
            ).rows.map { (original: try $0.text(0), isFine: try $0.bool(1)) }
        }
        var rest = self
        if rows.count < Int(Self.pageOriginals) {
            rest.pending = pending.dropFirst()
            rest.after = ""
        } else {
            rest.after = rows.last?.original ?? ""
        }
        let missing = rows.filter { !$0.isFine }.map {
            OriginalKey(environment: environment, originalTransactionID: $0.original)
        }
        return (missing, rows.count, rest)
    }
}

extension PostgresConnection {
    /// A read-only transaction, or the one that is open.
    fileprivate func transactionUnlessInOne<Value>(
        _ body: (isolated PostgresConnection) throws -> Value
    ) throws -> Value {
        isInTransaction ? try body(self) : try transaction(.readCommittedReadOnly, body)
    }
}
