import Foundation
import Observation
import Synchronization
import Testing

@testable import EntitlementKit

@Suite("Kit: what views are told", .timeLimit(.minutes(1)))
struct ObservationTests {
    @Test("a gate is loading before anything is known, then open or closed, and says what was held before")
    func access() async {
        #expect(Entitlements.loading.access(to: "premium") == .loading)
        let door = Door()
        let rig = KitRig(day: 10) {
            $0.current = [Statements.transaction("1")]
            for call in [ScriptedStore.Call.currentEntitlements, .allTransactions, .unfinishedTransactions] {
                $0.doors[call] = door
            }
        } server: {
            $0.mood = .unreachable
        }
        await rig.store.start()
        #expect(await rig.store.current.access(to: "premium") == .loading)
        await door.open()
        await rig.waitUntilGives()
        guard case .given(let entitlement) = await rig.store.current.access(to: "premium") else {
            Issue.record("the gate is closed to whoever has paid")
            return
        }
        #expect(entitlement.productID == "monthly")
        await eventually("it is closed") { await rig.store.current.access(to: "forever") == .denied(nil) }
        rig.device.push(Statements.transaction("1", revoked: 9, signed: 10))
        await rig.waitUntilGives(false)
        guard case .denied(let held?) = await rig.store.current.access(to: "premium") else {
            Issue.record("nothing is told of what was refunded")
            return
        }
        #expect(held.expirationReason == .refunded)
    }

    @MainActor
    @Test("what observes hears of a change, and sees the newest state")
    func observable() async {
        let rig = KitRig { $0.purchase = .success(.success(Statements.transaction("1"))) }
        let model = ObservableEntitlements(rig.store)
        #expect(model.current == .loading)
        await eventually("loaded") { @MainActor in model.current.kind != .loading }
        let changes = Mutex(0)
        withObservationTracking {
            _ = model.current
        } onChange: {
            changes.withLock { $0 += 1 }
        }
        _ = await model.store.purchase("monthly")
        await eventually("bought") { @MainActor in model.current.givesAccess(to: "premium") }
        #expect(changes.withLock { $0 } == 1)
    }
}
