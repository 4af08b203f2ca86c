import EntitlementCore
package import PostgresClient

/// Keeps, behind the log, what each stretch of it contributes to the charts.
///
/// A page ends at the latest with a stretch; what a complete stretch contributes is never written again.
package struct ChartProjector: Sendable {
    /// Another fold, or charts that count otherwise, begin anew.
    static let row = ProjectionRow(name: "charts", version: Int64(OriginalState.foldVersion) * 100 + 5)

    typealias Stretch = LogFollower.Stretch

    private let follower: LogFollower
    private let layout: ChartLayout

    package init(pool: PostgresPool, layout: ChartLayout = .standard) {
        follower = LogFollower(
            Self.row, pool, doing: "counting for the charts", pageEvents: layout.positions,
            former: .cleared(by: ChartTable.clear))
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
        var ready: [Stretch: Counted] = [:]
        _ = try await follower.goOn(rest: isHurried ? .never : .betweenPages, patience: patience) {
            if ready.isEmpty, stretches > 1 { ready = try await countAhead(stretches) }
            let progress = try await page(ready)
            // Where another process has gone on, nothing of what was counted comes next.
            if case .wentThrough(let stretch) = progress, ready.removeValue(forKey: stretch) == nil { ready = [:] }
            return progress
        }
    }

    /// What the events of a stretch contribute, and the last of them: a log that loses its end may get others in their places.
    struct Counted: Sendable {
        let contributions: ChartContributions
        let end: EventMark
    }

    /// Begins anew where nothing is kept of a log that speaks of purchases, such as after somebody deleted it.
    package func restore() async throws { try await follower.restore(whereEmpty: "chart_part") }

    /// Forgets what is kept; the next `catchUp` begins at the first event.
    package func reset() async throws { try await follower.reset() }

    /// Counts the next complete stretches, all at the same time.
    ///
    /// What a stretch changes depends only on its events and those before them, which never change, not on what is
    /// counted already.
    func countAhead(_ count: Int) async throws -> [Stretch: Counted] {
        let (checkpoint, head) = try await follower.run { connection in
            (try Self.row.checkpoint(on: connection), try Statements.headPosition(on: connection))
        }
        return try await withThrowingTaskGroup(of: (Stretch, Counted?).self) { group in
            var start = checkpoint
            for _ in 0..<count {
                let stretch = Stretch(start: start, end: layout.end(of: layout.part(after: start)))
                guard stretch.end <= head else { break }
                group.addTask {
                    let counted: Counted? = try await follower.run { connection in
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

    func page(_ ready: [Stretch: Counted]) async throws -> LogFollower.Progress {
        try await follower.page { [layout] connection, stretch, _ in
            try connection.walkByIndex()
            let part = layout.part(after: stretch.start)
            // Events that came meanwhile are left to the next call: a page reads and writes its whole stretch even for
            // one event.
            let page = Stretch(start: stretch.start, end: min(stretch.end, layout.end(of: part)))
            let counted = try ready[page].flatMap { try $0.end.isHeld(on: connection) ? $0.contributions : nil }
            let difference =
                try counted ?? ChartDifference.contributions(from: page.start, to: page.end, on: connection)
            var contributions = try ChartTable.contributions(of: part, on: connection)
            for (environment, cells) in difference { contributions[environment, default: ChartCells()].add(cells) }
            try ChartTable.write(contributions, of: part, on: connection)
            for whole in layout.completed(at: page.end) {
                let sum = try ChartTable.sum(of: layout.parts(of: whole), on: connection)
                try ChartTable.write(sum, of: whole, on: connection)
            }
            return page.end
        }
    }
}
