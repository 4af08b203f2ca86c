package import AppStoreServer
import Dispatch
package import EntitlementCore
package import Ledger

/// Reads the store's own history of notifications, and records what never arrived.
///
/// What it reads goes the way of every notification: verified to the pinned root, bound to app and environment, and
/// appended under the notification's own id. So what is known already, and what comes at the same time from the store
/// itself, is one event, and to read anything twice does no harm.
package struct NotificationSweep: Sendable {
    /// What became of a sweep.
    package struct Report: Sendable, Equatable {
        /// Whether it came to the end of its window; else another process is at work.
        package var isComplete = false
        package var pages = 0
        package var read = 0
        /// What was missing, and is in the log now.
        package var recorded = 0
        /// What was no notification of a configured app that the store had signed.
        package var refused = 0
        /// Why, the last of them.
        package var reason: String?
        /// Where it began to read.
        package var from: Timestamp?
    }

    /// Of the app whose history it reads.
    package let client: StoreAPIClient
    private let register: SweepRegister
    private let verifier: NotificationVerifier
    private let append: @Sendable (EventDraft) async throws -> AppendOutcome
    private let logger: Logger
    private let now: @Sendable () -> Timestamp
    /// One core at most: those who ask are served first.
    private let queue = DispatchQueue(label: "sweep")
    /// A line of the log now and then: how many were refused in all is told at the end, and by `status`.
    private let refusalLines = Throttle(.seconds(10), beginsOpen: true)

    /// - Parameters:
    ///   - client: asks the store about one app.
    ///   - append: records an event.
    package init(
        client: StoreAPIClient, register: SweepRegister, verifier: NotificationVerifier, logger: Logger,
        now: @escaping @Sendable () -> Timestamp, append: @escaping @Sendable (EventDraft) async throws -> AppendOutcome
    ) {
        self.client = client
        self.register = register
        self.verifier = verifier
        self.logger = logger
        self.now = now
        self.append = append
    }

    /// Reads one environment's history to its end, or as far as it can.
    ///
    /// - Parameters:
    ///   - since: where to begin at the latest; else where the last completed sweep ended, and the first time as far back
    ///     as the store keeps.
    ///   - progress: called after each page.
    /// - Throws: why it could not go on, noted in the register as well; `CancellationError` when it was stopped.
    package func run(
        in environment: StoreEnvironment, since: Timestamp? = nil,
        progress: @Sendable (Sweep, Report) -> Void = { _, _ in }
    ) async throws -> Report {
        let app = client.credentials.bundleID
        var report = Report()
        var isResumed = true
        // What was left unfinished ends when it began; what came since is read at once.
        while isResumed {
            guard let sweep = try await register.begin(app, in: environment, since: since, now: now()) else {
                report.isComplete = false
                return report
            }
            isResumed = sweep.isResumed
            try await finish(sweep, &report, progress)
        }
        report.isComplete = true
        return report
    }

    /// Reads a window to its end.
    private func finish(
        _ begun: Sweep, _ report: inout Report, _ progress: @Sendable (Sweep, Report) -> Void
    ) async throws {
        var sweep = begun
        let signs = Task { [register] in
            while !Task.isCancelled {
                try await Task.sleep(for: Self.heartbeat)
                try? await register.touch(begun)
            }
        }
        defer { signs.cancel() }
        do {
            var beginnings = 1
            var isComplete = false
            while !isComplete {
                try Task.checkCancellation()
                guard let page = try await page(of: &sweep, mayStartOver: beginnings < Self.mostBeginnings) else {
                    beginnings += 1
                    continue
                }
                let (recorded, refusals) = try await record(page.items, of: sweep)
                let next = page.hasMore ? page.paginationToken : nil
                try await register.finishPage(
                    &sweep, next: next, read: page.items.count, recorded: recorded, refused: refusals.count,
                    reason: refusals.last)
                report.pages += 1
                report.read += page.items.count
                report.recorded += recorded
                report.refused += refusals.count
                report.reason = refusals.last ?? report.reason
                report.from = min(report.from ?? sweep.from, sweep.from)
                isComplete = next == nil
                progress(sweep, report)
                guard isComplete || report.pages < Self.mostPages else {
                    throw StoreAPIError(
                        .unreadable, of: .notificationHistory,
                        "the store's history does not end, after \(report.pages) pages; it goes on from here next time")
                }
            }
        } catch {
            let isStopped = error is CancellationError || Task.isCancelled
            // Also when this task is cancelled: somebody else, or the next process, goes on at once.
            await Task { [register, sweep] in
                try? await register.letGo(of: sweep, isStopped ? nil : "\(error)")
            }.value
            throw isStopped ? CancellationError() : error
        }
    }

    /// In one reading: ten million notifications, which take half a day.
    private static let mostPages = 500_000

    /// Well below the time after which a silent holder is taken for dead.
    private static let heartbeat = Duration.seconds(10)

    /// The next page; `nil` where the store does not take our word for where we were, and the window begins anew.
    private func page(of sweep: inout Sweep, mayStartOver: Bool) async throws -> NotificationPage? {
        let page: NotificationPage
        do {
            page = try await client.send(
                .notifications(from: sweep.from, until: sweep.until, paginationToken: sweep.cursor),
                in: sweep.environment)
        } catch let error as StoreAPIError where mayStartOver && sweep.cursor != nil && error.kind == .refused {
            try await register.startOver(&sweep)
            return nil
        }
        // Else it would go on for ever.
        guard !page.hasMore || !page.items.isEmpty && page.paginationToken != sweep.cursor else {
            throw StoreAPIError(
                .unreadable, of: .notificationHistory,
                "the store says that there is more, and sends \(page.items.isEmpty ? "nothing" : "the same page") again"
            )
        }
        return page
    }

    /// How often one window is begun before the store's word is taken for an error.
    private static let mostBeginnings = 3

    /// Records a page, all at once; returns how many were missing, and why others were refused.
    private func record(
        _ items: [NotificationPage.Item], of sweep: Sweep
    ) async throws -> (recorded: Int, refusals: [String]) {
        let (verified, refusals) = await verify(items.map(\.payload.compact), of: sweep)
        let recorded = try await withThrowingTaskGroup(of: Bool.self) { group in
            for notification in verified {
                let draft = EventDraft(notification, source: .serverAPI)
                group.addTask { try await !append(draft).isDuplicate }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        if let reason = refusals.last, refusalLines.passes() {
            logger.log(
                .warning, "notifications of the store's history are refused",
                [
                    ("app", .string(sweep.app)), ("environment", .string(sweep.environment.rawValue)),
                    ("of_page", .integer(Int64(refusals.count))), ("reason", .string(reason)),
                ])
        }
        return (recorded, refusals)
    }

    private func verify(
        _ payloads: [String], of sweep: Sweep
    ) async -> (verified: [VerifiedNotification], refusals: [String]) {
        await withCheckedContinuation { continuation in
            queue.async {
                var verified: [VerifiedNotification] = []
                var refusals: [String] = []
                for payload in payloads {
                    do {
                        let notification = try verifier.verify(signedPayload: payload, now: now())
                        if notification.environment == sweep.environment {
                            verified.append(notification)
                        } else {
                            refusals.append("a notification is of another environment")
                        }
                    } catch {
                        refusals.append("\(error)")
                    }
                }
                continuation.resume(returning: (verified, refusals))
            }
        }
    }
}
