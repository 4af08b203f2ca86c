import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: purchases that the app grants by itself", .timeLimit(.minutes(1)))
struct ConsumableTests {
    /// An app that grants coins.
    private actor Wallet {
        private(set) var granted: [String] = []

        func listen(to store: EntitlementStore, acknowledging: Bool) {
            let purchases = store.unacknowledgedPurchases
            Task { [weak self] in
                for await purchase in purchases {
                    await self?.grant(purchase)
                    if acknowledging { await store.acknowledge(purchase.transactionID) }
                }
            }
        }

        private func grant(_ purchase: PurchaseRecord) {
            granted.append(purchase.transactionID + (purchase.revocationDate == nil ? "" : " refunded"))
        }
    }

    private static func coins(_ id: String, revoked: Double? = nil) -> SignedStatement {
        Statements.transaction(id, product: "coins", until: nil, revoked: revoked, signed: revoked, type: "Consumable")
    }

    private func rig(_ sync: Bool = true) -> KitRig {
        KitRig(sync: sync, configuration: { $0.acknowledgedKinds = [.consumable] })
    }

    @Test("a consumable is not finished before the app has granted it, and comes again at the next launch")
    func waits() async {
        var rig = rig()
        let wallet = Wallet()
        await wallet.listen(to: rig.store, acknowledging: false)
        await rig.launch()
        rig.device.push(Self.coins("1"))
        rig.device.push(Statements.transaction("2"))
        await eventually("told") { await wallet.granted == ["1"] }
        await eventually("what the ledger grants is finished") { rig.device.state.finished == ["2"] }
        rig = await rig.relaunched()
        await rig.launch()
        await rig.store.settled()
        #expect(rig.device.state.finished == ["2"])
        let next = Wallet()
        await next.listen(to: rig.store, acknowledging: true)
        await eventually("told again") { await next.granted == ["1"] }
        await eventually("finished") { rig.device.state.finished == ["2", "1"] }
    }

    @Test(
        "what was acknowledged is not told again, though the app died before it was finished", arguments: [true, false])
    func acknowledged(_ sync: Bool) async {
        var rig = rig(sync)
        rig.server.edit { $0.mood = .unreachable }
        rig.device.edit { $0.isReady = sync }
        let wallet = Wallet()
        await rig.launch()
        await wallet.listen(to: rig.store, acknowledging: true)
        rig.device.push(Self.coins("1"))
        await eventually("granted") { await wallet.granted == ["1"] }
        await rig.store.settled()
        #expect(rig.device.state.finished.isEmpty)
        rig = await rig.relaunched()
        rig.server.edit { $0.mood = .answers }
        rig.device.edit { $0.isReady = true }
        let next = Wallet()
        await next.listen(to: rig.store, acknowledging: true)
        await rig.launch()
        await eventually("finished") { rig.device.state.finished == ["1"] }
        #expect(await next.granted.isEmpty)
    }

    @Test("a refund of a consumable is told, so that the app can take it back, and finished after that")
    func refund() async {
        let rig = rig()
        let wallet = Wallet()
        await wallet.listen(to: rig.store, acknowledging: true)
        await rig.launch()
        rig.device.push(Self.coins("1"))
        await eventually("finished") { rig.device.state.finished == ["1"] }
        rig.device.push(Self.coins("1", revoked: 0.5))
        await eventually("taken back") { await wallet.granted == ["1", "1 refunded"] }
        await eventually("finished") { rig.device.state.finished == ["1", "1"] }
    }

    @Test("an app that did not ask for it has its consumables finished as before")
    func notAsked() async {
        let rig = KitRig()
        await rig.launch()
        rig.device.push(Self.coins("1"))
        await eventually("finished") { rig.device.state.finished == ["1"] }
        #expect(await !rig.store.acknowledge("unknown"))
    }
}
