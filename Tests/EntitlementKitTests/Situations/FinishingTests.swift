import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: finishing", .timeLimit(.minutes(1)))
struct FinishingTests {
    @Test("a store that is not ready to finish is asked again until it is")
    func storeNotReady() async {
        let rig = KitRig { $0.purchase = .success(.success(Statements.transaction("1"))) }
        await rig.launch()
        rig.device.edit { $0.isReady = false }
        _ = await rig.store.purchase("monthly")
        await eventually("an attempt") { rig.device.count(.finish) == 1 }
        rig.device.edit { $0.isReady = true }
        await eventually("another in a second") { rig.clock.alarms.contains(.seconds(1)) }
        #expect(rig.device.state.finished.isEmpty)
        rig.clock.advance(.seconds(1))
        await eventually("finished") { rig.device.state.finished == ["1"] }
    }

    @Test("a refund of what was finished is finished too, once the server holds it")
    func refundAfterFinish() async {
        let rig = KitRig(day: 10)
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await eventually("finished") { rig.device.state.finished == ["1"] }
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Statements.transaction("1", revoked: 9, signed: 10))
        await rig.waitUntilGives(false)
        await rig.store.settled()
        #expect(rig.device.state.finished == ["1"])
        rig.server.edit { $0.mood = .answers }
        await rig.store.networkDidReturn()
        await eventually("the refund is finished") { rig.device.state.finished == ["1", "1"] }
    }

    @Test("a refund that is taken back while it is on its way to the server is told to it, and finished")
    func refundTakenBackUnderWay() async {
        var rig = KitRig(day: 12)
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await eventually("finished") { rig.device.state.finished == ["1"] }
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Statements.transaction("1", revoked: 9, signed: 10))
        await rig.waitUntilGives(false)
        await rig.store.settled()
        // The refund is on disk. The next launch sends it at once, and what the server last answered was the purchase.
        let door = Door()
        rig.server.edit { ($0.mood, $0.door, $0.doorFor) = (.answers, door, ["1"]) }
        let count = rig.server.posts.count
        rig = await rig.relaunched()
        await rig.store.start()
        await eventually("the refund is on its way") { rig.server.posts.count > count }
        await eventually("the store was read") { await rig.store.isStoreRead }
        rig.device.push(Statements.transaction("1", signed: 11))
        await rig.waitUntilGives(true)
        rig.server.edit { $0.door = nil }
        await door.open()
        await eventually("the transaction as it reads now is finished") { rig.device.state.finished == ["1", "1"] }
        #expect(rig.server.posts.suffix(2) == [["1"], ["1"]])
    }

    @Test("a transaction that the store lists again after it was finished is finished again")
    func listedAgain() async {
        let rig = KitRig()
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await eventually("finished") { rig.device.state.finished == ["1"] }
        await rig.store.settled()
        // The store did not keep it.
        rig.device.edit { $0.unfinished = [Statements.transaction("1")] }
        _ = await rig.store.refresh()
        await eventually("finished again") { rig.device.state.finished == ["1", "1"] }
    }

    @Test("a finish call that hangs holds up no other, and is made again")
    func finishHangs() async {
        let door = Door()
        let rig = KitRig { $0.doors[.finish] = door }
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await eventually("the call") { rig.device.count(.finish) == 1 }
        rig.device.edit { $0.doors = [:] }
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await eventually("the other") { rig.device.state.finished == ["2"] }
        await eventually("its time limit") { rig.clock.alarms.contains(.seconds(30)) }
        rig.clock.advance(.seconds(30))
        await eventually("a retry") { rig.clock.alarms.contains(.seconds(1)) }
        rig.clock.advance(.seconds(1))
        await eventually("finished") { rig.device.state.finished == ["2", "1"] }
        await door.open()
    }
}
