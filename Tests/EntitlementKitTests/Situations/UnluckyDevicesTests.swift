import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: devices on a bad day", .timeLimit(.minutes(1)))
struct UnluckyDevicesTests {
    @Test("a device that was restored from a backup of long ago gives what its store shows, and trusts no old memory")
    func ownOldBackup() async {
        var rig = KitRig {
            $0.current = [
                Statements.transaction("1"), Statements.transaction("9", product: "lifetime", until: nil),
            ]
        }
        await rig.launch()
        await rig.store.settled()
        // A year later, on a new device without a network: renewed since, and the other one refunded.
        rig.clock.advance(days: 365)
        rig.server.edit { $0.mood = .unreachable }
        let renewed = Statements.transaction("13", original: "1", from: 360, until: 390, renewal: true)
        let refunded = Statements.transaction("9", product: "lifetime", until: nil, revoked: 200, signed: 201)
        rig = await rig.relaunched(
            device: ScriptedStore {
                $0.current = [renewed]
                $0.all = [refunded, renewed]
            })
        await rig.launch()
        #expect(await rig.gives())
        #expect(await rig.store.current["premium"]?.until == Statements.date(390))
        #expect(await rig.store.current["forever"]?.state == .revoked)
        rig.server.edit { $0.mood = .answers }
        await rig.store.refresh()
        await rig.store.settled()
        #expect(await rig.store.current.isLive)
        #expect(await rig.gives())
        #expect(await !rig.gives("forever"))
    }

    private struct SignedOut: Error {}

    @Test("a purchase during which the account was signed out fails, bars nothing, and counts when it is made later")
    func signedOutMidPurchase() async {
        let rig = KitRig {
            $0.purchase = .failure(SignedOut())
            $0.products = [StoreProduct(id: "monthly", displayName: "Monthly", displayPrice: "$1")]
            $0.current = [Statements.transaction("9", product: "lifetime", until: nil)]
        }
        await rig.launch()
        for _ in 0..<2 {
            #expect(await rig.store.purchase("monthly") == .failed(PurchaseError(.unknown, of: "monthly")))
        }
        #expect(await rig.gives("forever"))
        // Whoever signs in then has another Apple account, and the store charges that.
        rig.device.push(Statements.transaction("1", app: "B"))
        await rig.waitUntilGives()
        await eventually("finished") { rig.device.state.finished == ["1"] }
        #expect(await rig.gives("forever"))
    }

