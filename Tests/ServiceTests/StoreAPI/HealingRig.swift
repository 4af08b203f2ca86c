import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Ledger
import Testing

@testable import Service

/// What works behind a service so that the ledger heals, run step by step.
struct HealingRig {
    let rig: ServiceRig
    let watch: StreamWatch
    let metrics: Metrics
    private let checks: [StoreCheck]

    /// - Parameters:
    ///   - hasCanary: whether test notifications are asked for, and then as soon as a stream is silent.
    ///   - patience: for how long something must have been wrong before it is said.
    static func make(
        asksStore: Bool = true, hasOtherApp: Bool = false, hasCanary: Bool = false, patience: Duration = .zero
    ) async throws -> HealingRig {
        let rig = try await ServiceRig.withCatalog(hasOtherApp: hasOtherApp, asksStore: asksStore)
        return HealingRig(rig, hasCanary: hasCanary, patience: patience)
    }

    init(_ rig: ServiceRig, hasCanary: Bool = false, patience: Duration = .zero) {
        self.rig = rig
        metrics = rig.context.metrics
        checks = (rig.asked?.clients ?? []).map { client in
            StoreCheck(
                client: client, statements: rig.trust.statements, reader: rig.context.reader, now: rig.context.now
            ) { try await rig.ledger.writer.append($0) }
        }
        var intervals = StreamWatch.Intervals()
        intervals.patience = patience
        watch = StreamWatch(
            rig.streams.map { stream in
                (stream, hasCanary ? rig.asked?.clients.first { $0.credentials.bundleID == stream.app } : nil)
            }, projector: WatchProjector(pool: rig.pool), register: StreamRegister(pool: rig.pool),
            deliveries: rig.application.notifications.deliveries, metrics: rig.context.metrics,
            logger: rig.context.logger, watch: nil, intervals: intervals, now: rig.context.now)
    }

    /// What repairs, as a process of its own.
    func repairer(holder: String = "one") -> StoreRepairer {
        StoreRepairer(
            checks.flatMap { check in StoreEnvironment.allCases.map { (check, $0) } },
            register: CheckRegister(pool: rig.pool, holder: holder), reader: rig.context.reader,
            metrics: metrics, logger: rig.context.logger, now: rig.context.now)
    }

    /// What asks about differences that nothing explains.
    var driftChecks: DriftChecks {
        DriftChecks(
            checks.flatMap { check in StoreEnvironment.allCases.map { (check, $0) } },
            register: rig.context.reader.driftRegister, reader: rig.context.reader, metrics: metrics,
            logger: rig.context.logger, now: rig.context.now)
    }

    /// Looks, and asks for the test notifications that are due.
    func look() async throws {
        for canary in try await watch.look() { await watch.sendCanary(canary) }
    }

    /// Reads the store's history of notifications to the end, of every app and environment; returns what became of the first
    /// app's production.
    @discardableResult
    func sweep(since: Timestamp? = nil) async throws -> NotificationSweep.Report {
        var production = NotificationSweep.Report()
        for client in rig.asked?.clients ?? [] {
            let sweep = NotificationSweep(
                client: client, register: SweepRegister(pool: rig.pool, holder: "sweep"),
                verifier: rig.trust.notifications, logger: rig.context.logger, now: rig.context.now
            ) { try await rig.ledger.writer.append($0) }
            for environment in StoreEnvironment.allCases {
                let report = try await sweep.run(in: environment, since: since)
                if environment == .production, client.credentials.bundleID == ServiceRig.bundleID {
                    production = report
                }
            }
        }
        return production
    }

    /// Looks, reads the history, repairs what is due, and looks again; returns how many were asked about.
    @discardableResult
    func heal() async throws -> Int {
        // What was just recorded is dated a little later than the clock that stands still.
        rig.wait(seconds: 1)
        try await sweep()
        try await look()
        let rounds = await repairer().roundOfAll()
        try await look()
        return rounds.reduce(0) { sum, round in
            guard case .checked(let count) = round else { return sum }
            return sum + count
        }
    }

    /// `production ok`, `sandbox silent 3 overdue`, and so on, of one app.
    func streams(of app: String = ServiceRig.bundleID, key: String? = nil) async throws -> [String] {
        let answer = try await rig.send("GET", "/v1/streams", key: key ?? rig.admin).json
        guard case .array(let items) = answer["items"] else { return ["no list"] }
        return items.filter { $0["app"] == .string(app) }.map { item in
            var words: [String] = []
            if case .string(let environment) = item["environment"] { words.append(environment) }
            words.append(item["silent"] == .bool(true) ? "silent" : "ok")
            if case .int(let overdue) = item["overdue"], overdue > 0 { words.append("\(overdue) overdue") }
            return words.joined(separator: " ")
        }
    }

    /// How one app's production stands, in full.
    func standing() async throws -> StreamStanding {
        try await StreamRegister(pool: rig.pool).standings(
            of: [StoreStream(app: ServiceRig.bundleID, environment: .production)], at: rig.clock.now)[0]
    }

    func pass(days: Double) {
        rig.clock.now = rig.clock.now.adding(milliseconds: Int64(days * 86_400_000))
    }
}

extension StoreRepairer {
    /// Goes once through what is due, of every app and environment; returns how many were asked about.
    func roundOfAll() async -> [Round] {
        var rounds: [Round] = []
        for (check, environment) in checks { rounds.append(await round(check, environment)) }
        return rounds
    }
}

extension DriftChecks {
    /// Asks about everything once, of every app and environment.
    func askAll() async throws -> Round {
        var all = Round()
        for (check, environment) in checks {
            let round = try await goThrough(check, environment)
            all.asked += round.asked
            all.failed += round.failed
            all.outage = all.outage ?? round.outage
        }
        return all
    }
}
