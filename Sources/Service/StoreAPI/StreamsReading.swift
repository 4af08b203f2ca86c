package import EntitlementAPI
package import EntitlementCore
package import Ledger

/// The streams of the configured apps, and how they stand.
package struct StreamsReading: Sendable {
    /// A stream, and whether the store can be asked about it.
    package typealias Configured = (stream: StoreStream, isAsked: Bool)

    /// Farther behind the log than this nobody can tell what is overdue.
    private static let mostLag: Int64 = 10_000

    private let configured: [Configured]
    private let register: StreamRegister

    package init(_ configured: [Configured], register: StreamRegister) {
        self.configured = configured
        self.register = register
    }

    /// Those of which somebody may hear, in the order of apps and environments.
    package func document(only scope: LogScope, at now: Timestamp) async throws -> StreamsDocument {
        let shown = configured.filter { item in
            scope.holds(item.stream.environment)
                && scope.app.map { $0.bundleID.utf8.elementsEqual(item.stream.app.utf8) } ?? true
        }.sorted {
            ($0.stream.app, $0.stream.environment.rawValue) < ($1.stream.app, $1.stream.environment.rawValue)
        }
        let isCurrent = try await register.lag() <= Self.mostLag
        let standings = try await register.standings(of: shown.map(\.stream), at: now)
        let sweeps = Dictionary(
            try await register.sweeps().map { (StoreStream(app: $0.app, environment: $0.environment), $0) }
        ) { first, _ in first }
        return StreamsDocument(
            zip(shown, standings).map { item, standing in
                StreamsDocument.Item(
                    app: item.stream.app, environment: item.stream.environment, lastHeardAt: standing.lastHeardAt,
                    silent: isCurrent && standing.isSilent(at: now), overdue: standing.overdue,
                    oldestOverdueAt: standing.overdueEvents?.lowerBound,
                    sweep: Self.sweep(sweeps[item.stream], isAsked: item.isAsked))
            })
    }

    private static func sweep(_ standing: SweepStanding?, isAsked: Bool) -> StreamsDocument.Sweep {
        guard let standing else { return StreamsDocument.Sweep(isAsked ? .idle : .unconfigured) }
        let state: StreamsDocument.Sweep.State =
            if !isAsked {
                .unconfigured
            } else if standing.isHeld {
                .running
            } else if standing.lastError != nil {
                .failed
            } else {
                // What a process left unfinished is taken up by the next.
                standing.window == nil ? .idle : .running
            }
        return StreamsDocument.Sweep(
            state, from: standing.from, completedUntil: standing.completedUntil, completedAt: standing.completedAt,
            // What could not be read and was gone past is told until it is read.
            lastError: standing.lastError ?? (standing.hasGap ? standing.refusedReason : nil))
    }
}
