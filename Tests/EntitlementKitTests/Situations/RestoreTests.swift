import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: restoring, and what it says of what failed", .timeLimit(.minutes(1)))
struct RestoreTests {
    private struct Odd: Error {}

    @Test("where store and server answer, nothing failed")
    func done() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        let outcome = await rig.store.restoreEntitlements()
        #expect(outcome.failures.isEmpty, "\(outcome.failures)")
        #expect(outcome.entitlements.givesAccess(to: "premium"))
    }

    @Test("a person who does not sign in, a store that fails and a server that is away are told apart")
    func failures() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        rig.device.edit { $0.syncError = RestoreFailure.userCancelled }
        var outcome = await rig.store.restoreEntitlements()
        guard case .userCancelled? = outcome.failures.first, outcome.failures.count == 1 else {
            Issue.record("\(outcome.failures)")
            return
        }
        rig.device.edit { $0.syncError = Odd() }
        rig.server.edit { $0.mood = .unreachable }
        outcome = await rig.store.restoreEntitlements()
        guard case .store(let error)? = outcome.failures.first, case .server(.unreachable)? = outcome.failures.last
        else {
            Issue.record("\(outcome.failures)")
            return
        }
        #expect(error is Odd)
        #expect(outcome.entitlements.givesAccess(to: "premium"), "what is known is brought all the same")
    }

    @Test("a store that never answers is told after three minutes")
    func stalled() async {
        let door = Door()
        let rig = KitRig { $0.doors[.sync] = door }
        await rig.launch()
        let restoring = Task { [store = rig.store] in await store.restoreEntitlements() }
        await eventually("the call") { await door.visitors == 1 }
        await eventually("patience") { rig.clock.alarms.contains(.seconds(180)) }
        rig.clock.advance(.seconds(180))
        guard case .storeTookTooLong? = await restoring.value.failures.first else {
            Issue.record("another failure")
            return
        }
        await door.open()
    }

    @Test("right after a login, while the server has asked for patience, that it was not asked is a failure")
    func quiet() async {
        let rig = KitRig(server: { $0.mood = .status(503, retryAfter: 600) })
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        let outcome = await rig.store.restoreEntitlements()
        guard case .server(.notYetAsked)? = outcome.failures.first, outcome.failures.count == 1 else {
            Issue.record("\(outcome.failures)")
            return
        }
    }

    @Test("without a server, that there is none is no failure")
    func syncOff() async {
        let rig = KitRig(sync: false)
        #expect(await rig.store.restoreEntitlements().failures.isEmpty)
    }
}
