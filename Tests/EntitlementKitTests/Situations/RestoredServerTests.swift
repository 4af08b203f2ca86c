import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a server that was restored from a backup", .timeLimit(.minutes(1)))
struct RestoredServerTests {
    /// Lets the server forget what it was told, and go on from a position.
    private func restore(_ rig: KitRig, to position: Int64, ledgerID: String) {
        rig.server.edit { script in
            script.states = [:]
            script.ownership = OwnershipMap()
            script.numbers = [:]
            script.position = position
            script.translate = { answer in
                guard case .object(var members) = answer else { return answer }
                members["ledger_id"] = .string(ledgerID)
                return .object(members)
            }
        }
    }

    @Test("what a restored server lost is told again, whether its position is behind or ahead", arguments: [1, 900])
    func toldAgain(_ position: Int64) async {
        let lifetime = Statements.transaction("2", product: "lifetime", until: nil)
        var rig = KitRig { $0.current = [Statements.transaction("1"), lifetime] }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        _ = await rig.store.refresh()
        let posts = rig.server.posts.count
        _ = await rig.store.refresh()
        #expect(rig.server.posts.count == posts)
        restore(rig, to: position, ledgerID: "led_2")
        rig.clock.advance(.seconds(60))
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(Set(rig.server.state.states.keys) == ["1", "2"])
        #expect(await rig.gives("forever"))
        #expect(await rig.store.current.isLive)
        // Once, and not at every launch.
        let after = rig.server.posts.count
        rig = await rig.relaunched()
        await rig.launch()
        #expect(rig.server.posts.count == after)
    }

    @Test("what a log lost that has become as long again, under the same id, is told once more, and once only")
    func overtaken() async {
        let lifetime = Statements.transaction("2", product: "lifetime", until: nil)
        var rig = KitRig { $0.current = [Statements.transaction("1"), lifetime] }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        _ = await rig.store.refresh()
        let posts = rig.server.posts.count
        restore(rig, to: 900, ledgerID: "led_1")
        rig.clock.advance(.seconds(60))
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(Set(rig.server.state.states.keys) == ["1", "2"])
        let state = await rig.store.current
        #expect(state.givesAccess(to: "premium") && state.givesAccess(to: "forever"))
        let after = rig.server.posts.count
        #expect(after > posts)
        rig = await rig.relaunched()
        await rig.launch()
        _ = await rig.store.refresh()
        #expect(rig.server.posts.count == after)
    }

    @Test("what a restored server does not take again is sent as seldom as anything else that it refuses")
    func refusedAgain() async {
        let lifetime = Statements.transaction("2", product: "lifetime", until: nil)
        let rig = KitRig {
            $0.current = [Statements.transaction("1"), lifetime]
            $0.unfinished = [Statements.transaction("1")]
        } server: {
            $0.listsToFinish = false
        }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        _ = await rig.store.refresh()
        restore(rig, to: 900, ledgerID: "led_1")
        rig.server.edit { $0.refused = ["2"] }
        rig.clock.advance(.seconds(60))
        let before = rig.server.received.count
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.server.received.count <= before + 8)
        #expect(await rig.gives("forever"))
    }

    @Test("what waits to be finished is asked about again, and finished")
    func finishing() async {
        let rig = KitRig {
            $0.unfinished = [Statements.transaction("1")]
        } server: {
            $0.listsToFinish = false
        }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        #expect(rig.device.state.finished.isEmpty)
        restore(rig, to: 2, ledgerID: "led_2")
        rig.server.edit { $0.listsToFinish = true }
        rig.clock.advance(.seconds(60))
        _ = await rig.store.refresh()
        await eventually("finished") { rig.device.state.finished == ["1"] }
    }
}
