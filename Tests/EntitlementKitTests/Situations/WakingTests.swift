import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: what rests, and what wakes it", .timeLimit(.minutes(1)))
struct WakingTests {
    /// Lets every attempt fail until everything rests.
    private func exhaust(_ rig: KitRig) async {
        for delay in [1, 5, 30, 300] {
            await eventually("a retry in \(delay) s") { rig.clock.alarms.contains(.seconds(delay)) }
            rig.clock.advance(.seconds(delay))
        }
        await rig.store.settled()
    }

    @Test("items that rest because the server could not be reached are sent once it answers anything")
    func wokenByAnAnswer() async {
        let rig = KitRig()
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        await exhaust(rig)
        await eventually("five attempts") { rig.server.posts.filter { $0 == ["1"] }.count == 5 }
        await rig.store.settled()
        rig.server.edit { $0.mood = .answers }
        // Something else is bought, and nobody told the Kit that the network is back.
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await eventually("both are finished") { Set(rig.device.state.finished) == ["1", "2"] }
    }

    @Test("what the server refuses by itself is not tried again by its own answer")
    func notWokenByItself() async {
        let rig = KitRig(server: { $0.refused = ["1"] })
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        await exhaust(rig)
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await eventually("the other is finished") { rig.device.state.finished == ["2"] }
        await rig.store.settled()
        #expect(rig.server.posts.filter { $0 == ["1"] }.count == 5)
    }

    @Test("an app that is activated many times in a row reads the store twice: at once, and after the last time")
    func activations() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        let (reads, asked) = (rig.device.count(.currentEntitlements), rig.server.received.count)
        for _ in 0..<50 {
            await rig.store.applicationWillEnterForeground()
            rig.clock.advance(.milliseconds(100))
        }
        await rig.store.settled()
        #expect(rig.device.count(.currentEntitlements) == reads + 1)
        #expect(rig.server.received.count == asked + 1)
        rig.clock.advance(.seconds(5))
        await eventually("the last one") { rig.device.count(.currentEntitlements) == reads + 2 }
        rig.clock.advance(.seconds(60))
        await rig.store.settled()
        #expect(rig.device.count(.currentEntitlements) == reads + 2)
    }

    @Test("a network that comes and goes is looked at twice: at once, and after its last return")
    func flapping() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        let (reads, asked) = (rig.device.count(.currentEntitlements), rig.server.received.count)
        for _ in 0..<50 {
            await rig.store.networkWasLost()
            await rig.store.networkDidReturn()
            rig.clock.advance(.milliseconds(100))
        }
        await rig.store.settled()
        #expect(rig.device.count(.currentEntitlements) == reads + 1)
        rig.clock.advance(.seconds(5))
        await eventually("the last one") { rig.device.count(.currentEntitlements) == reads + 2 }
        await eventually("asked as often") { rig.server.received.count == asked + 2 }
        await eventually("live") { await rig.store.current.isLive }
    }

    @Test("when the network returns the store is read, too, with a server and without", arguments: [true, false])
    func networkReturns(_ sync: Bool) async {
        let rig = KitRig(day: 29, sync: sync) {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        rig.device.edit { $0.current = [] }
        rig.clock.advance(days: 2)
        await rig.store.refresh()
        #expect(await !rig.gives())
        rig.device.edit {
            $0.current = [Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true)]
        }
        await rig.store.networkDidReturn()
        #expect(await rig.gives())
    }

    @Test("a refresh whose task is cancelled returns at once, and what it has begun goes on")
    func cancelledRefresh() async {
        let door = Door()
        let rig = KitRig()
        await rig.launch()
        rig.server.edit { $0.door = door }
        rig.device.edit { $0.current = [Statements.transaction("1")] }
        let refresh = Task { [store = rig.store] in await store.refresh() }
        await eventually("the server is asked") { await door.visitors > 0 }
        refresh.cancel()
        #expect(await refresh.value.givesAccess(to: "premium"))
        await door.open()
        await eventually("the answer came") { await rig.store.ledger.memory?.answer.timelines.isEmpty == false }
        await eventually("nobody waits") { await rig.store.waits.isEmpty }
    }

    @Test("a store that is stopped lets everybody go, and is let go of by whoever held it")
    func stopped() async {
        weak var left: EntitlementStore?
        do {
            let catalog = [EntitlementConfiguration.Mapping(productID: "m", entitlements: ["premium"])]
            let store = EntitlementStore.preview(catalog: catalog, owned: ["m"])
            left = store
            #expect(await store.refresh().givesAccess(to: "premium"))
            await store.settled()
            let listening = Task { for await _ in store.states {} }
            await eventually("somebody listens") { await store.stateListeners.count == 1 }
            await store.stop()
            await listening.value
            #expect(await store.refresh().givesAccess(to: "premium"))
            #expect(await store.purchase("m").purchase == nil)
        }
        await eventually("it is gone") { left == nil }
    }
}
