import EntitlementAPI
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: offers, quantities, and what StoreKit's own views have bought", .timeLimit(.minutes(1)))
struct OfferTests {
    private struct Odd: Error {}

    private static let signature = PromotionalOfferSignature(
        keyID: "K", nonce: UUID(), timestamp: 1_767_225_600_000, signature: Data([1, 2, 3]))

    @Test("a promotional offer is bought with the signature that the app's server made for this purchase")
    func promotional() async {
        let account = UUID()
        let rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1", token: account)))
        } configuration: {
            $0.offerSigner = { request in
                guard
                    request
                        == PromotionalOfferRequest(
                            productID: "monthly", offerID: "spring", customerID: "c", appAccountToken: account)
                else { throw Odd() }
                return Self.signature
            }
        }
        await rig.store.identify(customerID: "c", token: "t", appAccountToken: account)
        let outcome = await rig.store.purchase("monthly", options: PurchaseOptions(offer: .promotional("spring")))
        #expect(outcome.purchase != nil, "\(outcome)")
        #expect(
            rig.device.state.purchases == [
                StorePurchaseOptions(appAccountToken: account, offer: .promotional("spring", Self.signature))
            ])
    }

    @Test("an offer that nobody signs is not bought, and the store is not asked")
    func unsigned() async {
        let rig = KitRig()
        let options = PurchaseOptions(offer: .promotional("spring"))
        guard case .failed(let error) = await rig.store.purchase("monthly", options: options) else {
            Issue.record("it was bought")
            return
        }
        #expect(error.reason == .invalidOffer && error.productID == "monthly")
        let refusing = KitRig { _ in
        } configuration: {
            $0.offerSigner = { _ in throw Odd() }
        }
        guard case .failed(let refusal) = await refusing.store.purchase("monthly", options: options) else {
            Issue.record("it was bought")
            return
        }
        #expect(refusal.reason == .invalidOffer && refusal.underlying is Odd)
        #expect(rig.device.state.purchases.isEmpty && refusing.device.state.purchases.isEmpty)
    }

    @Test("a signer that never answers ends a purchase, and bars no other")
    func signerHangs() async {
        let door = Door()
        let rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1")))
        } configuration: {
            $0.offerSigner = { _ in
                await door.pass()
                return Self.signature
            }
        }
        await rig.launch()
        let buying = Task { [store = rig.store] in
            await store.purchase("monthly", options: PurchaseOptions(offer: .promotional("spring")))
        }
        await eventually("the signer") { await door.visitors == 1 }
        await eventually("patience") { rig.clock.alarms.contains(.seconds(20)) }
        rig.clock.advance(.seconds(20))
        guard case .failed(let error) = await buying.value else {
            Issue.record("it was bought")
            return
        }
        #expect(error.reason == .network)
        #expect(await rig.store.purchase("monthly").purchase != nil)
        await door.open()
    }

    @Test("a signature is read as a server writes it")
    func decoding() throws {
        let nonce = UUID()
        let json = #"{"key_id":"K","nonce":"\#(nonce)","timestamp":7,"signature":"AQID"}"#
        let read = try JSONDecoder().decode(PromotionalOfferSignature.self, from: Data(json.utf8))
        #expect(
            read == PromotionalOfferSignature(keyID: "K", nonce: nonce, timestamp: 7, signature: Data([1, 2, 3])))
    }

    @Test("several coins are bought at once, and granted as often; none, or fewer, cannot be bought")
    func quantity() async throws {
        let coins = StoreProduct(id: "coins", displayName: "Coins", displayPrice: "$1", kind: .consumable)
        let device = PreviewDeviceStore(products: [coins])
        let catalog = [EntitlementConfiguration.Mapping(productID: "coins", entitlements: [])]
        let store = EntitlementStore.preview(catalog: catalog, device: device)
        #expect(await store.purchase("coins", options: PurchaseOptions(quantity: 3)).purchase != nil)
        #expect(await store.history().map(\.quantity) == [3])
        guard case .failed(let error) = await store.purchase("coins", options: PurchaseOptions(quantity: 0)) else {
            Issue.record("nothing was bought, as a purchase")
            return
        }
        #expect(error.reason == .invalidOffer)
        await store.stop()
    }

    @Test("several of what runs for a time of the catalog's are refused, since they would run at once; one is sold")
    func quantityOfWhatRunsOut() async {
        let season = StoreProduct(id: "season", displayName: "Season", displayPrice: "$9", kind: .nonRenewing)
        let device = PreviewDeviceStore(products: [season])
        let catalog = [
            EntitlementConfiguration.Mapping(productID: "season", entitlements: ["premium"], duration: "P90D")
        ]
        let store = EntitlementStore.preview(catalog: catalog, device: device)
        guard case .failed(let error) = await store.purchase("season", options: PurchaseOptions(quantity: 3)) else {
            Issue.record("one period was paid for three times")
            return
        }
        #expect(error.reason == .invalidOffer && error.productID == "season" && error.detail.contains("3"))
        #expect(await store.history().isEmpty)
        #expect(await store.purchase("season").purchase != nil)
        await store.stop()
    }

    @Test("what is to be granted says how many were bought")
    func unacknowledgedQuantity() async {
        let rig = KitRig { _ in
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.launch()
        rig.device.push(
            Statements.transaction("1", product: "coins", until: nil, offer: ["quantity": 5], type: "Consumable"))
        for await purchase in rig.store.unacknowledgedPurchases {
            #expect(purchase.quantity == 5)
            break
        }
    }

    @Test("a win-back offer is shown to whoever may have it, the best first, and bought by nobody else")
    func winBack() async {
        func offer(_ id: String) -> SubscriptionOffer {
            SubscriptionOffer(
                id: id, discount: "pay_as_you_go", price: 1, displayPrice: "$1", period: SubscriptionPeriod(1, .month))
        }
        let product = StoreProduct(
            id: "monthly", displayName: "Monthly", displayPrice: "$5", kind: .autoRenewable,
            subscription: StoreProduct.Subscription(
                groupID: "g", period: SubscriptionPeriod(1, .month),
                winBackOffers: [offer("a"), offer("b"), offer("c")],
                eligibleWinBackOfferIDs: ["c", "unknown", "a"]))
        let device = PreviewDeviceStore(products: [product])
        let catalog = [EntitlementConfiguration.Mapping(productID: "monthly", entitlements: ["premium"])]
        let store = EntitlementStore.preview(catalog: catalog, device: device)
        let shown = await store.products().first?.storeProduct?.subscription?.winBackOffersForThisCustomer
        #expect(shown?.map(\.id) == ["c", "a"])
        #expect(
            await store.purchase("monthly", options: PurchaseOptions(offer: .winBack("b")))
                == .failed(PurchaseError(.ineligibleForOffer, of: "monthly")))
        #expect(await store.purchase("monthly", options: PurchaseOptions(offer: .winBack("c"))).purchase != nil)
        let bought = await store.current["premium"]?.offer
        #expect(bought == PurchaseOffer(type: "win_back", discount: "pay_as_you_go", identifier: "c"))
        await store.stop()
    }

    // MARK: What something else has bought

    @Test("what a view of StoreKit's has bought counts as what this store has bought, whatever became of it")
    func handedOver() async {
        let rig = KitRig()
        await rig.launch()
        // StoreKit has it among what is unfinished before the view tells that it was bought.
        rig.device.edit { $0.unfinished = [Statements.transaction("1")] }
        let bought = await rig.store.take(.success(.success(Statements.transaction("1"))), of: "monthly")
        #expect(bought.purchase?.entitlements.givesAccess(to: "premium") == true)
        await rig.store.applicationWillEnterForeground()
        await eventually("finished") { rig.device.state.finished == ["1"] }
        #expect(await rig.store.take(.success(.pending), of: "monthly") == .pending)
        #expect(await rig.store.take(.success(.userCancelled), of: "monthly") == .userCancelled)
        guard case .failed(let error) = await rig.store.take(.failure(URLError(.timedOut)), of: "monthly") else {
            Issue.record("another outcome")
            return
        }
        #expect(error.reason == .network && error.productID == "monthly")
    }

    @Test("a subscription's changed status counts as soon as the store tells it, or the app hands it over")
    func statusUpdates() async {
        let rig = KitRig(day: 10) { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        func status(_ day: Double, autoRenews: Bool) -> SubscriptionStatement {
            SubscriptionStatement(
                transaction: Statements.transaction("1"),
                renewal: Statements.renewal(original: "1", signed: day, autoRenews: autoRenews))
        }
        rig.device.push(status(8, autoRenews: false))
        await eventually("told") { await rig.store.current["premium"]?.willRenew == false }
        await rig.store.take(status(9, autoRenews: true))
        #expect(await rig.store.current["premium"]?.willRenew == true)
        await eventually("sent") { rig.server.received.contains { !$0.request.signedRenewalInfos.isEmpty } }
    }
}
