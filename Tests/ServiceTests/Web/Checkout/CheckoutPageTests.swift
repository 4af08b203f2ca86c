import EntitlementAPI
import EntitlementCore
import HTTPServer
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

@Suite("What becomes of a page on which something is to be paid", .timeLimit(.minutes(5)))
struct CheckoutPageTests {
    private static let pro = #"{"product_id":"pro"}"#
    private static let lifetime = #"{"product_id":"lifetime"}"#

    /// The id of the session that a customer is led to; `nil` where nothing is sold to them.
    private static func page(_ shop: CheckoutShop, _ body: String = pro) async throws -> String? {
        let answer = try await shop.post("c-1", "checkout", body)
        if answer.verdict == "409 already_owned" { return nil }
        let id = try answer.json["id"]
        guard case .string(let id)? = id else {
            Issue.record("\(answer.text)")
            return nil
        }
        return id
    }

    private static func used(_ payment: String, _ expanded: String) -> String {
        #""status":"complete","payment_status":"\#(payment)",\#(expanded)"#
    }

    @Test("a page that leads back elsewhere takes the place of the one that was open, so that nobody pays on both")
    func replaced() async throws {
        let shop = try await CheckoutShop.make()
        let website = try #require(try await Self.page(shop))
        let app = #"{"product_id":"pro","success_url":"https://example.com/app"}"#
        let link = try #require(try await Self.page(shop, app))
        #expect(link != website && shop.asked.expired == [website])
        #expect(try await Self.page(shop, app) == link)
        let token = #"{"product_id":"pro","success_url":"https://example.com/app","external_purchase_token":"e30"}"#
        #expect(try await Self.page(shop, token) != link)
        #expect(shop.asked.expired == [website, link])
        // A page of another product stays.
        #expect(try await Self.page(shop, Self.lifetime) != nil)
        #expect(shop.asked.expired == [website, link])
    }

