import EntitlementCore
import Ledger
import StoreSimulator
import Testing

@testable import Service

/// What was read of the store, and was lost by the log before it was noted how far that had come.
@Suite("Events of the store that the log has lost", .timeLimit(.minutes(5)))
struct LostEventsTests {
    private static let token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"

    @Test("a page of the store's history whose notifications are lost is read again")
    func sweep() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let noon = rig.clock.now
        rig.clock.now = noon.adding(milliseconds: -5 * 3_600_000)
        _ = try store.send("SUBSCRIBED", uuid: "n1", HeldTransaction(token: Self.token).members)
        rig.clock.now = noon
        let log = try await LosingLog(rig)
        let sweep = NotificationSweep(
            client: try #require(rig.asked?.clients.first), register: SweepRegister(pool: rig.pool, holder: "test"),
            verifier: rig.trust.notifications, logger: rig.context.logger, now: rig.context.now
        ) { try await log.append($0) }
        let error = await #expect(throws: LedgerError.self) { try await sweep.run(in: .production) }
        #expect(error?.code == .invalid)
        var standing = try #require(try await SweepRegister.standings(rig.pool).first)
        #expect(standing.completedUntil == nil && standing.window != nil && !standing.isHeld)
        #expect(try await rig.holdings(Self.token).isEmpty)
        log.stop()
        #expect(try await sweep.run(in: .production).recorded == 1)
        standing = try #require(try await SweepRegister.standings(rig.pool).first)
        #expect(standing.completedUntil == noon)
        #expect(try await rig.holdings(Self.token) == ["premium active paid_period"])
    }

    /// Asks the rig's store, and appends what it says to a log that loses it.
    private static func check(_ rig: ServiceRig, appendingTo log: LosingLog) throws -> StoreCheck {
        StoreCheck(
            client: try #require(rig.asked?.clients.first), statements: rig.trust.statements,
            reader: rig.context.reader, now: rig.context.now
        ) { try await log.append($0) }
    }

    @Test("a page of a list that is imported is asked about again where what the store said is lost")
    func imported() async throws {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let bought = HeldTransaction(token: Self.token)
        try store.remember(bought.members, HeldRenewal(signed: 0.2).members)
        let log = try await LosingLog(rig)
        let check = try Self.check(rig, appendingTo: log)
        let register = ImportRegister(
            pool: rig.pool, stream: StoreStream(app: ServiceRig.bundleID, environment: .production), file: .zero,
            holder: "test")
        let list = StoreImport(check, in: .production, register: register)
        let ids: [Substring] = [bought.id[...]]
        let error = await #expect(throws: LedgerError.self) { try await list.run(ids) }
        #expect(error?.code == .invalid)
        #expect(try await register.begin(total: 1) == ImportStanding())
        #expect(try await rig.holdings(Self.token).isEmpty)
        log.stop()
        let report = try #require(try await list.run(ids))
        #expect(report.recorded == 1 && report.standing.done == 1)
        #expect(try await rig.holdings(Self.token) == ["premium active paid_period"])
    }

    @Test("what the store told when it was asked, and is lost, is asked about again at once")
    func repaired() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let held = HeldTransaction(
            id: "7", product: "com.example.pro.monthly", from: 300, until: 330, signed: 311, token: Self.token)
        try await rig.notify(held.with { ($0.revoked, $0.signed) = (310, 310) }, uuid: "n1")
        _ = try await rig.reconcile(Self.token, Posted(transactions: [try rig.sign(held)]))
        try store.remember(held.members)
        rig.wait(seconds: 1)
        try await healing.sweep()
        try await healing.look()
        let log = try await LosingLog(rig)
        let check = try Self.check(rig, appendingTo: log)
        let repairer = StoreRepairer(
            [(check, .production)], register: CheckRegister(pool: rig.pool, holder: "one"),
            reader: rig.context.reader, metrics: healing.metrics, logger: rig.context.logger,
            now: rig.context.now)
        for _ in 0..<2 { #expect(await repairer.roundOfAll() == [.checked(1)]) }
        log.stop()
        #expect(await repairer.roundOfAll() == [.checked(1)])
        #expect(await repairer.roundOfAll() == [.checked(0)])
        #expect(try await rig.holdings(Self.token) == ["premium active paid_period"])
    }
}
