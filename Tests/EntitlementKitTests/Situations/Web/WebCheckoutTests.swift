import EntitlementAPI
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: buying on the web", .timeLimit(.minutes(1)))
struct WebCheckoutTests {
    /// Pays, and follows the page back to the app.
    private static func pays(_ server: ScriptedServer, hears: Bool = true)
        -> @Sendable (CheckoutPage) async
        -> CheckoutReturn
    {
        { page in
            server.pay(page.checkoutID)
            if hears { server.hear(page.checkoutID) }
            return .completed
        }
    }

    @Test("a page that was paid is a purchase, from the web, and nothing was asked of the store's sheet")
    func bought() async throws {
        let payer = Payer()
        let rig = KitRig.web(payer)
        await payer.set(Self.pays(rig.server))
        let report = await rig.store.purchase("monthly", via: .web)
        let purchase = try #require(report.outcome.purchase)
        #expect(report.channel == .web && report.webUnavailability == nil)
        #expect(purchase.originalTransactionID == "sub_\(rig.server.lastPage ?? "")")
        #expect(purchase.entitlements["premium"]?.source == .webCheckout)
        #expect(rig.device.state.purchases.isEmpty)
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
    }

    @Test("the request says for whom, where, and where it leads back to; Apple's tokens go with it")
    func request() async throws {
        let payer = Payer()
        let rig = KitRig.web(payer) {
            $0.tokens = [ExternalLinkToken(type: "ACQUISITION", value: "tok")]
        }
        _ = await rig.buy("lifetime", via: .web, payer)
        let asked = try #require(rig.server.state.shop.asked.first)
        #expect(asked.customerID == "apple:A" && asked.token == nil && !asked.key.isEmpty)
        #expect(asked.body["product_id"]?.text == "lifetime")
        #expect(asked.body["environment"]?.text == "production")
        #expect(asked.body["app"]?.text == Statements.bundleID)
        #expect(asked.body["app_transaction"]?.text == Statements.appTransaction().jws)
        #expect(asked.body["success_url"]?.text == "https://app.example.com/paid")
        #expect(asked.body["cancel_url"]?.text == "https://app.example.com/shop?changed=mind")
        #expect(asked.body["external_purchase_token"]?.text == "tok" && asked.body["buy_again"] == nil)
        let page = try #require(await payer.pages.first)
        #expect(page.url.absoluteString == "https://pay.example.com/cs_\(asked.key)")
        #expect(page.expiresAt == Statements.date(2) && page.externalPurchaseTokens.map(\.value) == ["tok"])
    }

    @Test("a page that was cancelled is an outcome and no error, and keeps nobody from buying in the store")
    func cancelled() async {
        let payer = Payer { _ in .cancelled }
        let rig = KitRig.web(payer) { $0.purchase = .success(.success(Statements.transaction("1"))) }
        let report = await rig.buy("monthly", via: .web, payer)
        #expect(report.outcome == .userCancelled && report.channel == .web)
        #expect(await rig.store.purchase("monthly").purchase != nil)
    }

    @Test(
        "somebody who pays, closes the page, and changes nothing else holds it all the same", arguments: [true, false])
    func closedAfterPaying(_ cancels: Bool) async {
        let payer = Payer()
        let rig = KitRig.web(payer)
        await payer.set { [server = rig.server] page in
            server.pay(page.checkoutID)
            server.hear(page.checkoutID)
            return cancels ? .cancelled : .left
        }
        #expect(await rig.store.purchase("monthly", via: .web).outcome.purchase != nil)
    }

    @Test("paid, and not heard of: it is pending, and appears by itself when the server hears of it")
    func lateMessage() async throws {
        let payer = Payer()
        let rig = KitRig.web(payer)
        await payer.set(Self.pays(rig.server, hears: false))
        let report = await rig.buy("monthly", via: .web, payer)
        #expect(report.outcome == .pending)
        #expect(await rig.store.unfinishedCheckouts().map(\.isCompleted) == [true])
        rig.server.hear(try #require(rig.server.lastPage))
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
    }

    @Test("heard of before the page leads back: the purchase is told although the app never says that it was left")
    func neverReturns() async throws {
        let door = Door()
        let payer = Payer()
        let rig = KitRig.web(payer)
        await payer.set { [server = rig.server] page in
            server.pay(page.checkoutID)
            server.hear(page.checkoutID)
            await door.pass()
            return .left
        }
        let report = await rig.buy("monthly", via: .web, payer)
        #expect(report.outcome.purchase != nil)
        await door.open()
    }

    @Test("a page in a browser outside of the app leads back by its address, and the waiting purchase hears of it")
    func universalLink() async throws {
        let door = Door()
        let payer = Payer { _ in
            await door.pass()
            return .left
        }
        let rig = KitRig.web(payer)
        let store = rig.store
        let buying = Task { await store.purchase("monthly", via: .web) }
        await eventually("the page") { await payer.pages.count == 1 }
        let id = try #require(rig.server.lastPage)
        #expect(!(await store.handle(URL(string: "https://app.example.com/elsewhere")!)))
        #expect(!(await store.handle(URL(string: "https://app.example.com/shop")!)), "a query is missing")
        rig.server.pay(id)
        rig.server.hear(id)
        #expect(await store.handle(rig.paidURL()))
        #expect(await buying.value.outcome.purchase != nil)
        await door.open()
    }

    @Test("killed while the page is open: the next launch finds what was paid, and whoever follows the link home, too")
    func killed() async throws {
        let payer = Payer { _ in
            try? await Task.sleep(for: .seconds(3600))
            return .left
        }
        var rig = KitRig.web(payer)
        let store = rig.store
        let buying = Task { await store.purchase("monthly", via: .web) }
        await eventually("the page") { await payer.pages.count == 1 }
        let id = try #require(rig.server.lastPage)
        rig = await rig.relaunched()
        buying.cancel()
        await rig.launch()
        #expect(await rig.store.unfinishedCheckouts().map(\.id) == [id])
        rig.server.pay(id)
        #expect(await rig.store.handle(rig.paidURL()))
        rig.server.hear(id)
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
    }

    @Test("a page that could not be shown is as if it had never been made")
    func notOpened() async {
        let payer = Payer { _ in .notOpened }
        let rig = KitRig.web(payer) { $0.purchase = .success(.success(Statements.transaction("1"))) }
        let report = await rig.store.purchase("monthly", via: .web)
        #expect(report.webUnavailability == .notOpened)
        #expect(
            report.outcome
                == .failed(
                    PurchaseError(.webUnavailable, of: "monthly", detail: "not_opened", webUnavailability: .notOpened)))
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
        let other = await rig.store.purchase("monthly", via: .webFirst)
        #expect(other.channel == .storeKit && other.webUnavailability == .notOpened && other.outcome.purchase != nil)
    }