    @Test("what was paid on a page is not sold again before Stripe's word for it is here, and can be when it has ended")
    func paid() async throws {
        let shop = try await CheckoutShop.make()
        let page = try #require(try await Self.page(shop))
        shop.asked.settle(page, as: Self.used("paid", #""subscription":{"id":"sub_1","status":"active"}"#))
        #expect(try await Self.page(shop) == nil, "the webhook is on its way")
        #expect(try await Self.page(shop, #"{"product_id":"pro","buy_again":true}"#) != nil)
        #expect(try await shop.stripe.deliver(StripeBody.paid).status == 200)
        let updates = [
            StripeBody.subscription(), StripeBody.subscription(status: "canceled", endedAt: StripeRig.noon - 10),
        ]
        for (number, update) in updates.enumerated() {
            let event = StripeBody.event(
                "customer.subscription.updated", update, id: "evt_s\(number)",
                created: StripeRig.noon - 50 + Int64(number))
            #expect(try await shop.stripe.deliver(event).status == 200)
            let other = try await Self.page(shop)
            #expect((other == nil) == (number == 0) && other != page)
        }
    }

    @Test(
        "while a payment is under way nothing is sold beside it; when it has failed, another page is opened",
        arguments: [
            ("pi_9", "processing", "requires_payment_method"), ("pi_9", "requires_action", "canceled"),
            ("sub_9", "incomplete", "incomplete_expired"),
        ])
    func underWay(original: String, status: String, failed: String) async throws {
        let shop = try await CheckoutShop.make()
        let isOnce = original == "pi_9"
        let body = isOnce ? Self.lifetime : Self.pro
        let page = try #require(try await Self.page(shop, body))
        func object(_ status: String) -> String { #"{"id":"\#(original)","status":"\#(status)"}"# }
        func settle(_ status: String) {
            shop.asked.settle(
                page, as: Self.used("unpaid", #""\#(isOnce ? "payment_intent" : "subscription")":\#(object(status))"#))
            shop.asked.answer("/v1/\(isOnce ? "payment_intents" : "subscriptions")/\(original)", object(status))
        }
        settle(status)
        #expect(try await Self.page(shop, body) == nil)
        // Also when the day is over for which a page is kept, while Stripe has spoken of the purchase.
        let order =
            isOnce
            ? StripeBody.event(
                "checkout.session.completed",
                StripeBody.session("c-1", reference: "c-1").replacing(
                    #""payment_status":"paid""#, with: #""payment_status":"unpaid""#), id: "evt_cs")
            : StripeBody.event(
                "customer.subscription.created",
                StripeBody.subscription(status: "incomplete").replacing("sub_1", with: "sub_9"), id: "evt_sub")
        #expect(try await shop.stripe.deliver(order).status == 200)
        #expect(try await Self.page(shop, body) == nil)
        try await shop.rig.pool.withConnection { try $0.execute(script: "DELETE FROM command_key") }
        #expect(try await Self.page(shop, body) == nil)
        settle(failed)
        let other = try await Self.page(shop, body)
        #expect(other != nil)
    }

    @Test("what a bank takes its time for is not sold again, before the webhook and after it, until the money is there")
    func bank() async throws {
        let rig = try await StripeAccountRig()
        func sell() async throws -> HTTPResponse {
            try await rig.post("c-1", "checkout", #"{"product_id":"com.example.lifetime"}"#)
        }
        guard case .string(let page)? = try await sell().json["id"] else {
            Issue.record("no page was opened")
            return
        }
        #expect(rig.account.pay(page, by: .bank) != nil)
        rig.advance(2000)
        #expect(try await sell().verdict == "409 already_owned", "the webhook is on its way")
        try await rig.deliver()
        #expect(try await sell().verdict == "409 already_owned", "Stripe has spoken of it")
        // Also when the day is over for which a page is kept.
        try await rig.rig.pool.withConnection { try $0.execute(script: "DELETE FROM command_key") }
        #expect(try await sell().verdict == "409 already_owned", "the page is not known any more")
        rig.advance(30_000)
        try await rig.deliver()
        #expect(try await sell().verdict == "409 already_owned", "the money is there")
        await rig.stop()
    }

    @Test("while Stripe does not tell what became of a page, the customer is led to it: it says so itself")
    func untold() async throws {
        let shop = try await CheckoutShop.make()
        let page = try #require(try await Self.page(shop))
        shop.asked.fail(500)
        #expect(try await Self.page(shop) == page)
        let elsewhere = #"{"product_id":"pro","success_url":"https://example.com/app"}"#
        #expect(try await shop.post("c-1", "checkout", elsewhere).status == 503, "two might be paid")
        shop.asked.fail(nil)
        #expect(try await Self.page(shop, elsewhere) != page)
    }

    @Test("a page that was paid in the instant in which it was to be closed is no reason for another")
    func paidMeanwhile() async throws {
        let shop = try await CheckoutShop.make()
        let page = try #require(try await Self.page(shop))
        shop.asked.settleOnExpiry(page, as: Self.used("paid", #""subscription":{"id":"sub_9","status":"active"}"#))
        let elsewhere = #"{"product_id":"pro","success_url":"https://example.com/app"}"#
        #expect(try await shop.post("c-1", "checkout", elsewhere).status == 503)
        #expect(try await Self.page(shop, elsewhere) == nil)
    }

    @Test(
        "nobody is sold beside a subscription that Stripe will charge for again, be it paused or to end after a year",
        arguments: [
            (#""cancel_at":\#(StripeRig.noon + 360 * 86_400)"#, false),
            (#""cancel_at":\#(StripeRig.noon + 86_400)"#, true),
            (#""cancel_at":null,"pause_collection":{"behavior":"void","resumes_at":null}"#, false),
        ])
    func goesOn(member: String, isSold: Bool) async throws {
        let shop = try await CheckoutShop.make()
        let subscription = StripeBody.subscription().replacing(#""cancel_at":null"#, with: member).replacing(
            #""pause_collection":null,"#, with: "")
        #expect(try await shop.stripe.deliver(StripeBody.paid).status == 200)
        let updated = StripeBody.event(
            "customer.subscription.updated", subscription, id: "evt_2", created: StripeRig.noon - 50)
        #expect(try await shop.stripe.deliver(updated).status == 200)
        #expect((try await Self.page(shop) != nil) == isSold)
    }
}
