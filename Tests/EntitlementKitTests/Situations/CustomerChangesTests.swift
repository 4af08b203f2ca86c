import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: somebody else logs in in the middle of a purchase", .timeLimit(.minutes(1)))
struct CustomerChangesTests {
    @Test(
        "before the sheet opens: it does not, because what it sells would bear the former's name",
        arguments: [true, false])
    func beforeTheSheet(_ logsIn: Bool) async {
        let (door, ann) = (Door(), UUID())
        let rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1", token: ann)))
        } configuration: {
            $0.offerSigner = { _ in
                await door.pass()
                return PromotionalOfferSignature(keyID: "K", nonce: UUID(), timestamp: 1, signature: Data([1]))
            }
        }
        await rig.launch()
        await rig.store.identify(customerID: ann.uuidString, token: "a")
        let buying = Task { [store = rig.store] in
            await store.purchase("monthly", options: PurchaseOptions(offer: .promotional("spring")))
        }
        await eventually("the signer") { await door.visitors == 1 }
        if logsIn {
            await rig.store.identify(customerID: UUID().uuidString, token: "b")
        } else {
            await rig.store.signOut()
        }
        await door.open()
        #expect(
            await buying.value
                == .failed(PurchaseError(.customerChanged, of: "monthly", detail: "nothing was opened")))
        #expect(rig.device.state.purchases.isEmpty)
    }

    @Test("while the sheet is shown: what bears no name is the former's, and told to them alone")
    func whileShown() async {
        let door = Door()
        let rig = KitRig {
            $0.doors[.purchase] = door
            $0.purchase = .success(
                .success(Statements.transaction("1", product: "coins", until: nil, app: nil, type: "Consumable")))
        } server: {
            $0.mood = .unreachable
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "a")
        let (told, purchases) = (Told(), rig.store.unacknowledgedPurchases)
        Task { for await purchase in purchases { await told.add(purchase.transactionID) } }
        let buying = Task { [store = rig.store] in await store.purchase("coins") }
        await eventually("the sheet") { await door.visitors == 1 }
        await rig.store.identify(customerID: "bob", token: "b")
        await door.open()
        #expect(await buying.value.purchase != nil)
        await rig.store.settled()
        #expect(await told.ids.isEmpty)
        await rig.store.identify(customerID: "ann", token: "a")
        await eventually("told to her") { await told.ids == ["1"] }
    }

    private actor Told {
        private(set) var ids: [String] = []
        func add(_ id: String) { ids.append(id) }
    }
}
