package import Ledger

/// Keeps the views in order behind a running service: rebuilds them where they do not count, writes snapshots of what has
/// grown, counts what the log speaks of and for the charts, and stores the tree over it.
///
/// Nobody waits for it: what the views do not hold yet is folded from the log.
package struct BackgroundProjections: Sendable {
    /// How often it works.
    package struct Intervals: Sendable {
        /// Between attempts while another rebuild works or the database is away.
        package var retry = Duration.seconds(5)
        /// Between looks at what was appended.
        package var follow = Duration.seconds(1)
        /// Between looks for rows of the tree over the log that are missing.
        package var restore = Duration.seconds(900)
        /// Between lines of the log that say how far a rebuild has come.
        package var report = Duration.seconds(10)

        package init() {}
    }

    private let rebuilder: Rebuilder
    private let views: ViewProjector
    private let seen: SeenProjector
    private let tree: TreeProjector
    private let charts: ChartProjector
    private let watch: WorkWatch
    private let logger: Logger
    private let intervals: Intervals

    package init(
        rebuilder: Rebuilder, views: ViewProjector, seen: SeenProjector, tree: TreeProjector, charts: ChartProjector,
        watch: WorkWatch, logger: Logger, intervals: Intervals = Intervals()
    ) {
        self.rebuilder = rebuilder
        self.views = views
        self.seen = seen
        self.tree = tree
        self.charts = charts
        self.watch = watch
        self.logger = logger
        self.intervals = intervals
    }

    /// Works until the current task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await restoreViews() }
            group.addTask { await follow(.views) { _ = try await views.catchUp() } }
            group.addTask {
                await follow(.remarks, until: true) { try await seen.restore() }
                await follow(.remarks) { _ = try await seen.catchUp() }
            }
            group.addTask {
                await follow(.charts, until: true) { try await charts.restore() }
                await follow(.charts) { try await charts.catchUp() }
            }
            group.addTask {
                // Rows that somebody deletes are missed by nobody but those who wait for a proof.
                while !Task.isCancelled {
                    await follow(.tree, until: true) { try await tree.restore() }
                    await follow(.tree, for: intervals.restore) { try await tree.catchUp() }
                }
            }
        }
    }

    /// Rebuilds the views if there is a reason to; returns once they count.
    package func restoreViews() async {
        while !Task.isCancelled {
            do {
                try await rebuilder.clearLeftovers()
                guard let reason = try await rebuilder.reasonToRebuild() else { return }
                logger.log(
                    .warning, "rebuilding the views; until then answers are folded from the log",
                    [("reason", .string(reason.description))])
                try await rebuild()
                return
            } catch is CancellationError {
                return
            } catch is RebuildUnderWay {
                logger.log(.info, "another rebuild is under way; looking again when it may be done")
            } catch let error as LedgerError where error.code == .unavailable {
                logger.log(.warning, "the views cannot be looked after now", [("error", .string(error.description))])
            } catch {
                logger.log(
                    .error, "the views could not be rebuilt; answers are folded from the log",
                    [("error", .string("\(error)"))])
                return
            }
            try? await Task.sleep(for: intervals.retry)
        }
    }

    private func rebuild() async throws {
        let throttle = Throttle(intervals.report)
        let report = try await rebuilder.run { [logger] progress in
            guard throttle.passes() else { return }
            logger.log(
                .info, "rebuilding the views",
                [
                    ("phase", .string(progress.phase.rawValue)), ("events", .integer(progress.events)),
                    ("originals", .integer(progress.originals)), ("total", .integer(progress.total)),
                ])
        }
        logger.log(
            .info, "the views are rebuilt",
            [
                ("position", .integer(report.position)), ("events", .integer(report.events)),
                ("originals", .integer(report.originals)), ("resumed", .boolean(report.isResumed)),
                ("seconds", .number(report.duration / .seconds(1))),
            ])
    }

    /// Goes on with a projection again and again, or until it has succeeded.
    private func follow(
        _ work: WorkWatch.Work, until isDone: Bool = false, for time: Duration? = nil,
        _ catchUp: @Sendable () async throws -> Void
    ) async {
        let end = time.map { ContinuousClock.now + $0 }
        while !Task.isCancelled, end.map({ .now < $0 }) ?? true {
            let hasSucceeded = await watch.watch(work, catchUp) != nil
            if isDone, hasSucceeded { return }
            try? await Task.sleep(for: intervals.follow)
        }
    }
}
