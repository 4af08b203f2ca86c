import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a store that hands over an earlier purchase instead of selling", .timeLimit(.minutes(1)))
struct HandedOverTests {
    private static let coins = Statements.transaction("7", product: "coins", until: nil, type: "Consumable")

    private func failed(_ outcome: PurchaseOutcome, _ reason: PurchaseError.Reason) -> Bool {
        if case .failed(let error) = outcome { error.reason == reason } else { false }
    }

    @Test("a period that is over and was not finished is no success, and the server is asked so that it can be")
    func periodThatIsOver() async {
        let rig = KitRig(day: 0.1) { $0.purchase = .success(.success(Statements.transaction("1"))) }
        await rig.launch()
        rig.server.edit { $0.mood = .problem(503) }
        #expect(await rig.store.purchase("monthly").purchase != nil)
        rig.clock.advance(days: 32)
        await rig.store.refresh()
        #expect(await !rig.gives())
        rig.server.edit { $0.mood = .answers }
        #expect(failed(await rig.store.purchase("monthly"), .notSoldAgain))
        await eventually("it is finished") { rig.device.state.finished == ["1"] }
        rig.device.edit { $0.purchase = .success(.success(Statements.transaction("2", from: 32.1, until: 62))) }
        #expect(await rig.store.purchase("monthly").purchase?.entitlements.givesAccess(to: "premium") == true)
    }

    @Test("a consumable that was granted already is not sold again")
    func grantedBefore() async {
        let rig = KitRig(day: 0.1) {
            $0.purchase = .success(.success(Self.coins))
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.launch()
        rig.server.edit { $0.mood = .problem(503) }
        #expect(await rig.store.purchase("coins").purchase != nil)
        // Nothing was sold, but it is yet to be granted.
        rig.clock.advance(days: 1)
        #expect(await rig.store.purchase("coins").purchase?.transactionID == "7")
        #expect(await rig.acknowledge("7"))
        #expect(failed(await rig.store.purchase("coins"), .notSoldAgain))
    }

    @Test("what another customer has bought with the Apple account is no success", arguments: [true, false])
    func ofAnotherCustomer(_ isConsumable: Bool) async {
        let (ann, bob) = (UUID(), UUID())
        let product = isConsumable ? "coins" : "lifetime"
        let owned = Statements.transaction(
            "1", product: product, until: nil, token: ann, type: isConsumable ? "Consumable" : nil)
        let rig = KitRig {
            ($0.current, $0.all) = isConsumable ? ([], []) : ([owned], [owned])
            $0.unfinished = isConsumable ? [owned] : []
            $0.purchase = .success(.success(owned))
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.launch()
        await rig.store.identify(customerID: bob.uuidString)
        await rig.store.settled()
        #expect(failed(await rig.store.purchase(product), .ownedByAnother))
        #expect(await !rig.gives("forever"))
        await rig.store.identify(customerID: ann.uuidString)
        await rig.store.settled()
        #expect(await rig.store.purchase(product).purchase?.transactionID == "1")
    }

    @Test("what was handed over to who is logged in, and was bought before, is not taken for theirs")
    func notTakenForTheirs() async {
        let old = Statements.transaction("1", product: "coins", until: nil, app: "B", type: "Consumable")
        let rig = KitRig {
            $0.unfinished = [old]
            $0.purchase = .success(.success(old))
        }
        await rig.launch()
        await rig.store.identify(customerID: "bob")
        await rig.store.settled()
        _ = await rig.store.purchase("coins")
        let known = await rig.store.ledger
        #expect(known.book.transactions["1"].map(known.isBoughtByCustomer) == false)
    }

    @Test(
        "what the Apple account owns is a success, whatever the catalog says that it gives",
        arguments: ["lifetime", "theme"])
    func ownedAlready(_ product: String) async {
        let owned = Statements.transaction("1", product: product, until: nil)
        let rig = KitRig {
            ($0.current, $0.all) = ([owned], [owned])
            $0.purchase = .success(.success(owned))
        }
        await rig.launch()
        #expect(await rig.store.purchase(product).purchase?.transactionID == "1")
    }

    @Test("a change of plan at the next renewal, for which the store hands over the present period, is a success")
    func laterChange() async {
        let present = Statements.transaction("1", until: 30)
        let rig = KitRig(day: 5) {
            ($0.current, $0.all) = ([present], [present])
            $0.purchase = .success(.success(present))
        }
        await rig.launch()
        #expect(await rig.store.purchase("weekly").purchase?.productID == "monthly")
    }

    @Test("what the store signed long after it was bought is none of now, though it was not known")
    func signedLater() async {
        let old = Statements.transaction("1", signed: 40)
        let rig = KitRig(day: 40) { $0.purchase = .success(.success(old)) }
        await rig.launch()
        #expect(failed(await rig.store.purchase("monthly"), .notSoldAgain))
    }

    @Test("a view of the store may tell of a purchase after it came as an update")
    func toldAfterUpdate() async {
        let rig = KitRig(day: 0.001)
        await rig.launch()
        rig.device.push(Self.coins)
        await eventually("finished") { rig.device.state.finished == ["7"] }
        #expect(await rig.store.take(.success(.success(Self.coins)), of: "coins").purchase?.transactionID == "7")
        rig.clock.advance(days: 1)
        #expect(failed(await rig.store.take(.success(.success(Self.coins)), of: "coins"), .notSoldAgain))
    }

    @Test("a purchase waits until the one before it is finished, where that is about to be, and then buys one more")
    func waitsForFinishing() async {
        let door = Door()
        let rig = KitRig(day: 0.1) {
            $0.purchase = .success(.success(Self.coins))
            $0.doors[.finish] = door
        }
        await rig.launch()
        #expect(await rig.store.purchase("coins").purchase?.transactionID == "7")
        await eventually("it is being finished") { await door.visitors == 1 }
        let second = Task { [store = rig.store] in await store.purchase("coins") }
        await eventually("patience") { rig.clock.alarms.contains(.seconds(3)) }
        #expect(rig.device.state.purchases.count == 1)
        rig.device.edit {
            $0.purchase = .success(
                .success(Statements.transaction("8", product: "coins", from: 0.1, until: nil, type: "Consumable")))
        }
        await door.open()
        #expect(await second.value.purchase?.transactionID == "8")
    }

    @Test("the store of a preview sells one after the other, and hands over what the server has not heard of")
    func preview() async {
        let catalog = [EntitlementConfiguration.Mapping(productID: "coins", entitlements: [])]
        let device = PreviewDeviceStore(
            products: [StoreProduct(id: "coins", displayName: "Coins", displayPrice: "$1", kind: .consumable)])
        let server = PreviewServer(catalog: catalog)
        let store = EntitlementStore.preview(catalog: catalog, device: device, server: server)
        var sold: Set<String> = []
        for _ in 0..<5 { sold.insert(await store.purchase("coins").purchase?.transactionID ?? "") }
        #expect(sold.count == 5 && !sold.contains(""))
        await store.settled()
        await server.set(.isAway)
        #expect(await store.purchase("coins").purchase != nil)
        await store.settled()
        #expect(failed(await store.purchase("coins"), .notSoldAgain))
    }
}
