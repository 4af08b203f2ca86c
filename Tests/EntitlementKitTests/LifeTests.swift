import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit: EntitlementStore from launch to finish", .timeLimit(.minutes(1)))
struct LifeTests {
    @Test("a purchase is granted at once, sent, and finished when the server lists it")
    func purchase() async throws {
        let rig = KitRig { $0.purchase = .success(.success(Statements.transaction("1"))) }
        let door = Door()
        rig.server.edit { $0.door = door }
        let purchase = try #require(await rig.store.purchase("monthly").purchase)
        #expect(purchase.entitlements.givesAccess(to: "premium"))
        #expect(await rig.storage.files["statements.jsonl"] != nil)
        #expect(rig.device.state.finished.isEmpty)
        await door.open()
        await eventually("finished") { rig.device.state.finished == ["1"] }
        // Once the store was read as well, which nobody waited for.
        await eventually("live") { await rig.store.current.isLive }
    }

    @Test("however often it is started, updates are listened to once")
    func startsOnce() async {
        let rig = KitRig()
        await withTaskGroup { group in for _ in 0..<20 { group.addTask { await rig.store.start() } } }
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.device.state.subscriptionsToUpdates == 1)
    }

    @Test("an update that comes while the store is read at launch is not lost, and does not wait for the read")
    func noGap() async {
        let door = Door()
        let rig = KitRig { $0.doors[.currentEntitlements] = door }
        await rig.store.start()
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        await door.open()
        await rig.store.settled()
        #expect(await rig.gives())
    }

    @Test("one slow post keeps neither the next update nor the next post waiting")
    func slowPost() async {
        let rig = KitRig()
        await rig.launch()
        let door = Door()
        rig.server.edit {
            $0.door = door
            $0.doorFor = ["1"]
        }
        rig.device.push(Statements.transaction("1"))
        await eventually("the slow post") { await door.visitors == 1 }
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await rig.waitUntilGives(true, "forever")
        await eventually("the other is finished") { rig.device.state.finished == ["2"] }
        await door.open()
        await eventually("both are finished") { Set(rig.device.state.finished) == ["1", "2"] }
    }

    @Test("an empty read of the store takes no access away, also after a restart without network")
    func emptyRead() async {
        var rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        #expect(await rig.gives())
        rig.device.edit { $0.current = [] }
        _ = await rig.store.refresh()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        await rig.launch()
        let state = await rig.store.current
        #expect(state.givesAccess(to: "premium"))
        #expect(state.kind == .offline(asOf: Statements.date(1), reason: .unreachable))
    }

    @Test("nothing is finished on an answer computed offline, and once the server lists it, it is finished once")
    func finishAfterGrant() async {
        var rig = KitRig {
            $0.unfinished = [Statements.transaction("1")]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        #expect(await rig.gives())
        #expect(rig.device.state.finished.isEmpty)
        rig = await rig.relaunched()
        rig.server.edit { $0.mood = .answers }
        await rig.launch()
        rig.device.push(Statements.transaction("1"), isUnfinished: false)
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.device.state.finished == ["1"])
    }

    @Test("what the server does not list stays unfinished, and is asked about again when the app comes back")
    func notListed() async {
        let rig = KitRig {
            $0.unfinished = [Statements.transaction("1")]
        } server: {
            $0.listsToFinish = false
        }
        await rig.launch()
        let posts = rig.server.posts.count
        #expect(posts >= 1)
        #expect(rig.device.state.finished.isEmpty)
        rig.server.edit { $0.listsToFinish = true }
        await rig.store.applicationWillEnterForeground()
        await rig.store.settled()
        #expect(rig.device.state.finished == ["1"])
        #expect(rig.server.posts.count == posts + 1)
    }

    @Test("with a full disk it is granted and sent, and not finished until it is on disk")
    func fullDisk() async {
        let rig = KitRig()
        await rig.storage.setFull(true)
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        await rig.store.settled()
        #expect(rig.device.state.finished.isEmpty)
        await rig.storage.setFull(false)
        await rig.store.applicationWillEnterForeground()
        rig.device.push(Statements.transaction("2", original: "1", from: 20, until: 50, renewal: true))
        await eventually("finished") { Set(rig.device.state.finished) == ["1", "2"] }
    }

    @Test("what is not verified neither grants, nor is sent, nor is finished")
    func unverified() async {
        let bad = Statements.transaction("1", unverified: "the signature does not match")
        let other = Statements.transaction("2", bundleID: "com.example.other")
        let rig = KitRig {
            $0.current = [bad, other]
            $0.unfinished = [bad, other]
            $0.purchase = .success(.success(bad))
        }
        await rig.launch()
        rig.device.push(bad)
        #expect(
            await rig.store.purchase("monthly")
                == .failed(
                    PurchaseError(.verificationFailed, of: "monthly", detail: "the signature does not match")))
        await rig.store.settled()
        #expect(await rig.store.current.all.isEmpty)
        #expect(rig.server.posts.isEmpty)
        #expect(rig.device.state.finished.isEmpty)
    }

    @Test("a pending purchase becomes an entitlement when it is approved, without anybody asking")
    func pending() async {
        let rig = KitRig { $0.purchase = .success(.pending) }
        #expect(await rig.store.purchase("monthly") == .pending)
        #expect(!(await rig.gives()))
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
    }

    @Test("a crash after the disk and before the post loses nothing")
    func crash() async {
        var rig = KitRig()
        let door = Door()
        rig.server.edit { $0.door = door }
        await rig.store.start()
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        // The next process has a store that shows nothing, and a server that was never told.
        rig.server.edit { $0.door = nil }
        rig = await rig.relaunched(device: ScriptedStore())
        await door.open()
        await rig.launch()
        #expect(rig.server.posts.contains(["1"]))
        #expect(rig.server.state.states["1"] != nil)
        #expect(await rig.gives())
    }

    @Test("a refund ends access from its date, before the expiry is looked at")
    func revocation() async {
        let rig = KitRig(day: 10) { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        #expect(await rig.gives())
        rig.device.push(Statements.transaction("1", revoked: 9, signed: 10))
        await rig.waitUntilGives(false)
        #expect(await rig.store.current["premium"]?.state == .revoked)
        rig.device.push(Statements.transaction("1", signed: 8))
        await rig.store.settled()
        #expect(await rig.store.current["premium"]?.state == .revoked)
    }

    @Test("without sync it is finished once on disk and published, and nothing leaves the device")
    func syncOff() async {
        let rig = KitRig(sync: false) { $0.unfinished = [Statements.transaction("1")] }
        await rig.launch()
        #expect(await rig.gives())
        #expect(rig.device.state.finished == ["1"])
        #expect(rig.server.received.isEmpty)
        #expect(await rig.store.current.kind == .offline(asOf: nil, reason: .syncOff))
    }

    @Test(
        "every outcome of a purchase has a name",
        arguments: [
            (StorePurchaseResult.userCancelled, PurchaseOutcome.userCancelled), (.pending, .pending),
            (
                .unknown,
                .failed(PurchaseError(.unknown, of: "monthly", detail: "the store's answer is newer than this app"))
            ),
        ])
    func outcomes(_ result: StorePurchaseResult, _ outcome: PurchaseOutcome) async {
        let rig = KitRig { $0.purchase = .success(result) }
        #expect(await rig.store.purchase("monthly") == outcome)
        #expect(outcome.purchase == nil)
    }
}

@Suite("Kit: EntitlementStore after its end", .timeLimit(.minutes(1)))
struct EndTests {
    @Test("whoever asks a store that has ended gets its last state, and nobody waits for ever")
    func stopped() async {
        let door = Door()
        let rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.door = door
        }
        await rig.store.start()
        await rig.waitUntilGives()
        async let waiting = rig.store.refresh()
        await eventually("a request") { await door.visitors > 0 }
        await rig.store.stop()
        #expect(await waiting.givesAccess(to: "premium"))
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
        for await _ in rig.store.states {}
        await door.open()
    }
}
