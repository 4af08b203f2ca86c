package import AppStoreServer
package import EntitlementCore
package import Ledger
import Synchronization

/// Notices when the store falls silent, or leaves out some of what it should have said: says so in the log and in the
/// metrics, and asks it for a test notification.
///
/// Any number of processes may do this at once; of a test notification one of them asks.
package final class StreamWatch: Sendable {
    /// A stream, and what may ask the store about it; `nil` without credentials.
    package typealias Watched = (stream: StoreStream, client: StoreAPIClient?)

    /// When it works.
    package struct Intervals: Sendable {
        /// Between looks.
        package var look = Duration.seconds(5)
        /// The longest rest between looks, however long they take.
        package var longestRest = Duration.seconds(60)
        /// Between lines of the log while a stream is silent.
        package var report = Duration.seconds(3600)
        /// Between test notifications of a stream that says nothing, in milliseconds.
        package var canary: Int64 = 24 * 3_600_000
        /// The same where it is silent though it should not be.
        package var urgentCanary: Int64 = 6 * 3_600_000
        /// For how long this process must have seen a stream silent, or something overdue, before it says so and asks for a
        /// test notification: after an outage of its own the history is read first.
        package var patience = Duration.seconds(600)

        package init() {}
    }

    private let watched: [Watched]
    private let projector: WatchProjector
    private let register: StreamRegister
    private let deliveries: StreamDeliveries
    private let metrics: Metrics
    private let logger: Logger
    private let watch: WorkWatch?
    private let intervals: Intervals
    private let now: @Sendable () -> Timestamp
    /// What was wrong with streams at the last look.
    private let troubles = Mutex<[StoreStream: Trouble]>([:])

    private struct Trouble {
        enum Kind {
            /// Nothing comes.
            case silent
            /// Some of it does not.
            case overdue
        }

        var kind: Kind
        let since: ContinuousClock.Instant
        /// When the log said so last.
        var reportedAt: ContinuousClock.Instant?
    }

    /// - Parameters:
    ///   - watched: each configured app and environment.
    ///   - watch: says when looking fails.
    package init(
        _ watched: [Watched], projector: WatchProjector, register: StreamRegister, deliveries: StreamDeliveries,
        metrics: Metrics,
        logger: Logger, watch: WorkWatch?, intervals: Intervals = Intervals(),
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.watched = watched
        self.projector = projector
        self.register = register
        self.deliveries = deliveries
        self.metrics = metrics
        self.logger = logger
        self.watch = watch
        self.intervals = intervals
        self.now = now
    }

    /// Works until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled, await watched({ try await self.projector.restore() }) == nil {
            try? await Task.sleep(for: intervals.look)
        }
        await withDiscardingTaskGroup { group in
            while !Task.isCancelled {
                let start = ContinuousClock.now
                let canaries = await watched { try await self.look() }
                // Where a million are overdue, to count them takes a while.
                let rest = min(intervals.longestRest, max(intervals.look, start.duration(to: .now) * 20))
                // The store may take its time to answer, or never do.
                for canary in canaries ?? [] { group.addTask { await self.sendCanary(canary) } }
                try? await Task.sleep(for: rest)
            }
        }
    }

    private func watched<Value: Sendable>(_ work: @Sendable () async throws -> Value) async -> Value? {
        if let watch { await watch.watch(.streams, work) } else { try? await work() }
    }

    /// Brings what is expected to the head of the log, looks at every stream, and says what has changed.
    ///
    /// - Returns: the streams of which the store is to be asked for a test notification, by this process alone.
    package func look() async throws -> [Watched] {
        let now = now()
        let heard = deliveries.takeAll()
        do {
            try await register.noteHeard(heard, at: now)
        } catch {
            deliveries.giveBack(heard)
            throw error
        }
        try await projector.catchUp(now: now)
        let standings = try await register.standings(of: watched.map(\.stream), at: now)
        metrics.note(standings, sweeps: try await register.sweeps(), at: now)
        var canaries: [Watched] = []
        for (standing, watched) in zip(standings, watched) {
            // The next one would hide that this one never came.
            if let lost = standing.unansweredCanary(at: now), standing.unheardAt.map({ $0 < lost }) ?? true {
                try await register.noteUnheard(standing.stream, at: lost)
            }
            let trouble = report(standing, at: now)
            if watched.client != nil, try await isCanaryDue(standing, trouble, at: now) { canaries.append(watched) }
        }
        return canaries
    }

    /// Says in the log what is wrong, once it has been for a while, and then now and again.
    private func report(_ standing: StreamStanding, at now: Timestamp) -> Trouble? {
        let stream = standing.stream
        let kind: Trouble.Kind? = standing.isSilent(at: now) ? .silent : standing.overdue > 0 ? .overdue : nil
        let (before, trouble, isDue) = troubles.withLock { troubles -> (Trouble?, Trouble?, Bool) in
            let before = troubles[stream]
            var trouble = kind.map { Trouble(kind: $0, since: before?.since ?? .now, reportedAt: before?.reportedAt) }
            let isLong = trouble.map { $0.since.duration(to: .now) >= intervals.patience } ?? false
            let isNews =
                before?.kind != kind
                || (trouble?.reportedAt?.duration(to: .now) ?? intervals.report) >= intervals.report
            if isLong, isNews { trouble?.reportedAt = .now }
            troubles[stream] = trouble
            return (before, trouble, isLong && isNews)
        }
        // Testers come and go, and the sandbox tries once: nobody is to be woken for it.
        let level: LogLevel = stream.environment == .production ? .warning : .info
        var values: [(String, LogValue)] = stream.logged
        values += [
            ("last_heard_at", .string(standing.lastHeardAt?.description ?? "never")),
            ("overdue", .integer(standing.overdue)),
        ]
        if let first = standing.overdueEvents?.lowerBound {
            values.append(("oldest_overdue_at", .string(first.description)))
        }
        if let error = standing.canaryError { values.append(("test_notification", .string(error))) }
        if let refusal = deliveries.refusal, standing.lastHeardAt.map({ $0 < refusal.at }) ?? true {
            values += [
                ("last_refused_at", .string(refusal.at.description)), ("last_refused", .string(refusal.reason)),
            ]
        }
        switch kind {
        case .silent? where isDue:
            logger.log(
                level,
                "the store's notifications do not arrive: check the URL in App Store Connect, whether the store can reach "
                    + "it, and whether what comes is refused; `rightful test-notification` shows it", values)
        case .overdue? where isDue:
            logger.log(
                level,
                "some of the store's notifications did not arrive: the next event of these subscriptions is overdue",
                values)
        case .silent?, .overdue?: break
        case nil: if before?.reportedAt != nil { logger.log(level, "the store's notifications arrive", values) }
        }
        if before?.kind == .silent, before?.reportedAt != nil, kind == .overdue {
            logger.log(level, "the store's notifications arrive again, and some are overdue still", values)
        }
        return trouble
    }

    /// Whether the store is to be asked for a test notification, since nothing was heard for long, by this process.
    private func isCanaryDue(_ standing: StreamStanding, _ trouble: Trouble?, at now: Timestamp) async throws -> Bool {
        var pause = intervals.canary
        if let trouble, trouble.kind == .silent {
            guard trouble.since.duration(to: .now) >= intervals.patience else { return false }
            pause = intervals.urgentCanary
        } else {
            guard let quietSince = standing.lastHeardAt ?? standing.watchedSince,
                quietSince.adding(milliseconds: intervals.canary) <= now
            else { return false }
        }
        return try await register.beginCanary(standing.stream, now: now, pause: pause)
    }

    /// Asks the store for a test notification.
    package func sendCanary(_ watched: Watched) async {
        guard let client = watched.client else { return }
        let asked = now()
        do {
            do {
                _ = try await client.send(.testNotification, in: watched.stream.environment, within: .seconds(30))
            } catch {
                // Where the store knows no URL it delivers nothing; any other error says nothing of what it delivers.
                let hasNoURL = error.code == StoreAPIError.noNotificationURL
                try await register.failCanary(
                    watched.stream, "\(error)", unheardAt: hasNoURL ? asked : nil)
                return
            }
            try await register.noteCanary(watched.stream, at: asked)
        } catch {
            // It is tried again in a quarter of an hour.
            logger.log(
                .warning, "it could not be noted that a test notification was asked for",
                [("error", .string("\(error)"))])
        }
    }
}
