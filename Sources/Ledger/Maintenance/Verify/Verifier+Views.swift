import EntitlementCore
import PostgresClient

extension Verifier {
    /// Folds every original transaction that has a snapshot anew up to where the snapshot ends, and compares the two; looks
    /// for snapshots that nothing folds to, and for originals that should have one.
    func verifyViews(into summary: inout VerificationSummary) async throws {
        var after: SnapshotRow?
        var done: Int64 = 0
        repeat {
            let limit = limits.originals
            let rows = try await page { [after] connection in
                let rows = try SnapshotRow.page(after: after, limit: limit, on: connection)
                try compare(rows, on: connection)
                return rows
            }
            for row in rows {
                if row.isOutdated { summary.outdatedViews += 1 } else { summary.views += 1 }
            }
            done += Int64(rows.count)
            progress(VerificationProgress(stage: .views, done: done, total: nil))
            after = rows.count == limit ? rows.last : nil
        } while after != nil
        try await verifyCompleteness(into: &summary)
    }

    /// Looks whether any projection claims to have gone beyond the log; and up to where the views come, as their row says, no
    /// snapshot that is due may be missing.
    private func verifyCompleteness(into summary: inout VerificationSummary) async throws {
        let isCurrent = try await page { connection in
            let rows = try connection.query(
                """
                SELECT name, version, checkpoint, head.position
                FROM projection JOIN ledger_head AS head USING (ledger_id) WHERE ledger_id = $1 ORDER BY name
                """, [.int(ledgerID)]
            ).rows
            for row in rows {
                let (checkpoint, head) = (try row.int(2), try row.int(3))
                guard 0...head ~= checkpoint else {
                    throw VerificationDifference(
                        "projection", try row.text(0),
                        "its checkpoint is \(checkpoint), which is not within the log, whose end is at \(head)")
                }
            }
            return try rows.contains {
                try $0.text(0) == ViewProjector.row.name && $0.int(1) == ViewProjector.row.version
            }
        }
        var missing: Int64 = 0
        var walk = DueSnapshots(policy: limits.policy)
        while let found = try await page({ [walk] in try walk.next(on: $0) }) {
            missing += Int64(found.missing.count)
            if isCurrent, let first = found.missing.first {
                throw VerificationDifference(
                    "original_view", "\(first.environment.rawValue) \(first.originalTransactionID)",
                    "is missing or too old, though the projection has gone past it; run `rightful rebuild`")
            }
            walk = found.rest
        }
        // One of another fold version is found missing, and was counted already.
        summary.missingViews = max(0, missing - summary.outdatedViews)
    }

    private func compare(_ rows: [SnapshotRow], on connection: isolated PostgresConnection) throws {
        let rows = rows.filter { !$0.isOutdated }
        let fold = LifeFold(limit: limits.events)
        for part in fold.parts(of: rows.map(\.life)) {
            let folded: [LifeFold.Folded]
            do {
                folded = try fold.fold(part, on: connection)
            } catch let error as LifeFold.UnreadableEvent {
                throw VerificationDifference(event: error.position, "cannot be read: \(error.problem)")
            }
            for (row, folded) in zip(rows[part.indices], folded) {
                try row.check(against: folded.state, events: folded.events)
            }
        }
    }
}

/// One snapshot of the live generation, as it is stored.
struct SnapshotRow: Sendable {
    /// What the log holds of the original transaction up to where the snapshot ends.
    let life: LifeSpan
    private let version: Int64
    private let events: Int64
    private let state: [UInt8]

    private init(_ row: PostgresRow) throws {
        life = LifeSpan(
            environment: Int16(clamping: try row.int(0)), original: try row.text(1), position: try row.int(3),
            events: try row.int(6))
        version = try row.int(2)
        events = try row.int(4)
        state = try row.bytes(5)
    }

    /// Another version of the fold wrote it; reads pass it over.
    var isOutdated: Bool { version != Int64(OriginalState.foldVersion) }

    func check(against fold: OriginalState, events count: Int64) throws {
        guard count > 0 else { throw differs("the log has no event of this original transaction") }
        guard fold.lastPosition == life.position else {
            throw differs("last_position is \(life.position); the last event up to there is \(fold.lastPosition)")
        }
        guard events == count else { throw differs("events is \(events); there are \(count) up to its end") }
        guard (try? OriginalState(encoded: state)) == fold else { throw differs("state is not the fold of its events") }
    }

    private func differs(_ problem: String) -> VerificationDifference {
        let environment = Int64(life.environment)
        let name = (try? StoreEnvironment(stored: environment))?.rawValue ?? "environment \(environment)"
        return VerificationDifference("original_view", "\(name) \(life.original)", problem)
    }

    /// The next snapshots in the order of their keys.
    static func page(
        after: SnapshotRow?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [SnapshotRow] {
        try connection.query(
            """
            SELECT environment, original_transaction_id, fold_version, last_position, events, state, (
                    SELECT count(*) FROM event
                    WHERE event.ledger_id = $1 AND event.environment = original_view.environment
                        AND event.original_transaction_id = original_view.original_transaction_id
                        AND event.position <= original_view.last_position
                )
            FROM original_view
            WHERE ledger_id = $1 AND generation = (SELECT view_generation FROM ledger_head WHERE ledger_id = $1)
                AND (environment, original_transaction_id) > ($2, $3)
            ORDER BY environment, original_transaction_id LIMIT $4
            """,
            [
                .int(ledgerID), .int2(after?.life.environment ?? 0), .text(after?.life.original ?? ""),
                .int(Int64(limit)),
            ]
        ).rows.map { try SnapshotRow($0) }
    }
}
