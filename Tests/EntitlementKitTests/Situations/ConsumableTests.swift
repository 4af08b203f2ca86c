import AppStorePayloads
import EntitlementCore
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
                    if acknowledging { await store.acknowledge(purchase) }
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

    @Test(
        "a refund that is taken back is told as the purchase once more, as often as that happens, and across launches")
    func takenBack() async {
        var rig = rig()
        var wallet = Wallet()
        await wallet.listen(to: rig.store, acknowledging: true)
        await rig.launch()
        rig.device.push(Self.coins("1"))
        await eventually("finished") { rig.device.state.finished == ["1"] }
        for round in 1...2 {
            let day = Double(round) * 0.2
            rig.device.push(Self.coins("1", revoked: day))
            await eventually("taken back") { await wallet.granted.last == "1 refunded" }
            await eventually("finished") { rig.device.state.finished.count == round * 2 }
            // The same content as at first, signed later.
            rig.device.push(
                Statements.transaction(
                    "1", product: "coins", until: nil, signed: day + 0.1, type: "Consumable"))
            await eventually("granted again") { await wallet.granted.count == round * 2 + 1 }
            await eventually("finished") { rig.device.state.finished.count == round * 2 + 1 }
        }
        #expect(await wallet.granted == ["1", "1 refunded", "1", "1 refunded", "1"])
        // Refunded once more; the app takes it back, and dies before it says so. Then that refund is taken back, too.
        let forgetful = Wallet()
        rig = await rig.relaunched()
        await forgetful.listen(to: rig.store, acknowledging: false)
        await rig.launch()
        rig.device.push(Self.coins("1", revoked: 0.7))
        await eventually("taken back") { await forgetful.granted == ["1 refunded"] }
        await rig.store.settled()
        rig = await rig.relaunched()
        wallet = Wallet()
        await rig.launch()
        rig.device.push(
            Statements.transaction("1", product: "coins", until: nil, signed: 0.8, type: "Consumable"))
        await eventually("known") { await rig.store.ledger.book.transactions["1"]?.payload.revocation == nil }
        await wallet.listen(to: rig.store, acknowledging: true)
        await eventually("granted again") { await wallet.granted == ["1"] }
        await eventually("finished") { rig.device.state.finished.count == 6 }
        rig = await rig.relaunched()
        let last = Wallet()
        await last.listen(to: rig.store, acknowledging: true)
        await rig.launch()
        rig.device.push(Statements.transaction("2"))
        await eventually("finished") { rig.device.state.finished.last == "2" }
        #expect(await last.granted.isEmpty)
    }

    @Test("what a full disk could not take is told to nobody, old listener or new, before it is there, and then once")
    func fullDisk() async {
        let rig = rig()
        let (early, late) = (Wallet(), Wallet())
        await early.listen(to: rig.store, acknowledging: false)
        await rig.launch()
        await rig.storage.setFull(true)
        rig.device.push(Self.coins("1"))
        await eventually("known") { await rig.store.ledger.book.transactions["1"] != nil }
        await late.listen(to: rig.store, acknowledging: false)
        await rig.store.settled()
        #expect(await early.granted.isEmpty)
        #expect(await late.granted.isEmpty)
        await rig.storage.setFull(false)
        await rig.store.identify(customerID: "c-1", token: "t")
        await rig.store.settled()
        rig.device.push(Self.coins("2"))
        for wallet in [early, late] { await eventually("told") { await wallet.granted == ["1", "2"] } }
    }

    @Test("an acknowledgement is known although another file cannot be written, and is not where its own cannot")
    func brokenFile() async throws {
        for (broken, isKnown) in [("server.json", true), ("statements.jsonl", false)] {
            let rig = rig()
            await rig.launch()
            rig.device.push(Self.coins("1"))
            await eventually("known") { await rig.store.ledger.book.transactions["1"] != nil }
            await rig.store.settled()
            await rig.storage.setBroken([broken])
            // Something of the other file is to be written, too.
            _ = await rig.store.refresh()
            await rig.store.settled()
            let bought = PurchaseRecord(try DeviceTransaction(Self.coins("1")), isSynced: false)
            #expect(await rig.store.acknowledge(bought) == isKnown)
        }
    }

    @Test("an acknowledgement of the purchase is none of a refund that came meanwhile")
    func crossing() async throws {
        let rig = rig()
        await rig.launch()
        rig.device.push(Self.coins("1"))
        await eventually("known") { await rig.store.ledger.book.transactions["1"] != nil }
        let bought = PurchaseRecord(try DeviceTransaction(Self.coins("1")), isSynced: false)
        rig.device.push(Self.coins("1", revoked: 0.5))
        await eventually("refunded") {
            await rig.store.ledger.book.transactions["1"]?.payload.revocation != nil
        }
        #expect(await !rig.store.acknowledge(bought))
        await rig.store.settled()
        #expect(rig.device.state.finished.isEmpty)
        let wallet = Wallet()
        await wallet.listen(to: rig.store, acknowledging: true)
        await eventually("taken back") { await wallet.granted == ["1 refunded"] }
        await eventually("finished") { rig.device.state.finished == ["1"] }
    }

    @Test("an app that did not ask for it has its consumables finished as before")
    func notAsked() async throws {
        let rig = KitRig()
        await rig.launch()
        rig.device.push(Self.coins("1"))
        await eventually("finished") { rig.device.state.finished == ["1"] }
        let unknown = try DeviceTransaction(Self.coins("2"))
        #expect(await !rig.store.acknowledge(PurchaseRecord(unknown, isSynced: false)))
    }

    @Test("what one customer bought is told to nobody who logs in after them, and to them when they are back")
    func anotherCustomer() async throws {
        let (ann, bob) = (UUID(), UUID())
        let rig = rig()
        await rig.launch()
        await rig.store.identify(customerID: ann.uuidString, token: "a")
        await rig.store.signOut()
        await rig.store.identify(customerID: bob.uuidString, token: "b")
        let wallet = Wallet()
        await wallet.listen(to: rig.store, acknowledging: true)
        let approved = Statements.transaction("1", product: "coins", until: nil, token: ann, type: "Consumable")
        rig.device.push(approved)
        rig.device.push(Statements.transaction("2", product: "coins", until: nil, token: bob, type: "Consumable"))
        await eventually("bob's") { await wallet.granted == ["2"] }
        await rig.store.settled()
        #expect(await wallet.granted == ["2"])
        await rig.store.identify(customerID: ann.uuidString, token: "a")
        await eventually("ann's") { await wallet.granted == ["2", "1"] }
    }

    @Test(
        "what bears a token that is known to be somebody's is told to nobody while they are logged out",
        arguments: [true, false])
    func loggedOut(_ isTokenTheID: Bool) async {
        let (ann, rig, wallet) = (UUID(), rig(), Wallet())
        await rig.launch()
        await wallet.listen(to: rig.store, acknowledging: true)
        func logIn() async {
            if isTokenTheID {
                await rig.store.identify(customerID: ann.uuidString, token: "a")
            } else {
                await rig.store.identify(customerID: "ann", token: "a", appAccountToken: ann)
            }
        }
        await logIn()
        await rig.store.settled()
        // She asks to buy and logs out; then a parent approves.
        await rig.store.signOut()
        await rig.store.settled()
        rig.device.push(Statements.transaction("1", product: "coins", until: nil, token: ann, type: "Consumable"))
        rig.device.push(Self.coins("2"))
        await eventually("what nobody's token is on") { await wallet.granted.contains("2") }
        await rig.store.settled()
        #expect(await wallet.granted == ["2"])
        await logIn()
        await eventually("told when she is back") { await wallet.granted == ["2", "1"] }
    }

    @Test(
        "what one customer bought without a token is told to the next one only where the server says that it is theirs",
        arguments: [true, false])
    func boughtByAnother(_ isHis: Bool) async {
        let coins = Statements.transaction("1", product: "coins", until: nil, app: nil, type: "Consumable")
        let rig = KitRig {
            $0.purchase = .success(.success(coins))
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "a")
        await rig.store.settled()
        rig.server.edit { $0.mood = .unreachable }
        let wallet = Wallet()
        await wallet.listen(to: rig.store, acknowledging: false)
        _ = await rig.store.purchase("coins")
        await eventually("told to her") { await wallet.granted == ["1"] }
        await rig.store.signOut()
        await rig.store.settled()
        await rig.store.identify(customerID: "bob", token: "b")
        await rig.store.settled()
        #expect(await wallet.granted == ["1"])
        rig.server.edit {
            $0.mood = .answers
            if isHis {
                let claim = ClaimFact(originalTransactionID: "1", customer: $0.number(of: "bob"))
                $0.ownership.apply(.claim(claim), position: $0.position, recordedAt: .earliest)
            }
        }
        await rig.store.applicationWillEnterForeground()
        await rig.store.settled()
        let toBob = isHis ? ["1"] : []
        await eventually("told to him, or not") { await wallet.granted == ["1"] + toBob }
        await rig.store.identify(customerID: "ann", token: "a")
        await eventually("told to her when she is back") { await wallet.granted == ["1"] + toBob + ["1"] }
    }

    @Test("what was told while nobody was logged in, and not acknowledged, is told again to who logs in")
    func toldBeforeLogin() async {
        let (ann, rig, wallet) = (UUID(), rig(), Wallet())
        await rig.launch()
        await wallet.listen(to: rig.store, acknowledging: false)
        rig.device.push(Statements.transaction("1", product: "coins", until: nil, token: ann, type: "Consumable"))
        await eventually("told to nobody") { await wallet.granted == ["1"] }
        await rig.store.settled()
        await rig.store.identify(customerID: ann.uuidString, token: "a")
        await eventually("told to her") { await wallet.granted == ["1", "1"] }
    }

    @Test("a purchase says which account token it was bought with")
    func saysAccountToken() async throws {
        let token = UUID()
        let rig = rig(false)
        await rig.launch()
        var told = rig.store.unacknowledgedPurchases.makeAsyncIterator()
        rig.device.push(Statements.transaction("1", product: "coins", until: nil, token: token, type: "Consumable"))
        #expect(await told.next()?.appAccountToken == token)
    }
}