    @Test("a page that cannot be kept is not opened: it would be forgotten with the end of the app")
    func fullDisk() async {
        let payer = Payer()
        let rig = KitRig.web(payer)
        await rig.launch()
        await rig.storage.setFull(true)
        #expect(await rig.store.purchase("monthly", via: .web).webUnavailability == .notKept)
        #expect(await payer.pages.isEmpty)
    }

    @Test("somebody else logs in while the page is being made: nothing is opened, and nothing bought in the store")
    func customerChanges() async {
        let door = Door()
        let payer = Payer()
        let rig = KitRig.web(payer) { _ in
        } server: {
            $0.shop.door = door
        }
        let store = rig.store
        let buying = Task { await store.purchase("monthly", via: .webFirst) }
        await eventually("asked") { await door.visitors == 1 }
        await store.identify(customerID: "c-2", token: "t")
        await door.open()
        #expect(
            await buying.value.outcome
                == .failed(PurchaseError(.customerChanged, of: "monthly", detail: "nothing was opened")))
        #expect(await payer.pages.isEmpty && rig.device.state.purchases.isEmpty)
    }

    @Test("a token that is over is asked for once more, and whoever has none is told so")
    func refusedToken() async throws {
        let payer = Payer()
        let tokens = Tokens()
        let rig = KitRig.web(payer) { _ in
        } server: {
            $0.shop.refusedTokens = ["old", "1"]
        } configuration: {
            $0.tokenProvider = { _ in await tokens.next() }
        }
        await rig.store.identify(customerID: "c-1", token: "old")
        await rig.store.settled()
        _ = await rig.buy("monthly", via: .web, payer)
        #expect(rig.server.state.shop.asked.map(\.token) == ["old", "1"])
        #expect(rig.server.state.shop.asked.allSatisfy { $0.customerID == "c-1" })
        #expect(Set(rig.server.state.shop.asked.map(\.key)).count == 1, "it is one attempt")
        #expect(await payer.pages.isEmpty)
        _ = await rig.buy("monthly", via: .web, payer)
        #expect(rig.server.state.shop.asked.last?.token == "2")
        #expect(await payer.pages.count == 1)
    }

    private actor Tokens {
        private var count = 0

        func next() -> CustomerToken {
            count += 1
            return CustomerToken("\(count)")
        }
    }

    @Test("the payment provider's placeholder reaches it as it is written, and its value leads to the checkout")
    func placeholder() async throws {
        let payer = Payer()
        let rig = KitRig.web(payer) { _ in
        } configuration: {
            $0.webCheckout?.successURL = URL(string: "https://app.example.com/paid?checkout={CHECKOUT_SESSION_ID}")
        }
        _ = await rig.buy("monthly", payer)
        let asked = try #require(rig.server.state.shop.asked.first)
        #expect(asked.body["success_url"]?.text == "https://app.example.com/paid?checkout={CHECKOUT_SESSION_ID}")
        #expect(await rig.store.handle(rig.paidURL()))
        #expect(await rig.store.unfinishedCheckouts().map(\.isCompleted) == [true])
    }

    @Test("a page for managing what was bought")
    func portal() async throws {
        let rig = KitRig.web(Payer())
        await rig.launch()
        let back = try #require(URL(string: "https://app.example.com/shop"))
        #expect(
            try await rig.store.managementURL(returningTo: back).absoluteString
                == "https://pay.example.com/portal/apple:A")
        rig.server.shop { $0.mood = .status(404) }
        let older = PurchaseError(
            .webUnavailable, detail: "not_offered; HTTP status 404", webUnavailability: .notOffered)
        await #expect(throws: older) { try await rig.store.managementURL(returningTo: back) }
        rig.server.shop { $0.mood = .problem(404, code: "not_found", detail: "Nothing is known.") }
        let nothing = PurchaseError(
            .webUnavailable, detail: "nothing_bought; Nothing is known.", webUnavailability: .nothingBought)
        await #expect(throws: nothing) { try await rig.store.managementURL(returningTo: back) }
        #expect(nothing.description == "it was not done (web_unavailable): nothing_bought; Nothing is known.")
        rig.server.shop {
            $0.mood = .problem(403, code: "forbidden", detail: "It leads elsewhere.", param: "return_url")
        }
        let elsewhere = PurchaseError(
            .webUnavailable, detail: "page_not_allowed; It leads elsewhere.", webUnavailability: .pageNotAllowed)
        await #expect(throws: elsewhere) { try await rig.store.managementURL(returningTo: back) }
    }
}