    @Test(
        "a refund ends access at once on a device whose clock is an hour ahead or behind, with a server and without",
        arguments: [-1.0 / 24, 1.0 / 24], [true, false])
    func refundByAWrongClock(_ offset: Double, _ isAway: Bool) async {
        var rig = KitRig { $0.current = [Statements.transaction("1", until: 300)] }
        await rig.launch()
        await rig.store.settled()
        if isAway { rig.server.edit { $0.mood = .unreachable } }
        rig.clock.set(day: 1 + offset)
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.gives())
        rig.device.edit { $0.current = [] }
        rig.device.push(Statements.transaction("1", until: 300, revoked: 1.0005, signed: 1.001))
        await rig.waitUntilGives(false)
        #expect(await rig.store.current["premium"]?.expirationReason == .refunded)
        // It is put right, and nothing comes back.
        rig.clock.set(day: 1.01)
        await rig.store.applicationWillEnterForeground()
        await rig.store.settled()
        #expect(await !rig.gives())
    }

    @Test("a server that answers from an older position after a fail-over takes nothing away that was bought here")
    func failOver() async throws {
        let rig = KitRig { $0.current = [Statements.transaction("1", until: 300)] }
        await rig.launch()
        await rig.store.settled()
        let old = rig.server.state
        rig.device.edit { $0.current.append(Statements.transaction("2", product: "lifetime", until: nil)) }
        await rig.store.refresh()
        await rig.store.settled()
        #expect(await rig.store.current.isLive)
        let shown = Collected(rig.store.states)
        rig.clock.advance(.seconds(60))
        // The one that takes over has not heard of the last purchase, and is told again.
        rig.server.edit { ($0.states, $0.ownership, $0.position) = (old.states, old.ownership, old.position) }
        let posts = rig.server.posts.count
        await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.server.posts.dropFirst(posts).joined().contains("2"))
        #expect(rig.server.state.states["2"] != nil)
        #expect(await rig.store.current.isLive)
        await rig.store.stop()
        for state in await shown.values where state.kind != .loading {
            #expect(state.givesAccess(to: "premium") && state.givesAccess(to: "forever"))
        }
    }

    @Test("an upgrade that the store also tells while the sheet is up is one purchase, of the new plan, finished once")
    func upgradeUnderTheSheet() async {
        let (door, group) = (Door(), "pro")
        let monthly = Statements.transaction("1", offer: ["subscriptionGroupIdentifier": group])
        let yearly = Statements.transaction("2", original: "1", product: "yearly", from: 1, until: 366)
        let rig = KitRig {
            $0.current = [monthly]
            $0.purchase = .success(.success(yearly))
            $0.doors[.purchase] = door
            let plan = StoreProduct.Subscription(groupID: group, period: SubscriptionPeriod(1, .year))
            $0.products = [StoreProduct(id: "yearly", displayName: "y", displayPrice: "$1", subscription: plan)]
        } server: {
            $0.catalog = Catalog(
                products: ["monthly", "yearly"].map { CatalogProduct(productID: $0, entitlements: ["premium"]) })
        }
        await rig.launch()
        let shown = Collected(rig.store.states)
        let sheet = Task { [store = rig.store] in await store.purchase("yearly") }
        await eventually("the sheet") { await door.visitors == 1 }
        // The store tells of both before its call returns.
        rig.device.push(yearly)
        rig.device.push(
            Statements.transaction("1", signed: 1, offer: ["isUpgraded": true]), isUnfinished: false)
        await eventually("the new plan") { await rig.store.current["premium"]?.productID == "yearly" }
        rig.device.edit { $0.unfinished = [] }
        await door.open()
        #expect(await sheet.value.purchase?.transactionID == "2")
        await eventually("finished") { rig.device.state.finished.contains("2") }
        await rig.store.settled()
        #expect(rig.device.state.finished == ["2"])
        #expect(await rig.store.current["premium"]?.until == Statements.date(366))
        #expect(rig.server.posts.joined().count { $0 == "2" } == 1)
        await rig.store.stop()
        for state in await shown.values where state.kind != .loading { #expect(state.givesAccess(to: "premium")) }
    }

    @Test("an offer that the store refuses buys nothing, and the plan without it can be bought at once")
    func offerRefused() async {
        let signature = PromotionalOfferSignature(
            keyID: "k", nonce: UUID(), timestamp: 1, signature: Data([1]))
        let rig = KitRig {
            $0.purchase = .failure(PurchaseError(.invalidOffer))
        } configuration: {
            $0.offerSigner = { _ in signature }
        }
        await rig.launch()
        let offered = await rig.store.purchase("monthly", options: PurchaseOptions(offer: .promotional("spring")))
        #expect(offered == .failed(PurchaseError(.invalidOffer, of: "monthly")))
        #expect(await !rig.gives())
        rig.device.edit { $0.purchase = .success(.success(Statements.transaction("1"))) }
        #expect(await rig.store.purchase("monthly").purchase?.entitlements.givesAccess(to: "premium") == true)
        #expect(rig.device.state.purchases.map { $0.offer == nil } == [false, true])
    }

    @Test("a consumable that is bought twice within a second is two purchases, each granted and finished once")
    func twiceWithinASecond() async {
        let rig = KitRig(configuration: { $0.acknowledgedKinds = [.consumable] })
        await rig.launch()
        let told = Collected(rig.store.unacknowledgedPurchases)
        for id in ["1", "2"] {
            let coins = Statements.transaction(id, product: "coins", from: 1, until: nil, type: "Consumable")
            rig.device.edit { $0.purchase = .success(.success(coins)) }
            #expect(await rig.store.purchase("coins").purchase?.transactionID == id)
        }
        await eventually("both are told") { await told.values.map(\.transactionID) == ["1", "2"] }
        for purchase in await told.values { #expect(await rig.store.acknowledge(purchase)) }
        await eventually("both are finished") { rig.device.state.finished.count == 2 }
        #expect(Set(rig.device.state.finished) == ["1", "2"])
        #expect(await rig.store.history().map(\.transactionID).sorted() == ["1", "2"])
    }

    @Test("who logs in while the sheet of somebody else is up gets nothing of what that one buys, and they get it back")
    func loginUnderTheSheet() async {
        let (door, token) = (Door(), UUID())
        let rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1", until: 300, token: token)))
            $0.doors[.purchase] = door
        } server: {
            $0.numbers = ["ann": 1, CustomerID(stringLiteral: token.uuidString.lowercased()): 2]
            $0.ownership.apply(
                .link(LinkFact(identity: IdentityRef(2), customer: IdentityRef(1))), position: 1,
                recordedAt: Timestamp(milliseconds: Statements.start))
        }
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t", appAccountToken: token)
        let sheet = Task { [store = rig.store] in await store.purchase("monthly") }
        await eventually("the sheet") { await door.visitors == 1 }
        await rig.store.identify(customerID: "bob", token: "t", appAccountToken: UUID())
        await door.open()
        #expect(await sheet.value.purchase?.entitlements.givesAccess(to: "premium") == false)
        await rig.store.settled()
        #expect(await !rig.gives())
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.waitUntilGives()
        await eventually("finished") { rig.device.state.finished == ["1"] }
    }

    @Test(
        "a gateway that answers for a server that is away is no word of the server's: what rests is sent when that is back",
        arguments: [502, 504, 404])
    func gateway(_ status: Int) async {
        let rig = KitRig()
        await rig.launch()
        rig.server.edit { $0.mood = .status(status) }
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        for delay in [1, 5, 30, 300] {
            await eventually("a retry in \(delay) s") { rig.clock.alarms.contains(.seconds(delay)) }
            rig.clock.advance(.seconds(delay))
        }
        await eventually("five attempts") { rig.server.posts.filter { $0 == ["1"] }.count == 5 }
        await rig.store.settled()
        rig.server.edit { $0.mood = .answers }
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await eventually("both are finished") { Set(rig.device.state.finished) == ["1", "2"] }
    }

    @Test("a store that lists nothing for some seconds after a launch is read again, three times at most")
    func notReadyAtLaunch() async {
        var rig = KitRig(server: { $0.mood = .unreachable })
        await rig.launch()
        for (number, delay) in [3, 12, 45].enumerated() {
            await eventually("look \(number)") { rig.clock.alarms.contains(.seconds(delay)) }
            rig.clock.advance(.seconds(delay))
            await eventually("looked") { rig.device.count(.currentEntitlements) == number + 2 }
            await rig.store.settled()
        }
        rig.clock.advance(.seconds(600))
        await rig.store.settled()
        #expect(rig.device.count(.currentEntitlements) == 4)
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await !rig.gives())
        rig.device.edit { $0.current = [Statements.transaction("1")] }
        await eventually("another look") { rig.clock.alarms.contains(.seconds(3)) }
        rig.clock.advance(.seconds(3))
        await rig.waitUntilGives()
        await rig.store.settled()
        // A store that was ready once is believed when it lists nothing.
        rig.device.edit { $0.current = [] }
        await rig.store.refresh()
        let looks = rig.device.count(.currentEntitlements)
        rig.clock.advance(.seconds(600))
        await rig.store.settled()
        #expect(rig.device.count(.currentEntitlements) == looks)
    }
}
