import EntitlementCore
package import PostgresClient

/// Keeps, behind the log, the differences between device, ledger and store, and tells them apart.
///
/// A page is one transaction under the lock of the projection's row, so any number of processes may do this at once. Events
/// are taken one after the other, each with what is known up to it; so the rows are the same whatever the pages were.
package struct DriftProjector: Sendable {
    static let row = ProjectionRow(name: "drift", version: 1)

    private let pool: PostgresPool
    private let pageEvents: Int64

    /// - Parameter pageEvents: how many positions one transaction goes through.
    package init(pool: PostgresPool, pageEvents: Int64 = 2000) {
        self.pool = pool
        self.pageEvents = pageEvents
    }

    /// Goes on from the checkpoint to the head of the log, or through as many events.
    ///
    /// After each page it rests for as long as that took, so that those who ask are served first.
    ///
    /// - Parameters:
    ///   - isHurried: it does not rest, because somebody waits for the end.
    ///   - patience: how long it waits for another process that is at it; after that it returns.
    ///   - progress: told of each page: up to where it came.
    package func catchUp(
        events: Int64 = .max, isHurried: Bool = false, patience: Duration = .zero,
        progress: @Sendable (Int64) -> Void = { _ in }
    ) async throws {
        var left = events
        let start = ContinuousClock.now
        while left > 0 {
            try Task.checkCancellation()
            let pageStart = ContinuousClock.now
            switch try await pool.run(doing: "telling differences apart", { try page(on: $0) }) {
            case .done: return
            case .reachedHead(let head):
                progress(head)
                if !isHurried { try await Task.sleep(for: pageStart.duration(to: .now)) }
                // What came meanwhile is for the next time: under a steady load there would be no end to it.
                return
            case .wentThrough(let end):
                progress(end)
                left -= pageEvents
                if !isHurried { try await Task.sleep(for: pageStart.duration(to: .now)) }
            case .elsewhere:
                guard start.duration(to: .now) < patience else { return }
                try await Task.sleep(for: Self.pollInterval)
            }
        }
    }

    /// Between looks at whether another process has ended its page.
    private static let pollInterval = Duration.milliseconds(10)

    /// What came of one page.
    private enum Progress: Sendable {
        /// Nothing is left to do.
        case done
        /// The page ended at this position, where the log did when it began.
        case reachedHead(Int64)
        /// The page ended at this position, and more is left.
        case wentThrough(Int64)
        /// Another process is at it.
        case elsewhere
    }

    /// Forgets what is kept; the next `catchUp` begins at the first event.
    package func reset() async throws {
        try await pool.run(doing: "telling differences apart") { connection in
            try connection.transaction { connection in
                _ = try Self.row.lock(on: connection, waits: true, clear: Self.clear)
                try Self.clear(connection)
                try Self.row.note(0, on: connection)
            }
        }
    }

    private func page(on connection: isolated PostgresConnection) throws -> Progress {
        if try Self.row.isCurrent(on: connection) { return .done }
        return try connection.transaction { connection in
            guard let checkpoint = try Self.row.lock(on: connection, clear: Self.clear) else { return .elsewhere }
            let head = try Statements.headPosition(on: connection)
            guard head > checkpoint else { return .done }
            try connection.walkByIndex()
            let start = try Self.quietUntil(checkpoint, head, on: connection)
            let end = min(start + pageEvents, head)
            if start < end {
                var page = try DriftPage(from: start, to: end, on: connection)
                try page.goThrough(on: connection)
                try page.write(on: connection)
            }
            try Self.row.note(end, on: connection)
            return end == head ? .reachedHead(end) : .wentThrough(end)
        }
    }

    /// The position before the next event that can bear on a difference, which is the head where none can.
    ///
    /// While no difference may still change, those are the events that may find one.
    private static func quietUntil(
        _ checkpoint: Int64, _ head: Int64, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        if try connection.query("SELECT 1 FROM drift_key WHERE ledger_id = $1 LIMIT 1", [.int(ledgerID)]).first != nil {
            return checkpoint
        }
        let next = try connection.query(
            """
            SELECT position FROM event WHERE ledger_id = $1 AND position > $2 AND (source = 2 OR type = 'drift')
            ORDER BY position LIMIT 1
            """, [.int(ledgerID), .int(checkpoint)]
        ).first?.int(0)
        return next.map { min($0 - 1, head) } ?? head
    }

    private static func clear(_ connection: isolated PostgresConnection) throws {
        for table in ["drift", "drift_key", "drift_count", "drift_stream"] {
            try connection.query("DELETE FROM \(table) WHERE ledger_id = $1", [.int(ledgerID)])
        }
    }
}
