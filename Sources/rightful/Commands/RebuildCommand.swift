import EntitlementCore
import Ledger
import Service

/// `rightful rebuild`.
struct RebuildCommand: Command {
    static let usage = CommandUsage(
        "rebuild", "Fold the views again from the log, beside the live ones, and swap them.",
        options: [
            CommandUsage.Option("--only", "VIEW,…", "these alone: \(View.names); default: all of them")
        ],
        details: """
            Services go on serving and recording meanwhile. What is stored of original transactions is compared with what was
            folded before the new views take the place of the old ones, in one step. What was recorded meanwhile is for the
            running service. A rebuild that was stopped goes on where it was. On a terminal it shows how far it is.
            """)

    /// What is rebuilt, as table `projection` and `GET /v1/ledger` name it.
    private enum View: String, CaseIterable {
        case originals, seen, tree, drift, watch, charts

        static let names = allCases.map(\.rawValue).joined(separator: ", ")
    }

    private let arguments: ParsedArguments
    private let views: Set<View>

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        guard let list = arguments.value("--only") else {
            views = Set(View.allCases)
            return
        }
        var views: Set<View> = []
        for name in list.split(separator: ",") {
            guard let view = View(rawValue: String(name)) else {
                throw arguments.error("--only takes some of \(View.names), and \(name) is none of them")
            }
            views.insert(view)
        }
        guard !views.isEmpty else { throw arguments.error("--only takes some of \(View.names)") }
        self.views = views
    }

    func run(_ context: CommandContext) async throws {
        let report = try await DatabaseSession.with(
            arguments, context, connections: Self.connections
        ) { session in
            let meter = ProgressMeter(context)
            defer { meter.end() }
            let pool = session.pool
            return try await withThrowingTaskGroup(of: RebuildReport?.self) { group in
                for view in views {
                    group.addTask {
                        switch view {
                        case .originals: return try await Rebuilder(pool: pool).run { meter.show($0) }
                        case .seen: try await count(SeenProjector(pool: pool))
                        case .tree: try await store(TreeProjector(pool: pool))
                        case .drift: try await tellApart(DriftProjector(pool: pool))
                        case .watch: try await look(WatchProjector(pool: pool), now: session.clock.now())
                        case .charts: try await count(ChartProjector(pool: pool))
                        }
                        return nil
                    }
                }
                var report: RebuildReport?
                for try await one in group { report = one ?? report }
                return report
            }
        }
        guard let report else { return try context.output.write("rebuilt from the log\n") }
        let seconds = report.duration / .seconds(1)
        try context.output.write(
            """
            rebuilt the views of \(report.originals) original transactions from \(report.events) events, proven and live \
            since position \(report.position); \(seconds.rounded(to: 1)) s\(report.isResumed ? ", resumed" : "")

            """)
    }

    /// For each step that is folded, for the one that is written, for what the log speaks of, for the tree over it, for the
    /// differences, for what the store has to say next, and for the charts.
    private static let connections = 7 + chartStretches

    /// Counting for the charts takes the longest of all, and nearly all of it in this process.
    private static let chartStretches = 4

    /// Tells the differences apart anew.
    private func tellApart(_ drift: DriftProjector) async throws {
        try await drift.reset()
        try await drift.catchUp(isHurried: true, patience: .seconds(60))
    }

    /// Looks anew what the store has to say next.
    private func look(_ watch: WatchProjector, now: Timestamp) async throws {
        try await watch.reset()
        try await watch.catchUp(now: now, isHurried: true, patience: .seconds(60))
    }

    /// Stores the tree over the log anew.
    private func store(_ tree: TreeProjector) async throws {
        try await tree.reset()
        try await tree.catchUp()
    }

    /// Counts anew for the charts.
    private func count(_ charts: ChartProjector) async throws {
        try await charts.reset()
        try await charts.catchUp(isHurried: true, stretches: Self.chartStretches, patience: .seconds(60))
    }

    /// Counts anew what the log speaks of.
    private func count(_ seen: SeenProjector) async throws {
        try await seen.reset()
        try await seen.catchUp(patience: .seconds(60))
    }
}

/// One line on a terminal that says how far a rebuild is and how fast it goes.
private struct ProgressMeter: Sendable {
    private let context: CommandContext
    private let throttle = Throttle(.milliseconds(200))
    private let rate = RateMeter()

    init(_ context: CommandContext) { self.context = context }

    func show(_ progress: RebuildProgress) {
        rate.add(progress.passed)
        guard context.isTerminal, throttle.passes() else { return }
        let share = progress.total > 0 ? " of about \(progress.total)" : ""
        context.draw(
            "\(progress.phase.label): \(progress.events)\(share) events, \(progress.originals) originals, "
                + "\(Int(rate.perSecond)) events/s")
    }

    func end() { if context.isTerminal { context.draw("") } }
}

extension RebuildPhase {
    /// For people.
    fileprivate var label: String {
        switch self {
        case .emptying: "emptying"
        case .folding: "folding"
        case .proving: "proving"
        case .clearing: "deleting the old views"
        case .done: "done"
        }
    }
}
