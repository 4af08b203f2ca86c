import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a launch before the device was first unlocked", .timeLimit(.minutes(1)))
struct LockedDeviceTests {
    @Test("while it cannot be read who is here nothing is posted in another's name, and nothing is shown")
    func locked() async {
        var rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        rig.server.edit { $0.numbers["c-1"] = 77 }
        await rig.store.identify(customerID: "c-1", token: "t")
        await rig.store.settled()
        await rig.storage.setLocked(true)
        let before = rig.server.received.count
        rig = await rig.relaunched(
            device: ScriptedStore {
                // A store that lists nothing would be looked at again, and the disk with it.
                $0.current = [Statements.transaction("2", product: "lifetime", until: nil)]
                $0.unfinished = $0.current
            })
        await rig.launch()
        rig.clock.advance(.seconds(5))
        await rig.store.settled()
        #expect(await rig.store.current.kind == .loading)
        #expect(rig.server.received.count == before)
        #expect(rig.device.state.finished.isEmpty)
        await rig.storage.setLocked(false)
        await eventually("another attempt") { rig.clock.alarms.contains(.seconds(10)) }
        rig.clock.advance(.seconds(10))
        await rig.waitUntilGives(true, "forever")
        await eventually("posted") { rig.server.received.count > before }
        #expect(rig.server.received.dropFirst(before).allSatisfy { $0.customerID == "c-1" })
        #expect(await rig.store.current.customerID == "c-1")
    }

    @Test("who logs in while the disk cannot be read is known")
    func identified() async {
        var rig = KitRig()
        await rig.launch()
        await rig.storage.setLocked(true)
        rig = await rig.relaunched(
            device: ScriptedStore { $0.unfinished = [Statements.transaction("1", app: nil)] })
        await rig.launch()
        #expect(await rig.store.current.kind == .loading)
        await rig.store.identify(customerID: "c-1", token: "t")
        await rig.waitUntilGives()
        #expect(await rig.store.current.customerID == "c-1")
        await rig.store.settled()
        #expect(rig.device.state.finished.isEmpty)
    }

    @Test(
        "who logs in again while the disk cannot be read keeps what their purchases are signed with",
        arguments: [true, false])
    func accountTokens(_ logsInAgain: Bool) async throws {
        let token = UUID()
        var rig = KitRig()
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        await rig.store.identify(customerID: "ann", appAccountToken: token)
        rig.device.push(Statements.transaction("1", token: token, app: "B"))
        await rig.waitUntilGives()
        await rig.store.settled()
        await rig.storage.setLocked(true)
        rig = await rig.relaunched(
            device: ScriptedStore { $0.current = [Statements.transaction("1", token: token, app: "B")] })
        await rig.launch()
        if logsInAgain { await rig.store.identify(customerID: "ann") } else { await rig.store.signOut() }
        await rig.storage.setLocked(false)
        await rig.store.deviceWasUnlocked()
        await rig.store.settled()
        #expect(await rig.store.ledger.identified == (logsInAgain ? "ann" : nil))
        await rig.store.identify(customerID: "ann")
        #expect(await rig.store.ledger.accountToken == token)
        await rig.waitUntilGives()
    }

    @Test("what the app says meanwhile of what their purchases are signed with counts more than what was kept")
    func newerAccountToken() async {
        let (older, newer) = (UUID(), UUID())
        var rig = KitRig()
        await rig.launch()
        await rig.store.identify(customerID: "ann", appAccountToken: older)
        await rig.store.settled()
        await rig.storage.setLocked(true)
        rig = await rig.relaunched()
        await rig.launch()
        await rig.store.identify(customerID: "ann", appAccountToken: newer)
        await rig.storage.setLocked(false)
        await rig.store.deviceWasUnlocked()
        await rig.store.settled()
        #expect(await rig.store.ledger.accountToken == newer)
        #expect(await Set(rig.store.ledger.accountTokens) == [older, newer])
    }

    @Test("what came before the first unlock is on disk, told and finished after it", arguments: [true, false])
    func afterUnlock(_ sync: Bool) async {
        let rig = KitRig(sync: sync, configuration: { $0.acknowledgedKinds = [.consumable] })
        await rig.storage.setLocked(true)
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        rig.device.push(Statements.transaction("2", product: "coins", until: nil, type: "Consumable"))
        await eventually("known") { await rig.store.ledger.book.transactions.count == 2 }
        #expect(await !rig.store.persist())
        await rig.storage.setLocked(false)
        await rig.store.deviceWasUnlocked()
        await eventually("finished") { rig.device.state.finished == ["1"] }
        #expect(await rig.storage.files["statements.jsonl"] != nil)
        var told = rig.store.unacknowledgedPurchases.makeAsyncIterator()
        #expect(await told.next()?.transactionID == "2")
    }

    @Test("what was acknowledged before a launch that cannot read that is told no more, and is finished")
    func acknowledgedBefore() async {
        var rig = KitRig {
            $0.unfinished = [Statements.transaction("7", product: "coins", until: nil, type: "Consumable")]
        } server: {
            $0.mood = .unreachable
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.launch()
        #expect(await rig.acknowledge("7"))
        await rig.store.settled()
        await rig.storage.setLocked(true)
        rig = await rig.relaunched()
        let stream = rig.store.unacknowledgedPurchases
        await rig.launch()
        #expect(await rig.store.gate.unacknowledged == ["7"])
        await rig.storage.setLocked(false)
        await rig.store.deviceWasUnlocked()
        rig.server.edit { $0.mood = .answers }
        await rig.store.refresh()
        await eventually("finished") { rig.device.state.finished == ["7"] }
        await rig.store.stop()
        for await purchase in stream { Issue.record("told again: \(purchase.transactionID)") }
    }
}
