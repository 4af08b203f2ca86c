import Ledger
import Service

/// `rightful rebuild`.
struct RebuildCommand: Command {
    static let usage = CommandUsage(
        "rebuild", "Fold the views again from the log, beside the live ones, and swap them.",
        details: """
            Services go on serving and recording meanwhile. What is stored is compared with what was folded before the new
            views take the place of the old ones, in one step. What was recorded meanwhile is for the running service. A
            rebuild that was stopped goes on where it was. On a terminal it shows how far it is.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let report = try await DatabaseSession.with(
            arguments, context, connections: Self.connections, needsLedger: true
        ) { session in
            let meter = ProgressMeter(context)
            defer { meter.end() }
            async let counted: Void = count(SeenProjector(pool: session.pool))
            async let stored: Void = store(TreeProjector(pool: session.pool))
            async let told: Void = tellApart(DriftProjector(pool: session.pool))
            async let charted: Void = count(ChartProjector(pool: session.pool))
            let report = try await Rebuilder(pool: session.pool).run { meter.show($0) }
            try await counted
            try await stored
            try await told
            try await charted
            return report
        }
        let seconds = report.duration / .seconds(1)
        try context.output.write(
            """
            rebuilt the views of \(report.originals) original transactions from \(report.events) events, proven and live \
            since position \(report.position); \(seconds.rounded(to: 1)) s\(report.isResumed ? ", resumed" : "")

            """)
    }

    /// For each step that is folded, for the one that is written, for what the log speaks of, for the tree over it, for the
    /// differences, and for the charts.
    private static let connections = 7

    /// Tells the differences apart anew.
    private func tellApart(_ drift: DriftProjector) async throws {
        try await drift.reset()
        try await drift.catchUp(isHurried: true, patience: .seconds(60))
    }

    /// Stores the tree over the log anew.
    private func store(_ tree: TreeProjector) async throws {
        try await tree.reset()
        try await tree.catchUp()
    }

    /// Counts anew for the charts.
    private func count(_ charts: ChartProjector) async throws {
        try await charts.reset()
        try await charts.catchUp(isHurried: true, patience: .seconds(60))
    }

    /// Counts anew what the log speaks of.
    private func count(_ seen: SeenProjector) async throws {
        try await seen.reset()
        try await seen.catchUp()
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
