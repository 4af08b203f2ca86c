import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: what becomes of a purchase", .timeLimit(.minutes(1)))
struct PurchaseOutcomeTests {
    private struct Odd: Error {}

    @Test(
        "what the store throws has a name",
        arguments: [
            PurchaseError.Reason.productNotFound, .notAllowed, .ineligibleForOffer, .invalidOffer, .network,
            .verificationFailed,
        ])
    func thrown(_ reason: PurchaseError.Reason) async throws {
        let rig = KitRig { $0.purchase = .failure(PurchaseError(reason, detail: "x", underlying: Odd())) }
        guard case .failed(let error) = await rig.store.purchase("monthly") else {
            Issue.record("another outcome")
            return
        }
        #expect(error == PurchaseError(reason, of: "monthly", detail: "x"))
        #expect(error.underlying is Odd, "what the system said is at hand")
        #expect(error.description.hasPrefix("monthly was not bought (\(reason.rawValue)): x"))
    }

    @Test("an error of the network is told as one")
    func network() async {
        let rig = KitRig {
            $0.purchase = .failure(URLError(.notConnectedToInternet))
            $0.products = [StoreProduct(id: "monthly", displayName: "Monthly", displayPrice: "$1")]
        }
        let outcome = await rig.store.purchase("monthly")
        #expect(outcome == .failed(PurchaseError(.network, of: "monthly")))
        guard case .failed(let error) = outcome else { return }
        #expect((error.underlying as? URLError)?.code == .notConnectedToInternet)
    }

    @Test("what is paid while the disk takes nothing is a success, told as not kept, and finished only once it is")
    func fullDisk() async {
        let rig = KitRig { $0.purchase = .success(.success(Statements.transaction("1"))) }
        await rig.launch()
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        await rig.storage.setFull(true)
        #expect(await rig.store.purchase("monthly").purchase?.entitlements.givesAccess(to: "premium") == true)
        await eventually("told") { await events.kinds.contains(.storageFailed) }
        #expect(rig.device.state.finished.isEmpty)
        await rig.storage.setFull(false)
        await rig.store.refresh()
        await eventually("finished") { rig.device.state.finished == ["1"] }
    }

    @Test("what the store does not sell is told as such, however the store puts it")
    func notOnSale() async {
        let rig = KitRig { $0.purchase = .failure(Odd()) }
        #expect(await rig.store.purchase("monthly") == .failed(PurchaseError(.productNotFound, of: "monthly")))
    }

    @Test("a store that throws in the middle of a purchase may have made it", arguments: [true, false])
    func madeAllTheSame(_ isNetwork: Bool) async throws {
        let rig = KitRig {
            $0.unfinished = [Statements.transaction("0", product: "lifetime", until: nil)]
            $0.products = [StoreProduct(id: "monthly", displayName: "Monthly", displayPrice: "$1")]
        }
        await rig.launch()
        rig.device.edit {
            $0.purchase = .failure(isNetwork ? URLError(.networkConnectionLost) : Odd())
            $0.unfinished = [Statements.transaction("1")]
        }
        let purchase = try #require(await rig.store.purchase("monthly").purchase)
        #expect(purchase.transactionID == "1" && purchase.entitlements.givesAccess(to: "premium"))
        // What was known before is no purchase of now.
        guard case .failed = await rig.store.purchase("monthly") else {
            Issue.record("an earlier purchase was taken for this one")
            return
        }
    }

    @Test("a purchase that was interrupted is told when it comes, whatever its call said")
    func interrupted() async {
        let rig = KitRig { $0.purchase = .success(.userCancelled) }
        #expect(await rig.store.purchase("monthly") == .userCancelled)
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        await eventually("finished") { rig.device.state.finished == ["1"] }
    }

