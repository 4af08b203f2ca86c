import EntitlementCore
import PostgresClient

/// Why the views should be rebuilt.
package enum RebuildReason: Sendable, Equatable, CustomStringConvertible {
    /// They are of another fold version (`nil`: of none).
    case otherVersion(Int64?)
    /// Events were appended without them.
    case behind(checkpoint: Int64, head: Int64)
    /// The row of an original transaction is missing or does not count.
    case unproven(originalTransactionID: String)
    /// A rebuild was begun and not finished.
    case unfinished

    package var description: String {
        switch self {
        case .otherVersion(let version):
            "the views are of fold version \(version.map(String.init) ?? "none"), this is \(OriginalState.foldVersion)"
        case .behind(let checkpoint, let head): "the views end at position \(checkpoint), the log at \(head)"
        case .unproven(let original): "the view of original transaction \(original) is missing or out of date"
        case .unfinished: "a rebuild was not finished"
        }
    }
}

extension Rebuilder {
    /// Looks whether the views count: their version, how far they come, and for every original transaction whether
    /// its row is the log's latest; `nil` when all do.
    ///
    /// It reads indexes in short pages and holds nothing. It does not fold: whether a row that counts is also right is
    /// what a proof is for.
    package func reasonToRebuild() async throws -> RebuildReason? {
        if let reason = try await read({ try Self.evident(on: $0) }) { return reason }
        for environment in KeyOrderFold.environments {
            var after: String? = ""
            while let start = after {
                try Task.checkCancellation()
                let page = try await read { try Self.survey(environment, after: start, on: $0) }
                if let unproven = page.unproven { return .unproven(originalTransactionID: unproven) }
                after = page.next
            }
        }
        return nil
    }

    private func read<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        do {
            return try await pool.withConnection(body)
        } catch let error as CancellationError {
            throw error
        } catch {
            throw LedgerError(error, doing: "looking whether the views count")
        }
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
        if checkpoint != head { return .behind(checkpoint: checkpoint, head: head) }
        if let state = try RebuildState.read(on: connection), state.isUnfinished, state.phase != .clearing {
            return .unfinished
        }
        return nil
    }

    /// The next thousand originals: the first whose row does not count, or where to go on.
    private static func survey(
        _ environment: StoreEnvironment, after: String, on connection: isolated PostgresConnection
    ) throws -> (unproven: String?, next: String?) {
        let limit = 1000
        let rows = try connection.transaction(.readCommittedReadOnly) { connection in
            try connection.walkByIndex()
            return try connection.query(
                """
                SELECT key.original_transaction_id,
                    coalesce(view.fold_version = $4 AND view.last_position = key.position, false)
                FROM (
                    SELECT environment, original_transaction_id, max(position) AS position FROM event
                    WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id > $3
                    GROUP BY environment, original_transaction_id
                    ORDER BY environment, original_transaction_id LIMIT $5
                ) AS key
                LEFT JOIN LATERAL (\(ViewTable.liveRow)) AS view ON true
                ORDER BY key.original_transaction_id
                """,
                [
                    .int(ledgerID), .text(environment.rawValue), .text(after),
                    .int4(Int32(OriginalState.foldVersion)), .int(Int64(limit)),
                ]
            ).rows
        }
        for row in rows where try !row.bool(1) { return (try row.text(0), nil) }
        return (nil, rows.count < limit ? nil : try rows.last?.text(0))
    }
}
