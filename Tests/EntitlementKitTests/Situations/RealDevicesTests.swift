import EntitlementAPI
import EntitlementCore
import Foundation
import Synchronization
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: what real devices do", .timeLimit(.minutes(1)))
struct RealDevicesTests {
    @Test("a family share that is taken back while the device is offline ends at once, and what is one's own stays")
    func familyRevoked() async {
        let shared: [String: Any] = ["inAppOwnershipType": "FAMILY_SHARED"]
        let own = Statements.transaction("2", product: "lifetime", until: nil)
        var rig = KitRig {
            $0.current = [Statements.transaction("1", offer: shared), own]
        }
        await rig.launch()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 1)
        let revoked = Statements.transaction("1", revoked: 2, signed: 2, offer: shared)
        rig.device.edit { $0.current = [own] }
        rig.device.push(
            SubscriptionStatement(transaction: revoked, renewal: Statements.renewal(original: "1", signed: 2)))
        await rig.waitUntilGives(false)
        #expect(await rig.gives("forever"))
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await !rig.gives())
    }

    @Test("who upgrades while the old plan is in grace is told of the new plan, and of no billing problem")
    func upgradeInGrace() async {
        let monthly = Statements.transaction("1", until: 10)
        let rig = KitRig(day: 11) {
            $0.current = [monthly]
            $0.subscriptions = [
                SubscriptionStatement(
                    transaction: monthly,
                    renewal: Statements.renewal(original: "1", signed: 10, retry: true, graceUntil: 26))
            ]
        } server: {
            $0.catalog = Catalog(
                products: ["monthly", "yearly"].map { CatalogProduct(productID: $0, entitlements: ["premium"]) })
        }
        await rig.launch()
        #expect(await rig.store.current["premium"]?.state == .inGracePeriod)
        rig.server.edit { $0.mood = .unreachable }
        let yearly = Statements.transaction("3", original: "1", product: "yearly", from: 11, until: 376)
        rig.device.push(
            SubscriptionStatement(
                transaction: yearly, renewal: Statements.renewal(original: "1", signed: 11, product: "yearly")))
        await eventually("the new plan") { await rig.store.current["premium"]?.productID == "yearly" }
        let held = await rig.store.current["premium"]
        #expect(held?.state == .active && held?.gracePeriodEndDate == nil && held?.until == Statements.date(376))
        rig.clock.advance(days: 3)
        #expect(await rig.store.current["premium"]?.state == .active)
    }

    @Test("an update of the app that sells a new product gives it, although the server's last catalog does not know it")
    func newProduct() async throws {
        var rig = KitRig { $0.current = [Statements.transaction("1", until: 300)] }
        await rig.launch()
        await rig.store.settled()
        rig.server.edit { $0.mood = .unreachable }
        await rig.store.stop()
        rig = rig.updated { $0.bundledCatalog.append(.init(productID: "season", entitlements: ["season"])) }
        await rig.launch()
        rig.device.push(Statements.transaction("4", product: "season", until: 200))
        await rig.waitUntilGives(true, "season")
        // Whoever serves it has left it out: its word counts, once it has spoken of the purchase.
        rig.server.edit { $0.mood = .answers }
        await rig.store.refresh()
        await rig.waitUntilGives(false, "season")
        #expect(await rig.gives())
    }

    @Test(
        "files that came from another person's device make nobody of them, and show what is theirs until server and store were asked, or for the bound at most",
        arguments: [true, false])
    func othersBackup(_ storeShowsSomething: Bool) async {
        var rig = KitRig {
            $0.appTransaction = Statements.appTransaction("A", signed: 0.9)
            $0.current = [Statements.transaction("1", until: 300)]
        }
        await rig.launch()
        await rig.store.settled()
        let own = Statements.transaction("7", product: "lifetime", until: nil, app: "B")
        // Restored onto a device of somebody who has had the app for longer.
        let theirs = ScriptedStore {
            $0.appTransaction = Statements.appTransaction("B", signed: 0.5)
            $0.current = storeShowsSomething ? [own] : []
            $0.all = [own]
        }
        let before = rig.server.received.count
        rig = await rig.relaunched(device: theirs)
        await rig.launch()
        await eventually("the store's word") { await rig.store.current.customerID == "apple:B" }
        await rig.waitUntilGives(true, "forever")
        await rig.store.settled()
        for received in rig.server.received.dropFirst(before + 1) where received.request.signedTransactions.isEmpty {
            #expect(received.customerID == "apple:B")
        }
        await rig.store.refresh()
        #expect(await rig.gives() == !storeShowsSomething)
        if !storeShowsSomething { rig.clock.advance(days: 8) }
        await rig.store.refresh()
        await rig.store.settled()
        #expect(await rig.store.current.all.map(\.id) == ["forever"])
        #expect(await rig.gives("forever"))
        let reader = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        #expect(await reader.current().all.map(\.id) == ["forever"])
    }

    @Test("a store that signs everything anew at each call costs no write at each")
    func resigned() async {
        let rig = KitRig {
            $0.all = (1...100).map { Statements.transaction("\($0)", product: "lifetime", until: nil, signed: 1) }
        }
        await rig.launch()
        await rig.store.settled()
        let size = await rig.storage.files["statements.jsonl"]?.count ?? 0
        let (posts, replaced) = (rig.server.posts.count, await rig.storage.replacements["statements.jsonl"])
        for look in 1...5 {
            rig.device.edit { script in
                script.all = (1...100).map {
                    Statements.transaction(
                        "\($0)", product: "lifetime", until: nil, signed: 1 + Double(look) * 0.001)
                }
            }
            rig.clock.advance(.seconds(90))
            await rig.store.refresh()
            await rig.store.settled()
        }
        let grown = (await rig.storage.files["statements.jsonl"]?.count ?? 0) - size
        #expect(grown < size / 20, "\(grown) bytes beside \(size)")
        #expect(await rig.storage.replacements["statements.jsonl"] == replaced)
        #expect(rig.server.posts.count == posts)
    }

    @Test("many unfinished transactions are all granted, sent in few requests, and finished, each once")
    func manyUnfinished() async {
        let rig = KitRig {
            $0.unfinished = (1...250).map {
                Statements.transaction("\(10_000 + $0)", product: "lifetime", until: nil)
            }
        }
        await rig.launch()
        await eventually("all finished") { rig.device.state.finished.count >= 250 }
        #expect(Set(rig.device.state.finished).count == 250)
        #expect(rig.server.posts.count <= 4)
    }

    @Test("thousands are looked up in two passes over what the store shows, and a pass that hangs bars none for good")
    func lookup() async {
        let first = Door()
        let passes = Mutex(0)
        let lookup = UnfinishedLookup<String>(patience: .seconds(60)) { ids in
            let number = passes.withLock { passes in
                passes += 1
                return passes
            }
            if number == 1 { await first.pass() }
            return Dictionary(uniqueKeysWithValues: ids.filter { $0 != "gone" }.map { ($0, "object of " + $0) })
        }
        async let one = lookup.find("0")
        await eventually("the first pass") { await first.visitors == 1 }
        let found = await withTaskGroup(of: String?.self) { group in
            for number in 1...2000 { group.addTask { await lookup.find("\(number)") } }
            group.addTask { await lookup.find("gone") }
            await eventually("all wait") { await lookup.waiting.values.map(\.count).reduce(0, +) == 2001 }
            await first.open()
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(await one == "object of 0" && found.compactMap(\.self).count == 2000)
        #expect(passes.withLock { $0 } == 2)
    }

    @Test("a pass over what is unfinished that hangs is not waited for for ever")
    func hangingLookup() async {
        let door = Door()
        let passes = Mutex(0)
        let lookup = UnfinishedLookup<Int>(patience: .zero) { ids in
            let number = passes.withLock { passes in
                passes += 1
                return passes
            }
            if number == 1 { await door.pass() }
            return Dictionary(uniqueKeysWithValues: ids.map { ($0, number) })
        }
        async let hanging = lookup.find("1")
        await eventually("the first pass") { await door.visitors == 1 }
        #expect(await lookup.find("2") == 2)
        await door.open()
        #expect(await hanging == 1)
    }

    @Test("a device that believes it is 1970 works, with a server and without, and goes on when its clock is put right")
    func firstLaunchIn1970() async {
        for isAway in [true, false] {
            let rig = KitRig {
                $0.current = [Statements.transaction("1", until: 30, signed: 1)]
            } server: {
                if isAway { $0.mood = .unreachable }
            }
            rig.clock.set(day: -20_454)
            await rig.launch()
            #expect(await rig.gives())
            rig.clock.set(day: 1)
            await rig.store.applicationWillEnterForeground()
            await rig.store.settled()
            #expect(await rig.gives())
            rig.clock.advance(days: 3)
            #expect(await rig.gives())
            rig.server.edit { $0.mood = .answers }
            await rig.store.refresh()
            #expect(await rig.gives())
            #expect(await rig.store.current.isLive)
            rig.device.edit { $0.current = [] }
            await rig.store.refresh()
            rig.clock.advance(days: 28)
            await rig.waitUntilGives(false)
        }
    }

    @Test("a purchase with an account token that was replaced since goes on counting on the device that made it")
    func replacedAccountToken() async {
        let (first, second) = (UUID(), UUID())
        var rig = KitRig(server: { $0.mood = .unreachable })
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t", appAccountToken: first)
        rig.device.edit { $0.purchase = .success(.success(Statements.transaction("1", until: 300, token: first))) }
        _ = await rig.store.purchase("monthly")
        #expect(await rig.gives())
        await rig.store.identify(customerID: "ann", token: "t", appAccountToken: second)
        #expect(await rig.gives())
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.gives())
        // Somebody else who logs in here has not bought it.
        await rig.store.identify(customerID: "bob", token: "t", appAccountToken: UUID())
        #expect(await !rig.gives())
        await rig.store.identify(customerID: "ann", token: "t", appAccountToken: second)
        #expect(await rig.gives())
    }
}
