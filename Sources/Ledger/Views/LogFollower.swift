import EntitlementCore
import PostgresClient

/// Takes one projection through the log, page by page.
///
/// A page is one transaction under the lock of the projection's row, which notes with it how far that came. So any number of
/// processes may do this at once, and one that is killed is followed by another.
struct LogFollower: Sendable {
    /// What becomes of what another version of the program derived, or was derived from more of a log than there is.
    enum FormerVersion: Sendable {
        /// It is deleted, and this one begins anew.
        case cleared(by: @Sendable (isolated PostgresConnection) throws -> Void)
        /// It stands, and this one goes on from there.
        case continued
        /// It is for others to replace; until then nothing is done.
        case leftAlone
    }

    /// The events after a position, up to another one.
    struct Stretch: Sendable, Hashable {
        let start: Int64
        let end: Int64
    }

    /// What came of a page.
    enum Progress: Sendable, Hashable {
        /// Nothing was left to do.
        case done
        /// It ended where the log did when it began.
        case reachedHead(Stretch)
        /// More is left.
        case wentThrough(Stretch)
        /// Another process is at it.
        case elsewhere

        var isAtHead: Bool {
            switch self {
            case .done, .reachedHead: true
            case .wentThrough, .elsewhere: false
            }
        }
    }

    /// When it rests for as long as a page took, so that those who ask are served first.
    enum Rest: Sendable {
        case never
        case betweenPages
        case afterEachPage
    }

    /// Derives from a stretch what there is to derive, or from a part of it.
    ///
    /// - Parameter head: where the log ends.
    /// - Returns: up to where everything is derived.
    typealias Derivation =
        @Sendable (_ connection: isolated PostgresConnection, _ stretch: Stretch, _ head: Int64) throws -> Int64

    private let row: ProjectionRow
    private let pool: PostgresPool
    private let work: String
    private let pageEvents: Int64
    private let former: FormerVersion
    private let skipped: SkippedRows

    /// - Parameters:
    ///   - work: what is done, for people, such as "counting what the log speaks of".
    ///   - pageEvents: through how many positions a page goes at the most.
    init(
        _ row: ProjectionRow, _ pool: PostgresPool, doing work: String, pageEvents: Int64, former: FormerVersion,
        skipped: SkippedRows = SkippedRows()
    ) {
        self.row = row
        self.pool = pool
        self.work = work
        self.pageEvents = pageEvents
        self.former = former
        self.skipped = skipped
    }

    // MARK: - Going on

    /// Goes on to the head of the log, or through as many events.
    ///
    /// - Parameters:
    ///   - events: through how many it goes at the most; it ends with a page.
    ///   - patience: how long it waits for another process that is at it; after that it returns.
    ///   - progress: told of each page: up to where it came.
    /// - Returns: what came of the last page.
    @discardableResult
    func catchUp(
        events: Int64 = .max, rest: Rest = .never, patience: Duration = .zero,
        progress: (Int64) -> Void = { _ in }, _ derive: Derivation
    ) async throws -> Progress {
        try await goOn(events: events, rest: rest, patience: patience) {
            let page = try await page(derive)
            switch page {
            case .reachedHead(let stretch), .wentThrough(let stretch): progress(stretch.end)
            case .done, .elsewhere: break
            }
            return page
        }
    }

    /// Takes page after page, until nothing is left or another process has been at it for too long.
    func goOn(
        events: Int64 = .max, rest: Rest, patience: Duration, _ page: () async throws -> Progress
    ) async throws -> Progress {
        let start = ContinuousClock.now
        var left = events
        while true {
            try Task.checkCancellation()
            let pageStart = ContinuousClock.now
            let progress = try await page()
            switch progress {
            case .done: return progress
            case .reachedHead:
                // What came meanwhile is for the next time: under a steady load there would be no end to it.
                if rest == .afterEachPage { try await Task.sleep(for: pageStart.duration(to: .now)) }
                return progress
            case .wentThrough:
                left -= pageEvents
                if rest != .never { try await Task.sleep(for: pageStart.duration(to: .now)) }
                guard left > 0 else { return progress }
            case .elsewhere:
                guard start.duration(to: .now) < patience else { return progress }
                try await Task.sleep(for: Self.pollInterval)
            }
        }
    }

    /// Between looks at whether another process has ended its page.
    static let pollInterval = Duration.milliseconds(10)

    /// Takes one page.
    func page(_ derive: Derivation) async throws -> Progress {
        try await run { connection in
            // A look first: an idle service writes nothing.
            if try row.isCurrent(on: connection) { return .done }
            let progress: Progress = try connection.transaction { connection in
                guard let standing = try lock(on: connection) else { return .elsewhere }
                let (checkpoint, head) = (standing.checkpoint, standing.head)
                guard head > checkpoint else { return .done }
                let stretch = Stretch(start: checkpoint, end: min(checkpoint + pageEvents, head))
                let end = try derive(connection, stretch, head)
                try row.note(end, on: connection)
                let passed = Stretch(start: checkpoint, end: end)
                return end == head ? .reachedHead(passed) : .wentThrough(passed)
            }
            try row.note(isElsewhere: progress == .elsewhere, in: skipped, on: connection)
            return progress
        }
    }

    // MARK: - Beginning anew

    /// Forgets what is kept; the next page begins at the first event.
    func reset() async throws { try await reset { try clear(on: $0) } }

    /// Begins at the first event again with the next page.
    ///
    /// - Parameter clear: deletes of what is kept that over which nothing else will be written.
    func reset(clear: @Sendable (isolated PostgresConnection) throws -> Void) async throws {
        try await run { connection in
            try connection.transaction { connection in
                _ = try lock(on: connection, waits: true)
                try clear(connection)
                try row.note(0, on: connection)
            }
        }
    }

    /// Begins anew where what is kept cannot be what was derived, such as after somebody deleted it.
    ///
    /// - Parameter isLost: whether that is so, of what was derived up to a position.
    func restore(
        where isLost: @Sendable (_ connection: isolated PostgresConnection, _ checkpoint: Int64) throws -> Bool
    ) async throws {
        try await run { connection in
            try connection.transaction { connection in
                guard let standing = try lock(on: connection, waits: true),
                    try isLost(connection, standing.checkpoint)
                else { return }
                try clear(on: connection)
                try row.note(0, on: connection)
            }
        }
    }

    /// Begins anew where a table is empty, though what was derived is about purchases.
    func restore(whereEmpty table: String) async throws {
        try await restore { connection, checkpoint in
            try connection.query(
                """
                SELECT NOT EXISTS (SELECT FROM \(table) WHERE ledger_id = $1) AND EXISTS (
                    SELECT FROM event WHERE ledger_id = $1 AND environment = ANY ($3)
                        AND original_transaction_id > '' AND position <= $2)
                """,
                [.int(ledgerID), .int(checkpoint), .int2Array(StoreEnvironment.allCases.map(\.number))]
            ).row(0).bool(0)
        }
    }

    private func clear(on connection: isolated PostgresConnection) throws {
        if case .cleared(let clear) = former { try clear(connection) }
    }

    /// Locks the row; returns `nil` where another process is at it.
    private func lock(
        on connection: isolated PostgresConnection, waits: Bool = false
    ) throws -> ProjectionRow.Standing? {
        switch former {
        case .cleared(let clear): try row.lock(on: connection, waits: waits, clear: clear)
        case .continued: try row.lock(on: connection, waits: waits, clear: nil)
        case .leftAlone: try row.lockOwn(on: connection)
        }
    }

    func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: work, body)
    }
}
