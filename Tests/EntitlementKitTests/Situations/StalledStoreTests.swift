import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a store that hangs", .timeLimit(.minutes(1)))
struct StalledStoreTests {
    private static let reads: [ScriptedStore.Call] = [
        .currentEntitlements, .allTransactions, .subscriptionStatuses, .unfinishedTransactions,
    ]

    @Test(
        "a store that answers nothing keeps refresh from waiting for ever, and the server from being asked not at all")
    func everythingHangs() async {
        let door = Door()
        var rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        rig = await rig.relaunched(
            device: ScriptedStore { script in
                for call in Self.reads { script.doors[call] = door }
            })
        let asked = rig.server.received.count
        await rig.store.start()
        await eventually("the server's answer") { await rig.store.connection != .notYetAsked }
        #expect(await rig.store.current.kind == .loading)
        #expect(await rig.gives())
        await eventually("the first patience") { rig.clock.alarms.contains(.seconds(2)) }
        rig.clock.advance(.seconds(2))
        await eventually("live") { await rig.store.current.isLive }
        #expect(rig.server.received.count == asked + 1)
        let refresh = Task { [store = rig.store] in await store.refresh() }
        await eventually("its patience") { rig.clock.alarms.contains(.milliseconds(900)) }
        rig.clock.advance(.milliseconds(900))
        await eventually("asked again") { rig.server.received.count > asked + 1 }
        #expect(await whileTimePasses(on: rig.clock) { await refresh.value }.givesAccess(to: "premium"))
        await door.open()
    }

    @Test("one call that hangs keeps nothing back that the others say, and counts when it comes", arguments: reads)
    func oneHangs(_ call: ScriptedStore.Call) async {
        let door = Door()
        let (hung, other) = (Statements.transaction("1"), Statements.transaction("2", product: "lifetime", until: nil))
        let rig = KitRig { script in
            script.doors[call] = door
            let answer = call == .currentEntitlements ? hung : other
            script.current = [answer]
            script.all = [call == .allTransactions ? hung : other]
            script.unfinished = [call == .unfinishedTransactions ? hung : other]
            script.subscriptions =
                call == .subscriptionStatuses
                ? [.init(transaction: hung, renewal: Statements.renewal(original: "1", signed: 0))] : []
        }
        await rig.store.start()
        await rig.waitUntilGives(true, "forever")
        // What it lists at last may be what gives access, so no door is closed for two seconds.
        #expect(await rig.store.current.access(to: "premium") == .loading)
        await eventually("patience") { rig.clock.alarms.contains(.seconds(2)) }
        rig.clock.advance(.seconds(2))
        await eventually("live") { await rig.store.current.isLive }
        #expect(!(await rig.gives()))
        await door.open()
        await rig.waitUntilGives()
    }

    @Test("a new customer sees after two seconds that there is nothing, whatever the store does")
    func newCustomer() async {
        let door = Door()
        let rig = KitRig { script in
            for call in Self.reads + [.appTransaction] { script.doors[call] = door }
        }
        await rig.store.start()
        await eventually("patience") { rig.clock.alarms.contains(.seconds(2)) }
        #expect(await rig.store.current.kind == .loading)
        rig.clock.advance(.seconds(2))
        await eventually("an answer") { await rig.store.current.kind == .offline(asOf: nil, reason: .notYetAsked) }
        await door.open()
        await eventually("live") { await rig.store.current.isLive }
    }

    @Test("the app's own purchase is asked for once in the life of the process, since it may ask the person to sign in")
    func appTransactionOnce() async {
        let rig = KitRig()
        await rig.launch()
        for _ in 0..<3 {
            _ = await rig.store.refresh()
            await rig.store.networkDidReturn()
            await rig.store.applicationWillEnterForeground()
            rig.clock.advance(.seconds(3600))
        }
        #expect(rig.device.count(.appTransaction) == 1)
        _ = await rig.store.restoreEntitlements()
        await eventually("asked again") { rig.device.count(.appTransaction) == 2 }
    }

    @Test("the app's own purchase that did not come is asked for again where nobody is known without it")
    func appTransactionFails() async {
        let rig = KitRig { $0.appTransaction = nil }
        await rig.launch()
        #expect(rig.device.count(.appTransaction) == 1)
        rig.device.edit { $0.appTransaction = Statements.appTransaction() }
        await rig.store.networkDidReturn()
        #expect(rig.device.count(.appTransaction) == 1)
        rig.clock.advance(.seconds(60))
        await rig.store.networkDidReturn()
        await eventually("live") { await rig.store.current.isLive }
    }

