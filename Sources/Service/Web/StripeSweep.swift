import AppStorePayloads
import EntitlementCore
package import Ledger
package import StripeAPI
import StripePayloads

/// Reads Stripe's own list of events when the service starts, and from time to time, so that a webhook that never came is
/// recorded all the same.
///
/// What it reads goes the way of whatever is delivered: one event of Stripe's is one event here. Some hours at a time are read,
/// the oldest first, so that what is known only grows. The list holds thirty days: where that is not far enough, which is so the
/// first time and after a long pause, everything that the account holds is read as well.
package struct StripeSweep: Sendable {
    /// When it works.
    package static let intervals = Repetition(
        regular: .seconds(300), elsewhere: .seconds(10), retry: .seconds(30), longestRetry: .seconds(900))
    /// When it looks whether everything is to be read.
    private static let listIntervals = Repetition(
        regular: .seconds(10), elsewhere: .seconds(10), retry: .seconds(30), longestRetry: .seconds(900))
    /// When the metrics are told how the streams stand, whatever else is under way.
    private static let gaugeIntervals = Repetition(
        regular: .seconds(10), elsewhere: .seconds(10), retry: .seconds(10), longestRetry: .seconds(10))

    /// What a sweep came to.
    struct Report: Sendable, Hashable {
        var read = 0
        var recorded = 0
        /// What is no event that this version can read, or of the other environment.
        var refused = 0
    }

    /// How much is read before it is called known, in milliseconds.
    private static let part: Int64 = 6 * 3_600_000
    /// How long one page may take; what was sent meanwhile is read by the next sweep.
    private static let patience = Duration.seconds(25)

    let ingestion: StripeIngestion
    private let register: WebSweepRegister
    private let lists: @Sendable (StripeClient) -> StripeImport
    private let intervals: Repetition

    /// - Parameter lists: reads everything that an account holds.
    package init(
        _ ingestion: StripeIngestion, register: WebSweepRegister, intervals: Repetition = StripeSweep.intervals,
        lists: @escaping @Sendable (StripeClient) -> StripeImport
    ) {
        self.ingestion = ingestion
        self.register = register
        self.intervals = intervals
        self.lists = lists
    }

    /// Works until the current task is cancelled.
    package func run(_ watch: WorkWatch) async {
        await withTaskGroup(of: Void.self) { group in
            for client in ingestion.clients {
                let isLive = client.environment == .production
                group.addTask {
                    await intervals.run {
                        await watch.watch(isLive ? .stripeEventsProduction : .stripeEventsSandbox) {
                            try await sweep(client) == nil ? .elsewhere : .done
                        } ?? .failed
                    }
                }
                group.addTask {
                    await Self.listIntervals.run {
                        await watch.watch(isLive ? .stripeListsProduction : .stripeListsSandbox) {
                            try await fillGap(client)
                        } ?? .failed
                    }
                }
            }
            group.addTask {
                await Self.gaugeIntervals.run { (try? await noteStandings()) == nil ? .failed : .done }
            }
        }
    }

    /// Tells the metrics how the streams stand.
    func noteStandings() async throws {
        ingestion.metrics.note(try await register.standings(), at: ingestion.now())
    }

    // MARK: - What no event tells any more

    /// Reads everything that the account holds, where the list of events did not reach back to what is known.
    func fillGap(_ client: StripeClient) async throws -> Repetition.Outcome {
        let name: [(String, LogValue)] = [("environment", .string(client.environment.rawValue))]
        let standings = try await register.standings()
        guard standings.contains(where: { $0.environment == client.environment && $0.gap != nil }) else { return .done }
        guard let report = try await lists(client).run() else { return .elsewhere }
        let standing = report.standing
        guard standing.failed.isEmpty else {
            throw UnreadObjects(count: standing.failed.count, example: report.failures.min { $0.key < $1.key })
        }
        ingestion.logger.log(
            standing.unowned > 0 || standing.refused > 0 ? .warning : .info,
            standing.unowned > 0
                ? "everything that the Stripe account holds is read; some of it belongs to nobody: see `rightful import --help`"
                : "everything that the Stripe account holds is read",
            name + [
                ("read", .integer(standing.read)), ("recorded", .integer(standing.recorded)),
                ("refused", .integer(standing.refused)), ("unowned", .integer(standing.unowned)),
            ])
        return .done
    }

    // MARK: - Events

    /// Reads everything up to now; `nil` where another process is at it.
    func sweep(_ client: StripeClient) async throws -> Report? {
        let name: [(String, LogValue)] = [("environment", .string(client.environment.rawValue))]
        // Stripe dates its events, so a wrong clock of ours must not say up to when they are known.
        let start = client.clock.reading(at: ingestion.now())
        guard var sweep = try await register.begin(client.environment, now: start) else { return nil }
        if let gap = sweep.gap {
            ingestion.logger.log(
                gap.from == nil ? .info : .warning,
                "Stripe lists no events from before this: everything that the account holds is read as well",
                name + [
                    ("until", .string("\(gap.until)")), ("known_until", .string(gap.from.map { "\($0)" } ?? "never")),
                ])
        }
        do {
            let report = try await Lease.keepAlive(by: { [register, sweep] in try await register.touch(sweep) }) {
                try await readOn(&sweep, client)
            }
            ingestion.logger.log(
                report.recorded > 0 || report.refused > 0 ? .warning : .info,
                report.recorded > 0
                    ? "webhooks of Stripe's were missing, and are recorded now" : "Stripe's events are read",
                name + [
                    ("read", .integer(Int64(report.read))), ("recorded", .integer(Int64(report.recorded))),
                    ("refused", .integer(Int64(report.refused))),
                ])
            return report
        } catch {
            throw await Lease.letGo(after: error) { [register, sweep] in try await register.letGo(of: sweep, $0) }
        }
    }

    private func readOn(_ sweep: inout WebSweep, _ client: StripeClient) async throws -> Report {
        var report = Report()
        repeat {
            let until = min(sweep.end, sweep.from.adding(milliseconds: Self.part))
            let (part, ends) = try await read(from: sweep.from, until: until, client)
            // Its first answer may be the first that tells the time.
            sweep.end(noLaterThan: client.clock.reading(at: ingestion.now()))
            try await register.advance(
                &sweep, to: min(until, sweep.end), read: part.read, recorded: part.recorded, refused: part.refused,
                restingOn: ends)
            report.read += part.read
            report.recorded += part.recorded
            report.refused += part.refused
        } while sweep.from < sweep.end
        return report
    }

    /// Reads and records what was made within some hours.
    ///
    /// - Returns: also where the log ended once it held that, some ends for each page.
    private func read(
        from: Timestamp, until: Timestamp, _ client: StripeClient
    ) async throws -> (report: Report, ends: Set<EventMark>) {
        var report = Report()
        var ends: Set<EventMark> = []
        for types in StripeEventType.lists {
            try await ingestion.pages(
                client, within: Self.patience,
                path: { StripeEventType.page(types, from: from, until: until, after: $0) }
            ) { try await record($0, client.environment, &report, &ends) }
        }
        return (report, ends)
    }

    private func record(
        _ page: StripeList, _ environment: StoreEnvironment, _ report: inout Report, _ ends: inout Set<EventMark>
    ) async throws {
        // Newest first, as Stripe lists them: recorded the other way round.
        let drafts = page.elements.reversed().compactMap { body -> EventDraft? in
            guard let event = try? StripeEvent(parsing: body, sha256: SignedWebhook.hash),
                event.environment == environment
            else { return nil }
            return EventDraft(event, listed: body)
        }
        report.read += page.elements.count
        report.refused += page.elements.count - drafts.count
        let outcomes = try await withThrowingTaskGroup(of: AppendOutcome.self) { group in
            for draft in drafts { group.addTask { try await ingestion.append(draft) } }
            return try await group.reduce(into: [AppendOutcome]()) { $0.append($1) }
        }
        ends.formUnion(outcomes.map(\.end))
        let recorded = outcomes.count { !$0.isDuplicate }
        report.recorded += recorded
        for (outcome, count) in [
            ("recorded", recorded), ("known", drafts.count - recorded), ("refused", page.elements.count - drafts.count),
        ] where count > 0 {
            ingestion.metrics.count(.webSweeps, [outcome], by: count)
        }
    }
}

/// Objects that Stripe could not be asked about, though it could about others.
private struct UnreadObjects: Error, CustomStringConvertible {
    let count: Int
    let example: (key: String, value: String)?

    var description: String {
        "\(count) of what the Stripe account holds cannot be read"
            + (example.map { ", \($0.key) because: \($0.value)" } ?? "") + ". It is tried again"
    }
}

extension EventDraft {
    /// What an event appends that Stripe listed.
    init(_ event: StripeEvent, listed body: [UInt8]) {
        self.init(
            environment: event.environment, source: .stripeAPI, type: event.label, occurredAt: event.created,
            fact: .web(event.fact), identities: event.identities.customerIDs,
            deduplication: LedgerFact.web(event.fact).deduplication(in: event.environment),
            evidence: .plain(body))
    }
}
