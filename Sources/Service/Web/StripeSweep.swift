import AppStorePayloads
package import EntitlementCore
package import Ledger
package import StripeAPI
import StripePayloads

/// Reads Stripe's own list of events when the service starts, and from time to time, so that a webhook that never came is
/// recorded all the same.
///
/// What it reads goes the way of whatever is delivered: one event of Stripe's is one event here. Some hours at a time are read,
/// the oldest first, so that what is known only grows.
package struct StripeSweep: Sendable {
    /// When it works.
    package struct Intervals: Sendable {
        /// Between two sweeps.
        package var regular = Duration.seconds(300)
        /// While another process is at work, which may die.
        package var elsewhere = Duration.seconds(10)
        /// After one that failed; doubled for each further one.
        package var retry = Duration.seconds(30)
        package var longestRetry = Duration.seconds(900)

        package init() {}
    }

    /// What a sweep came to.
    package struct Report: Sendable, Hashable {
        package var read = 0
        package var recorded = 0
        /// What is no event that this version can read, or of the other environment.
        package var refused = 0
    }

    /// How much is read before it is called known, in milliseconds.
    private static let part: Int64 = 6 * 3_600_000
    /// More pages than this of one part and list would be a list that does not end.
    private static let mostPages = 10_000
    /// How long one page may take; what was sent meanwhile is read by the next sweep.
    private static let patience = Duration.seconds(25)

    private let clients: [StripeClient]
    private let register: WebSweepRegister
    private let metrics: Metrics
    private let logger: Logger
    private let intervals: Intervals
    private let now: @Sendable () -> Timestamp
    private let append: @Sendable (EventDraft) async throws -> AppendOutcome

    /// - Parameter clients: one for each environment at most.
    package init(
        _ clients: [StripeClient], register: WebSweepRegister, metrics: Metrics, logger: Logger,
        intervals: Intervals = Intervals(), now: @escaping @Sendable () -> Timestamp,
        append: @escaping @Sendable (EventDraft) async throws -> AppendOutcome
    ) {
        self.clients = clients
        self.register = register
        self.metrics = metrics
        self.logger = logger
        self.intervals = intervals
        self.now = now
        self.append = append
    }

    /// Works until the current task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            for client in clients {
                group.addTask {
                    var retry = intervals.retry
                    while !Task.isCancelled {
                        do {
                            let report = try await sweep(client)
                            retry = intervals.retry
                            try await Task.sleep(for: report == nil ? intervals.elsewhere : intervals.regular)
                        } catch {
                            try? await Task.sleep(for: retry)
                            retry = min(intervals.longestRetry, retry * 2)
                        }
                    }
                }
            }
        }
    }

    /// Reads everything up to now, once, in every environment.
    package func runOnce() async throws -> [Report?] {
        var reports: [Report?] = []
        for client in clients { reports.append(try await sweep(client)) }
        return reports
    }

    /// Reads everything up to now; `nil` where another process is at it.
    private func sweep(_ client: StripeClient) async throws -> Report? {
        let name: [(String, LogValue)] = [("environment", .string(client.environment.rawValue))]
        guard var sweep = try await register.begin(client.environment, now: now()) else { return nil }
        do {
            var report = Report()
            repeat {
                let until = min(sweep.end, sweep.from.adding(milliseconds: Self.part))
                let part = try await read(from: sweep.from, until: until, of: sweep, client)
                try await register.advance(
                    &sweep, to: until, read: part.read, recorded: part.recorded, refused: part.refused)
                report.read += part.read
                report.recorded += part.recorded
                report.refused += part.refused
            } while sweep.from < sweep.end
            logger.log(
                report.recorded > 0 || report.refused > 0 ? .warning : .info,
                report.recorded > 0
                    ? "webhooks of Stripe's were missing, and are recorded now" : "Stripe's events are read",
                name + [
                    ("read", .integer(Int64(report.read))), ("recorded", .integer(Int64(report.recorded))),
                    ("refused", .integer(Int64(report.refused))),
                ])
            return report
        } catch {
            let isStopped = error is CancellationError || Task.isCancelled
            // Also when this task is cancelled: another process goes on at once.
            await Task { [register, sweep] in
                try? await register.letGo(of: sweep, isStopped ? nil : "\(error)")
            }.value
            if !isStopped {
                logger.log(
                    .error, "Stripe's list of events cannot be read now; it is tried again",
                    name + [("error", .string("\(error)"))])
            }
            throw error
        }
    }

    /// Reads and records what was made within some hours.
    private func read(
        from: Timestamp, until: Timestamp, of sweep: WebSweep, _ client: StripeClient
    ) async throws -> Report {
        var report = Report()
        for types in StripeEventType.lists {
            var last: String?
            var pages = 0
            while true {
                try await register.touch(sweep)
                let request = StripeRequest.get(StripeEventType.page(types, from: from, until: until, after: last))
                let page = try StripeList(parsing: try await client.send(request, within: Self.patience))
                try await record(page, client.environment, &report)
                guard page.hasMore else { break }
                pages += 1
                guard pages < Self.mostPages, let next = page.lastID, next != last else {
                    throw PayloadError.inconsistent("Stripe's list of events does not end")
                }
                last = next
            }
        }
        return report
    }

    private func record(_ page: StripeList, _ environment: StoreEnvironment, _ report: inout Report) async throws {
        // Newest first, as Stripe lists them: recorded the other way round.
        let drafts = page.elements.reversed().compactMap { body -> EventDraft? in
            guard let event = try? StripeEvent(parsing: body, sha256: SignedWebhook.hash),
                event.environment == environment
            else { return nil }
            return EventDraft(event, listed: body)
        }
        report.read += page.elements.count
        report.refused += page.elements.count - drafts.count
        let recorded = try await withThrowingTaskGroup(of: Bool.self) { group in
            for draft in drafts { group.addTask { try await !append(draft).isDuplicate } }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        report.recorded += recorded
        for (outcome, count) in [
            ("recorded", recorded), ("known", drafts.count - recorded), ("refused", page.elements.count - drafts.count),
        ] where count > 0 {
            metrics.count(.webSweeps, [outcome], by: count)
        }
    }
}

extension EventDraft {
    /// What an event appends that Stripe listed.
    init(_ event: StripeEvent, listed body: [UInt8]) {
        self.init(
            environment: event.environment, source: .stripeAPI, type: event.label, occurredAt: event.created,
            fact: .web(event.fact), identities: event.identities.customerIDs,
            deduplication: .statement(id: "stripe:" + event.eventID, payloadHash: event.fact.payloadHash),
            evidence: .plain(body))
    }
}