    @Test(
        "nor is it given up where a purchase or a login says who is here, since it proves that, and links the two",
        arguments: [false, true])
    func appTransactionFailsBesides(_ isLoggedIn: Bool) async {
        let rig = KitRig {
            $0.appTransaction = nil
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.provesByAppTransaction = true
        }
        await rig.launch()
        if isLoggedIn { await rig.store.identify(customerID: "ann", token: "t") }
        // What fails only after the minute is asked for again only after another.
        await rig.store.settled()
        rig.device.edit { $0.appTransaction = Statements.appTransaction() }
        rig.clock.advance(.seconds(60))
        await rig.store.networkDidReturn()
        await eventually("live") { await rig.store.current.isLive }
        await eventually("told") { rig.server.received.last?.request.appTransaction != nil }
    }

    @Test("a purchase told before the app's own purchase is there is proven as soon as it is")
    func appTransactionAfterPurchase() async {
        let door = Door()
        let rig = KitRig {
            $0.doors[.appTransaction] = door
            $0.purchase = .success(.success(Statements.transaction("1")))
        } server: {
            $0.provesByAppTransaction = true
        }
        _ = await rig.store.purchase("monthly")
        await eventually("an answer") { await rig.store.ledger.memory != nil }
        await eventually("patience") { rig.clock.alarms.contains(.seconds(2)) }
        rig.clock.advance(.seconds(2))
        await eventually("unproven") {
            await rig.store.current.kind == .offline(asOf: Statements.date(1), reason: .unproven)
        }
        await door.open()
        await eventually("proven") { await rig.store.current.isLive }
        await eventually("finished") { rig.device.state.finished == ["1"] }
    }

    @Test("an unproven answer that comes after a proven one takes nothing back")
    func unprovenAnswerComesLate() async {
        let (app, late) = (Door(), Door())
        let rig = KitRig {
            $0.doors[.appTransaction] = app
            $0.purchase = .success(.success(Statements.transaction("1")))
        } server: {
            $0.provesByAppTransaction = true
            $0.door = late
        }
        _ = await rig.store.purchase("monthly")
        await eventually("the request without proof") { await late.visitors > 0 }
        rig.server.edit { $0.door = nil }
        await app.open()
        await eventually("proven") { await rig.store.current.isLive }
        await eventually("finished") { rig.device.state.finished == ["1"] }
        await late.open()
        await rig.store.settled()
        #expect(await rig.store.current.isLive)
    }

    @Test("a server that never answers keeps nobody waiting")
    func serverHangs() async {
        let door = Door()
        let rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.door = door
        }
        await rig.store.start()
        await rig.waitUntilGives()
        let refresh = Task { [store = rig.store] in await store.refresh() }
        let state = await whileTimePasses(on: rig.clock) { await refresh.value }
        #expect(state.kind == .offline(asOf: nil, reason: .unreachable))
        await door.open()
    }

    @Test("a store that never tells its products keeps neither a list nor a failed purchase waiting for ever")
    func productsHang() async {
        struct Odd: Error {}
        let door = Door()
        let rig = KitRig {
            $0.purchase = .failure(Odd())
            $0.doors[.products] = door
        }
        await rig.launch()
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly") }
        #expect(outcome == .failed(PurchaseError(.unknown, of: "monthly")))
        let products = await whileTimePasses(on: rig.clock) { await rig.store.products() }
        #expect(products.map(\.storeKitAvailable) == [false, false])
        #expect(products.map(\.isStoreKnown) == [false, false])
        await door.open()
    }

    @Test("while the store does not say whether it is a change of plan, nothing is sold that may be paid for twice")
    func planUnknown() async {
        let rig = KitRig {
            $0.doors[.products] = Door()
            $0.current = [
                Statements.transaction("1", product: "weekly", offer: ["subscriptionGroupIdentifier": "pro"])
            ]
        } server: {
            $0.catalog = Catalog(
                products: ["monthly", "weekly"].map { CatalogProduct(productID: $0, entitlements: ["premium"]) })
        }
        await rig.launch()
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly") }
        guard case .failed(let error) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(error.reason == PurchaseError.Reason.network && rig.device.state.purchases.isEmpty)
    }

    @Test("whoever waits for an answer is not kept until the end of a patience that the server asks for meanwhile")
    func quietMeanwhile() async {
        let door = Door()
        let rig = KitRig()
        await rig.launch()
        rig.server.edit { script in
            script.door = door
            script.mood = .status(429, retryAfter: 3600)
        }
        // Four requests are under way, so the question waits for its place.
        for number in 1...SyncQueue.flightLimit {
            rig.device.push(Statements.transaction("\(number)", product: "lifetime", until: nil))
            await eventually("request \(number)") { await door.visitors == number }
        }
        let refresh = Task { [store = rig.store] in await store.refresh() }
        await eventually("it is asked for") { await !rig.store.askers.isEmpty }
        await door.open()
        _ = await refresh.value
    }
}
