import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a page that was left stands in the way", .timeLimit(.minutes(1)))
struct LeftPageTests {
    /// A page of one product was left in some way, and something is to be bought.
    struct Situation: Sendable, CustomTestStringConvertible {
        let opened: String
        let how: CheckoutReturn
        let wanted: String
        let channel: PurchaseChannel

        var testDescription: String { "\(opened) \(how), then \(wanted) via \(channel)" }
    }

    static let situations =
        [PurchaseChannel.web, .webFirst, .storeKit].flatMap { channel in
            [CheckoutReturn.left, .completed].flatMap { how in
                [
                    Situation(opened: "monthly", how: how, wanted: "yearly", channel: channel),
                    Situation(opened: "yearly", how: how, wanted: "monthly", channel: channel),
                ]
            }
        } + [Situation(opened: "monthly", how: .left, wanted: "monthly", channel: .storeKit)]

    @Test(
        "the error says which page it is, and giving it up for what is wanted lets that be bought",
        arguments: situations)
    func givenUp(_ situation: Situation) async throws {
        let payer = Payer { _ in situation.how }
        let rig = PaidOnceTests.rig(payer)
        rig.device.edit { $0.purchase = .success(.userCancelled) }
        #expect(await rig.buy(situation.opened, via: .web, payer).outcome == .pending)
        let page = try #require(rig.server.lastPage)

        guard case .failed(let error) = await rig.buy(situation.wanted, via: situation.channel, payer).outcome else {
            Issue.record("it was sold beside the page")
            return
        }
        #expect(error.reason == .checkoutUnfinished && error.productID == situation.wanted)
        let unfinished = try #require(error.unfinishedCheckout)
        #expect(unfinished.id == page && unfinished.productID == situation.opened)
        #expect(unfinished.isCompleted == (situation.how == .completed))
        #expect(await rig.store.unfinishedCheckouts() == [unfinished])

        #expect(await rig.store.abandonCheckout(of: try #require(error.productID)))
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
        await payer.set { _ in .cancelled }
        let (pages, sheets) = (await payer.pages.count, rig.device.state.purchases.count)
        #expect(await rig.buy(situation.wanted, via: situation.channel, payer).outcome == .userCancelled)
        #expect(await payer.pages.count + rig.device.state.purchases.count == pages + sheets + 1)
        #expect(await !rig.store.abandonCheckout(of: situation.wanted), "there is none any more")
    }

    @Test("a page left for another product blocks no purchase, and is not given up with it")
    func somethingElse() async {
        let payer = Payer { _ in .left }
        let rig = PaidOnceTests.rig(payer)
        _ = await rig.buy("lifetime", via: .web, payer)
        #expect(await rig.buy("monthly", via: .web, payer).outcome == .pending)
        #expect(await rig.store.abandonCheckout(of: "yearly"))
        #expect(await rig.store.unfinishedCheckouts().map(\.productID) == ["lifetime"])
    }
}
