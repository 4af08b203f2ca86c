package import AppStoreServer
package import EntitlementCore
package import Ledger
import Synchronization

/// Notices when the store falls silent: says so in the log and in the metrics, and asks it for a test notification.
///
/// Any number of processes may do this at once; of a test notification one of them asks.
package final class StreamWatch: Sendable {
    /// A stream, and what may ask the store about it; `nil` without credentials.
    package typealias Watched = (stream: StoreStream, client: StoreAPIClient?)

    /// When it works.
    package struct Intervals: Sendable {
        /// Between looks.
        package var look = Duration.seconds(5)
        /// Between lines of the log while a stream is silent.
        package var report = Duration.seconds(3600)
        /// Between test notifications of a stream that says nothing, in milliseconds.
        package var canary: Int64 = 24 * 3_600_000
        /// The same where it is silent though it should not be.
        package var urgentCanary: Int64 = 6 * 3_600_000
        /// For how long this process must have seen a stream silent before it asks for a test notification: after an outage
        /// of its own the store needs some time to try again.
        package var canaryPatience = Duration.seconds(600)

        package init() {}
    }

    private let watched: [Watched]
    private let projector: WatchProjector
    private let register: StreamRegister
    private let ears: StreamEars
    private let metrics: Metrics
    private let logger: Logger
    private let watch: WorkWatch?
    private let intervals: Intervals
    private let now: @Sendable () -> Timestamp
    /// The streams that were silent at the last look: since when, and when the log said so last.
    private let silent = Mutex<[StoreStream: (since: ContinuousClock.Instant, reported: ContinuousClock.Instant)]>([:])

    /// - Parameters:
    ///   - watched: each configured app and environment.
    ///   - watch: says when looking fails.
    package init(
        _ watched: [Watched], projector: WatchProjector, register: StreamRegister, ears: StreamEars, metrics: Metrics,
        logger: Logger, watch: WorkWatch?, intervals: Intervals = Intervals(),
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.watched = watched
        self.projector = projector
        self.register = register
        self.ears = ears
        self.metrics = metrics
        self.logger = logger
        self.watch = watch
        self.intervals = intervals
        self.now = now
    }

    /// Works until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            let start = ContinuousClock.now
            if let watch { await watch.watch(.streams) { try await self.look() } } else { try? await look() }
            // Where a million are overdue, to count them takes a while.
            try? await Task.sleep(for: max(intervals.look, start.duration(to: .now) * 20))
        }
    }

    /// Brings what is expected to the head of the log, looks at every stream, and says what has changed.
    package func look() async throws {
        let heard = ears.takeAll()
        do {
            try await register.noteHeard(heard)
        } catch {
            ears.giveBack(heard)
            throw error
        }
        try await projector.catchUp()
        let now = now()
        let standings = try await register.standings(of: watched.map(\.stream), at: now)
        metrics.note(standings, sweeps: try await register.sweeps(), at: now)
        for (standing, client) in zip(standings, watched.map(\.client)) {
            report(standing, at: now)
            if let client { try await sendCanary(standing, client, at: now) }
        }
    }

    private func report(_ standing: StreamStanding, at now: Timestamp) {
        let stream = standing.stream
        let isSilent = standing.isSilent(at: now)
        let (wasSilent, isDue) = silent.withLock { silent in
            let last = silent[stream]
            let isDue = isSilent && (last.map { $0.reported.duration(to: .now) >= intervals.report } ?? true)
            if isDue { silent[stream] = (last?.since ?? .now, .now) }
            if !isSilent { silent[stream] = nil }
            return (last != nil, isDue)
        }
        // Testers come and go, and the sandbox tries once: nobody is to be woken for it.
        let level: LogLevel = stream.environment == .production ? .warning : .info
        var values: [(String, LogValue)] = [
            ("app", .string(stream.app)), ("environment", .string(stream.environment.rawValue)),
            ("last_heard_at", .string(standing.lastHeardAt?.description ?? "never")),
            ("overdue", .integer(standing.overdue)),
        ]
        if let first = standing.overdueEvents?.lowerBound {
            values.append(("oldest_overdue_at", .string(first.description)))
        }
        if isDue {
            logger.log(
                level,
                "the store's notifications do not arrive: check the URL in App Store Connect, and whether the "
                    + "store can reach it; `rightful test-notification` shows it", values)
        } else if wasSilent, !isSilent {
            logger.log(level, "the store's notifications arrive again", values)
        }
    }

    /// Asks the store for a test notification where nothing was heard for long.
    private func sendCanary(_ standing: StreamStanding, _ client: StoreAPIClient, at now: Timestamp) async throws {
        let stream = standing.stream
        let silentFor = silent.withLock { $0[stream]?.since.duration(to: .now) }
        if let silentFor {
            guard silentFor >= intervals.canaryPatience else { return }
        } else {
            guard let quietSince = standing.lastHeardAt ?? standing.watchedSince,
                quietSince.adding(milliseconds: intervals.canary) <= now
            else { return }
        }
        let pause = silentFor == nil ? intervals.canary : intervals.urgentCanary
        guard try await register.beginCanary(stream, now: now, pause: pause) else { return }
        do {
            _ = try await client.send(.testNotification, in: stream.environment, within: .seconds(30))
        } catch {
            // That says nothing of the stream. Where App Store Connect has no URL, `status` tells.
            try await register.failCanary(stream, error.description)
        }
    }
}
