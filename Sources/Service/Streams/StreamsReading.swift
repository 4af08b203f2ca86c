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
    private var web: (environments: [StoreEnvironment], register: WebSweepRegister)?

    package init(_ configured: [Configured], register: StreamRegister) {
        self.configured = configured
        self.register = register
    }

    /// The same with Stripe's streams.
    ///
    /// - Parameter environments: those that are configured.
    package func with(
        web environments: Set<StoreEnvironment>, register: WebSweepRegister
    ) -> StreamsReading {
        var streams = self
        streams.web = (environments.sorted { $0.rawValue < $1.rawValue }, register)
        return streams
    }

    /// Notes that a webhook of Stripe's came whose event was known.
    func hearWeb(_ environment: StoreEnvironment, at now: Timestamp) async {
        // Only how the stream is shown depends on it.
        try? await web?.register.hear(environment, at: now)
    }

    /// Stripe's streams, which are of no app: a key of one is not told of them.
    private func webItems(only scope: LogScope, at now: Timestamp) async throws -> [StreamsDocument.Item] {
        guard let web, scope.app == nil else { return [] }
        let standings = try await web.register.standings()
        let imports = standings.contains { $0.gap != nil } ? try await web.register.imports() : []
        return web.environments.filter { scope.holds($0) }.map { environment in
            let standing = standings.first { $0.environment == environment }
            let reading = imports.first { $0.environment == environment && $0.completedAt == nil }
            let gap = standing?.gap.map {
                StreamsDocument.Sweep.Gap(
                    from: $0.from, until: $0.until, read: reading?.standing.read ?? 0, lastError: reading?.lastError)
            }
            let lastError = standing?.lastError ?? gap?.lastError
            let state: StreamsDocument.Sweep.State
            if standing?.isHeld == true {
                state = .running
            } else if lastError != nil {
                // Also while everything is being read: whoever reads it waits for hours for a Stripe that does not answer.
                state = .failed
            } else {
                state = gap != nil && reading?.isHeld == true ? .running : .idle
            }
            return StreamsDocument.Item(
                app: nil, environment: environment, source: "stripe", lastHeardAt: standing?.lastHeardAt,
                silent: standing?.isSilent(at: now) ?? false, overdue: 0, oldestOverdueAt: nil,
                sweep: StreamsDocument.Sweep(
                    state, from: standing?.from, completedUntil: standing?.completedUntil,
                    completedAt: standing?.completedAt, lastError: lastError, gap: gap))
        }
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
        let ofStripe = try await webItems(only: scope, at: now)
        return StreamsDocument(
            zip(shown, standings).map { item, standing in
                StreamsDocument.Item(
                    app: item.stream.app, environment: item.stream.environment, lastHeardAt: standing.lastHeardAt,
                    silent: isCurrent && standing.isSilent(at: now), overdue: standing.overdue,
                    oldestOverdueAt: standing.overdueEvents?.lowerBound,
                    sweep: Self.sweep(sweeps[item.stream], isAsked: item.isAsked))
            } + ofStripe)
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
