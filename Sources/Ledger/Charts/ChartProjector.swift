import EntitlementCore
package import PostgresClient

/// Keeps, behind the log, what each stretch of it contributes to the charts.
///
/// A page is one transaction under the lock of the projection's row, so any number of processes may do this at once. It ends
/// at the latest with a stretch; what a complete stretch contributes is never written again.
package struct ChartProjector: Sendable {
    /// Another fold, or charts that count otherwise, begin anew.
    static let row = ProjectionRow(name: "charts", version: Int64(OriginalState.foldVersion) * 100 + 3)

    private let pool: PostgresPool
    private let layout: ChartLayout

    package init(pool: PostgresPool, layout: ChartLayout = .standard) {
        self.pool = pool
        self.layout = layout
    }

    /// Goes on from the checkpoint to the head of the log.
    ///
    /// Between pages it rests for as long as they take, so that those who ask are served first.
    ///
    /// - Parameters:
    ///   - isHurried: it does not rest, because somebody waits for the end.
    ///   - stretches: so many are counted at a time, each on a connection of its own.
    ///   - patience: how long it waits for another process that is at it; after that it returns.
    package func catchUp(isHurried: Bool = false, stretches: Int = 1, patience: Duration = .zero) async throws {
        let start = ContinuousClock.now
        var ready: [Stretch: Counted] = [:]
        while true {
            try Task.checkCancellation()
            let pageStart = ContinuousClock.now
            if ready.isEmpty, stretches > 1 { ready = try await countAhead(stretches) }
            switch try await pool.run(doing: Self.work, { [ready] in try page(ready, on: $0) }) {
            case .done: return
            case .wentThrough(let stretch):
                // Where another process has gone on, nothing of what was counted comes next.
                if ready.removeValue(forKey: stretch) == nil { ready = [:] }
                if !isHurried { try await Task.sleep(for: pageStart.duration(to: .now)) }
            case .elsewhere:
                guard start.duration(to: .now) < patience else { return }
                try await Task.sleep(for: Self.pollInterval)
            }
        }
    }

    private static let work = "counting for the charts"

    /// Between looks at whether another process has ended its page.
    private static let pollInterval = Duration.milliseconds(10)

    /// The events after a position, up to another one.
    struct Stretch: Hashable, Sendable {
        let start: Int64
        let end: Int64
    }

    /// What the events of a stretch contribute, and the last of them: a log that loses its end may get others in their places.
    struct Counted: Sendable {
        let contributions: ChartContributions
        let end: EventMark
    }

    enum Progress: Sendable {
        /// The log's end was reached.
        case done
        /// A page was written, and more is left.
        case wentThrough(Stretch)
        /// Another process is at it.
        case elsewhere
    }

    /// Forgets what is kept; the next `catchUp` begins at the first event.
    package func reset() async throws {
        try await pool.run(doing: Self.work) { connection in
            try connection.transaction { connection in
                _ = try Self.row.lock(on: connection, waits: true, clear: ChartTable.clear)
                try ChartTable.clear(connection)
                try Self.row.note(0, on: connection)
            }
        }
    }

    /// Counts the next complete stretches, all at the same time.
    ///
    /// What a stretch changes depends only on its events and those before them, which never change, not on what is
    /// counted already.
    func countAhead(_ count: Int) async throws -> [Stretch: Counted] {
        let (checkpoint, head) = try await pool.run(doing: Self.work) { connection in
            (try Self.row.checkpoint(on: connection), try Statements.headPosition(on: connection))
        }
        return try await withThrowingTaskGroup(of: (Stretch, Counted?).self) { group in
            var start = checkpoint
            for _ in 0..<count {
                let stretch = Stretch(start: start, end: layout.end(of: layout.part(after: start)))
                guard stretch.end <= head else { break }
                group.addTask {
                    let counted: Counted? = try await pool.run(doing: Self.work) { connection in
                        try connection.transaction(.repeatableReadReadOnly) { connection in
                            guard let end = try EventMark.at(stretch.end, on: connection) else { return nil }
                            try connection.walkByIndex()
                            let contributions = try ChartDifference.contributions(
                                from: stretch.start, to: stretch.end, on: connection)
                            return Counted(contributions: contributions, end: end)
                        }
                    }
                    return (stretch, counted)
                }
                start = stretch.end
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
    }

    func page(
        _ ready: [Stretch: Counted], on connection: isolated PostgresConnection
    ) throws -> Progress {
        // A look first: an idle service writes nothing.
        if try Self.row.isCurrent(on: connection) { return .done }
        return try connection.transaction { connection in
            guard let checkpoint = try Self.row.lock(on: connection, clear: ChartTable.clear) else {
                return .elsewhere
            }
            let head = try Statements.headPosition(on: connection)
            guard head > checkpoint else { return .done }
            try connection.walkByIndex()
            let part = layout.part(after: checkpoint)
            let end = min(head, layout.end(of: part))
            let stretch = Stretch(start: checkpoint, end: end)
            let counted = try ready[stretch].flatMap { try $0.end.isHeld(on: connection) ? $0.contributions : nil }
            let difference = try counted ?? ChartDifference.contributions(from: checkpoint, to: end, on: connection)
            var contributions = try ChartTable.contributions(of: part, on: connection)
            for (environment, cells) in difference { contributions[environment, default: ChartCells()].add(cells) }
            try ChartTable.write(contributions, of: part, on: connection)
            for whole in layout.completed(at: end) {
                let sum = try ChartTable.sum(of: layout.parts(of: whole), on: connection)
                try ChartTable.write(sum, of: whole, on: connection)
            }
            try Self.row.note(end, on: connection)
            // Events that came meanwhile are left to the next call: a page reads and writes its whole stretch even for
            // one event.
            return end == head ? .done : .wentThrough(stretch)
        }
    }
}
