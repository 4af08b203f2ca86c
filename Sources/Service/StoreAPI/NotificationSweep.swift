package import AppStoreServer
import Dispatch
package import EntitlementCore
package import Ledger

/// Reads the store's own history of notifications, and records what never arrived.
///
/// What it reads is treated like every notification: verified to the pinned root, bound to app and environment, and
/// appended under the notification's own id. So a notification that is known already, or is delivered at the same time,
/// is one event, and reading anything twice does no harm.
package struct NotificationSweep: Sendable {
    /// What became of a sweep.
    package struct Report: Sendable, Equatable {
        /// Whether it came to the end of its window; else another process is at work.
        package var isComplete = false
        package var pages = 0
        package var read = 0
        /// What was missing, and is in the log now.
        package var recorded = 0
        /// What was sent within the last minutes and had not arrived yet; it is in the log now.
        package var early = 0
        /// What was no notification of a configured app that the store had signed.
        package var refused = 0
        /// Why, the last of them.
        package var reason: String?
        /// Where it began to read.
        package var from: Timestamp?
        /// Why a part of the window counts as not read, the last of them; `nil` where none does.
        package var gap: String?
    }

    /// Of the app whose history it reads.
    package let client: StoreAPIClient
    let register: SweepRegister
    private let verifier: NotificationVerifier
    private let append: @Sendable (EventDraft) async throws -> AppendOutcome
    private let logger: Logger
    let now: @Sendable () -> Timestamp
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
        var since = since
        while isResumed {
            guard let sweep = try await register.begin(app, in: environment, since: since, now: now()) else {
                report.isComplete = false
                return report
            }
            if let warning = sweep.warning {
                logger.log(.warning, warning, StoreStream(app: app, environment: environment).logged)
            }
            isResumed = sweep.isResumed
            try await finish(sweep, &report, progress)
            // A sweep that was taken up began there or before.
            since = nil
        }
        report.isComplete = true
        return report
    }

    /// Reads a window to its end.
    private func finish(
        _ begun: Sweep, _ report: inout Report, _ progress: @Sendable (Sweep, Report) -> Void
    ) async throws {
        var sweep = begun
        var unread: StoreAPIError?
        do {
            try await Lease.keepAlive(by: { [register] in try await register.touch(begun) }) {
                try await readOn(&sweep, &unread, &report, progress)
            }
        } catch {
            throw await Lease.letGo(after: error) { [register, sweep, unread] reason in
                try await register.letGo(of: sweep, reason, isFailure: reason != nil && unread != nil)
            }
        }
    }

    /// - Parameter unread: why the part under way cannot be read, where it cannot.
    private func readOn(
        _ sweep: inout Sweep, _ unread: inout StoreAPIError?, _ report: inout Report,
        _ progress: @Sendable (Sweep, Report) -> Void
    ) async throws {
        var trouble = Trouble(trail: ListTrail(from: sweep.cursor))
        var isComplete = false
        while !isComplete {
            try Task.checkCancellation()
            let page: NotificationPage
            do {
                unread = nil
                page = try await self.page(of: sweep, &trouble)
            } catch let error as StoreAPIError {
                unread = error.isOfHistory ? error : nil
                switch try await cure(error, &sweep, &trouble) {
                case .readOn: continue
                case .givenUp(let isEnd, let reason):
                    report.gap = reason
                    isComplete = isEnd
                    continue
                case .nothing: throw error
                }
            }
            if let doubt = try await doubt(page, of: sweep) {
                report.pages += 1
                report.from = min(report.from ?? sweep.from, sweep.from)
                report.gap = doubt
                try await register.stopShort(of: sweep, doubt)
                break
            }
            let found = try await record(page.items, of: sweep)
            report.from = min(report.from ?? sweep.from, sweep.from)
            isComplete = try await register.finishPage(
                &sweep, next: page.hasMore ? page.paginationToken : nil, read: page.items.count,
                recorded: found.missing, refused: found.refusals.count, reason: found.refusals.last,
                restingOn: found.ends)
            report.pages += 1
            report.read += page.items.count
            report.recorded += found.missing
            report.early += found.early
            report.refused += found.refusals.count
            report.reason = found.refusals.last ?? report.reason
            progress(sweep, report)
            guard isComplete || report.pages < Self.mostPages else {
                throw StoreAPIError(
                    .unreadable, of: .notificationHistory,
                    "the store's history does not end, after \(report.pages) pages; it goes on from here next time")
            }
        }
    }

    /// In one reading: ten million notifications, which take half a day.
    private static let mostPages = 500_000

    /// The next page.
    ///
    /// - Throws: `StoreAPIError`, also where what the store says cannot be true.
    private func page(of sweep: Sweep, _ trouble: inout Trouble) async throws -> NotificationPage {
        let page = try await client.send(
            .notifications(from: sweep.from, until: sweep.until, paginationToken: sweep.cursor),
            in: sweep.environment)
        trouble.emptyPages = page.items.isEmpty ? trouble.emptyPages + 1 : 0
        if sweep.cursor == nil { trouble.trail = ListTrail() }
        guard page.hasMore else { return page }
        // Else it would go on for ever.
        let isNew = page.paginationToken.map { trouble.trail.follow($0) } ?? false
        guard isNew, trouble.emptyPages < Trouble.mostEmptyPages else {
            throw StoreAPIError(
                .unreadable, of: .notificationHistory,
                "the store says that there is more, and sends "
                    + (isNew ? "one empty page after the other" : "the same pages again"))
        }
        return page
    }

    /// What a page came to.
    private struct Found {
        var missing = 0
        /// What was sent so lately that it may be on its way.
        var early = 0
        /// Where the log ended once it held what the page says.
        var ends: Set<EventMark> = []
        /// Why others were refused.
        let refusals: [String]

        mutating func note(_ outcome: AppendOutcome, isEarly: Bool) {
            ends.insert(outcome.end)
            guard !outcome.isDuplicate else { return }
            if isEarly { early += 1 } else { missing += 1 }
        }
    }

    /// Records a page, all at once.
    private func record(_ items: [NotificationPage.Item], of sweep: Sweep) async throws -> Found {
        let (verified, refusals) = await verify(items.map(\.payload?.compact), of: sweep)
        let now = now()
        let late = now.adding(milliseconds: -Self.deliveryTime)...now.adding(milliseconds: Self.deliveryTime)
        var found = Found(refusals: refusals)
        try await withThrowingTaskGroup(of: (AppendOutcome, Bool).self) { group in
            for notification in verified {
                let draft = EventDraft(notification, source: .serverAPI)
                let isEarly = notification.signedDate.map { late.contains($0) } ?? false
                group.addTask { (try await append(draft), isEarly) }
            }
            while let (outcome, isEarly) = try await group.next() { found.note(outcome, isEarly: isEarly) }
        }
        if let reason = refusals.last, refusalLines.passes() {
            logger.log(
                .warning, "notifications of the store's history are refused",
                StoreStream(app: sweep.app, environment: sweep.environment).logged + [
                    ("of_page", .integer(Int64(refusals.count))), ("reason", .string(reason)),
                ])
        }
        return found
    }

    /// What was sent within these milliseconds may be on its way, and is not called missing.
    private static let deliveryTime: Int64 = 5 * 60_000

    private func verify(
        _ payloads: [String?], of sweep: Sweep
    ) async -> (verified: [VerifiedNotification], refusals: [String]) {
        await withCheckedContinuation { continuation in
            queue.async {
                var verified: [VerifiedNotification] = []
                var refusals: [String] = []
                for payload in payloads {
                    guard let payload else {
                        refusals.append("a notification is without its signedPayload")
                        continue
                    }
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