    @Test("a button that is pressed twice buys once, and a store that never answers bars no product for good")
    func pressedTwice() async {
        let door = Door()
        let rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1")))
            $0.doors[.purchase] = door
        }
        await rig.launch()
        let first = Task { [store = rig.store] in await store.purchase("monthly") }
        await eventually("the call") { await door.visitors == 1 }
        #expect(await rig.store.purchase("monthly") == .failed(PurchaseError(.alreadyUnderWay, of: "monthly")))
        #expect(rig.device.state.purchases.count == 1)
        rig.clock.advance(.seconds(300))
        rig.device.edit { $0.doors = [:] }
        #expect(await rig.store.purchase("monthly").purchase?.transactionID == "1")
        await door.open()
        _ = await first.value
        #expect(rig.device.state.purchases.count == 2)
    }

    @Test("a purchase that was delivered before the store threw is one that succeeded", arguments: [true, false])
    func deliveredBefore(_ isFinished: Bool) async {
        let door = Door()
        let rig = KitRig {
            $0.purchase = .failure(PurchaseError(.network))
            $0.doors[.purchase] = door
        } configuration: {
            if !isFinished { $0.acknowledgedKinds = [.autoRenewable] }
        }
        await rig.launch()
        let sheet = Task { [store = rig.store] in await store.purchase("monthly") }
        await eventually("the sheet is shown") { await door.visitors == 1 }
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        if isFinished { await eventually("finished") { rig.device.state.finished == ["1"] } }
        await door.open()
        #expect(await sheet.value.purchase?.transactionID == "1")
    }

    @Test("what the store lists late of long ago is no purchase that failed meanwhile", arguments: [true, false])
    func listedLate(_ isUnfinished: Bool) async {
        let (list, sheetDoor) = (Door(), Door())
        let old = Statements.transaction("1", product: "coins", until: nil, type: "Consumable")
        let rig = KitRig(day: 400) {
            if isUnfinished { $0.unfinished = [old] } else { $0.all = [old] }
            $0.doors = [isUnfinished ? .unfinishedTransactions : .allTransactions: list, .purchase: sheetDoor]
            $0.purchase = .failure(PurchaseError(.network))
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.store.start()
        await eventually("the list is asked for") { await list.visitors > 0 }
        let sheet = Task { [store = rig.store] in await store.purchase("coins") }
        await eventually("the sheet is shown") { await sheetDoor.visitors == 1 }
        await list.open()
        await eventually("the list is there") { await rig.store.ledger.book.transactions["1"] != nil }
        await sheetDoor.open()
        #expect(await sheet.value == .failed(PurchaseError(.network, of: "coins")))
    }

    @Test("another customer's renewal that is delivered while a purchase fails is not that purchase")
    func othersRenewal() async {
        let (ann, bob, sheetDoor) = (UUID(), UUID(), Door())
        let rig = KitRig(day: 30) {
            $0.doors[.purchase] = sheetDoor
            $0.purchase = .failure(PurchaseError(.network))
        }
        await rig.launch()
        await rig.store.identify(customerID: ann.uuidString, token: "a")
        await rig.store.settled()
        let sheet = Task { [store = rig.store] in await store.purchase("monthly") }
        await eventually("the sheet is shown") { await sheetDoor.visitors == 1 }
        rig.device.push(Statements.transaction("2", original: "1", from: 30, until: 60, token: bob, renewal: true))
        await eventually("it is known") { await rig.store.ledger.book.transactions["2"] != nil }
        await sheetDoor.open()
        #expect(await sheet.value == .failed(PurchaseError(.network, of: "monthly")))
    }

    @Test("a purchase that the store listed before the call threw counts as a success")
    func readBefore() async {
        let sheetDoor = Door()
        let rig = KitRig {
            $0.doors[.purchase] = sheetDoor
            $0.purchase = .failure(PurchaseError(.network))
        }
        await rig.launch()
        let sheet = Task { [store = rig.store] in await store.purchase("monthly") }
        await eventually("the sheet is shown") { await sheetDoor.visitors == 1 }
        // Whoever confirms it in their bank's app comes back to the app before the call ends.
        rig.device.edit { $0.unfinished = [Statements.transaction("1", from: 1)] }
        await rig.store.applicationWillEnterForeground()
        await rig.waitUntilGives()
        await sheetDoor.open()
        #expect(await sheet.value.purchase?.transactionID == "1")
    }
}
