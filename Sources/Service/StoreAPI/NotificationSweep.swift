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
        /// What was no notification of this app that the store had signed.
        package var refused = 0
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
    ///   - since: where to begin; `nil`: where the last completed sweep ended, and the first time as far back as the store
    ///     keeps.
    ///   - progress: called after each page.
    /// - Throws: why it could not go on, noted in the register as well.
    package func run(
        in environment: StoreEnvironment, since: Timestamp? = nil,
        progress: @Sendable (Sweep, Report) -> Void = { _, _ in }
    ) async throws -> Report {
        let app = client.credentials.bundleID
        guard var sweep = try await register.begin(app, in: environment, since: since, now: now()) else {
            return Report()
        }
        do {
            var report = Report()
            var beginnings = 1
            while !report.isComplete {
                try Task.checkCancellation()
                guard let page = try await page(of: &sweep, mayStartOver: beginnings < Self.mostBeginnings) else {
                    beginnings += 1
                    continue
                }
                let (recorded, refused) = try await record(page.items, of: sweep)
                let next = page.hasMore ? page.paginationToken : nil
                try await register.finishPage(
                    &sweep, next: next, read: page.items.count, recorded: recorded, refused: refused)
                report.pages += 1
                report.read += page.items.count
                report.recorded += recorded
                report.refused += refused
                report.isComplete = next == nil
                progress(sweep, report)
            }
            return report
        } catch {
            // Somebody else goes on at once, or this process does when it begins again.
            try? await register.fail(sweep, error is CancellationError ? "interrupted" : "\(error)")
            throw error
        }
    }

    /// The next page; `nil` where the store has forgotten where we were, and the window begins anew.
    private func page(of sweep: inout Sweep, mayStartOver: Bool) async throws -> NotificationPage? {
        do {
            return try await client.send(
                .notifications(from: sweep.from, until: sweep.until, paginationToken: sweep.cursor),
                in: sweep.environment)
        } catch let error as StoreAPIError
            where mayStartOver && sweep.cursor != nil && Self.forgottenPages.contains(error.code ?? 0)
        {
            try await register.startOver(&sweep)
            return nil
        }
    }

    /// How often one window is begun before the store's word is taken for an error.
    private static let mostBeginnings = 3

    /// invalidPaginationToken and paginationTokenExpired.
    private static let forgottenPages: Set<Int64> = [4_000_014, 4_000_017]

    /// Records a page, all at once; returns how many were missing, and how many were refused.
    private func record(
        _ items: [NotificationPage.Item], of sweep: Sweep
    ) async throws -> (recorded: Int, refused: Int) {
        let verified = await verify(items.map(\.payload.compact), of: sweep)
        let recorded = try await withThrowingTaskGroup(of: Bool.self) { group in
            for notification in verified.compactMap({ $0 }) {
                let draft = EventDraft(notification, source: .serverAPI)
                group.addTask { try await !append(draft).isDuplicate }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        return (recorded, verified.count { $0 == nil })
    }

    private func verify(_ payloads: [String], of sweep: Sweep) async -> [VerifiedNotification?] {
        let results = await withCheckedContinuation { continuation in
            queue.async {
                continuation.resume(
                    returning: payloads.map { payload in
                        Result { try verifier.verify(signedPayload: payload, now: now()) }
                    })
            }
        }
        return results.map { result in
            switch result {
            case .success(let notification) where notification.environment == sweep.environment: return notification
            case .success: note("is of another environment", of: sweep)
            case .failure(let error): note("\(error)", of: sweep)
            }
            return nil
        }
    }

    private func note(_ reason: String, of sweep: Sweep) {
        logger.log(
            .warning, "a notification of the store's history is refused",
            [
                ("app", .string(sweep.app)), ("environment", .string(sweep.environment.rawValue)),
                ("reason", .string(reason)),
            ])
    }
}
