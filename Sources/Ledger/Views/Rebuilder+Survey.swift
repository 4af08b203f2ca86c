import EntitlementCore
import PostgresClient

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
