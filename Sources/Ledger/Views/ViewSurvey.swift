import EntitlementCore
import PostgresClient

/// Why the views should be rebuilt.
package enum RebuildReason: Sendable, Equatable, CustomStringConvertible {
    /// They are of another fold version (`nil`: of none).
    case otherVersion(Int64?)
    /// They claim to reach beyond the end of the log.
    case ahead(checkpoint: Int64, head: Int64)
    /// The snapshot of an original transaction is missing or too old.
    case unproven(originalTransactionID: String)
    /// A rebuild was begun and not finished.
    case unfinished

    package var description: String {
        switch self {
        case .otherVersion(let version):
            "the views are of fold version \(version.map(String.init) ?? "none"), this is \(OriginalState.foldVersion)"
        case .ahead(let checkpoint, let head): "the views claim position \(checkpoint), the log ends at \(head)"
        case .unproven(let original): "the snapshot of original transaction \(original) is missing or out of date"
        case .unfinished: "a rebuild was not finished"
        }
    }
}

extension Rebuilder {
    /// Looks whether the views count: their version, and for every original transaction that is long enough whether it
    /// has a snapshot that is recent enough; `nil` when all do.
    ///
    /// It reads indexes in short pages and holds nothing. It does not fold: whether a snapshot is also right is for
    /// `verify`.
    package func reasonToRebuild() async throws -> RebuildReason? {
        if let reason = try await read({ try Self.evident(on: $0) }) { return reason }
        var walk = DueSnapshots(policy: limits.policy)
        while true {
            let start = clock.now
            guard let page = try await read({ [walk] in try walk.next(on: $0) }) else { return nil }
            if let missing = page.missing.first {
                return .unproven(originalTransactionID: missing.originalTransactionID)
            }
            walk = page.rest
            try await Task.sleep(for: rest(from: start, share: limits.surveyShare))
        }
    }

    private func read<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "looking whether the views count", body)
    }

    private static func evident(on connection: isolated PostgresConnection) throws -> RebuildReason? {
        let row = try connection.query(
            """
            SELECT head.position, projection.version, projection.checkpoint
            FROM ledger_head AS head
            LEFT JOIN projection ON projection.ledger_id = head.ledger_id AND projection.name = 'originals'
            WHERE head.ledger_id = $1
            """, [.int(ledgerID)]
        ).first
        guard let row else { throw Statements.missingHead }
        let version = try row.optionalInt(1)
        guard version == Int64(OriginalState.foldVersion), let checkpoint = try row.optionalInt(2) else {
            return .otherVersion(version)
        }
        let head = try row.int(0)
        if checkpoint > head { return .ahead(checkpoint: checkpoint, head: head) }
        if let state = try RebuildState.read(on: connection), state.isUnfinished, state.phase != .clearing {
            return .unfinished
        }
        return nil
    }
}

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
                    .int(Self.pageOriginals), .text(ViewProjector.name),
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
