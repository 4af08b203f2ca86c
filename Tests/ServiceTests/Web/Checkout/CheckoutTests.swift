import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StripeAPI
import TestSupport
import Testing

@testable import Service

@Suite("Buying on the web", .timeLimit(.minutes(5)))
struct CheckoutTests {
    private static let pro = #"{"product_id":"pro"}"#

    @Test("a checkout names the customer in every place from which something may come back")
    func everyPlace() async throws {
        let shop = try await CheckoutShop.make()
        let answer = try await shop.post("c-1", "checkout", #"{"product_id":"pro","external_purchase_token":"e30"}"#)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try answer.json["object"] == .string("checkout") && answer.json["id"] == .string("cs_1"))
        #expect(try answer.json["url"] == .string("https://checkout.stripe.com/c/pay/cs_1"))
        #expect(try answer.json["expires_at"] == .string("2026-11-21T12:00:00.000Z"))
        #expect(try answer.json["product_id"] == .string("pro"))
        #expect(answer.headers.contains { $0 == ("Cache-Control", "no-store") })
        let sent = try #require(shop.asked.posted.first)
        #expect(sent.target == "/v1/checkout/sessions" && sent.headers["Stripe-Version"] == StripeClient.version)
        #expect(sent.headers["Authorization"] == "Bearer rk_live_1")
        #expect(
            sent.form == [
                "mode": "subscription", "line_items[0][price]": "price_1", "line_items[0][quantity]": "1",
                "success_url": "https://example.com/thanks?session={CHECKOUT_SESSION_ID}",
                "cancel_url": "https://example.com/plans", "client_reference_id": "c-1",
                "metadata[rightful_customer_id]": "c-1", "metadata[rightful_product_id]": "pro",
                "metadata[rightful_external_purchase_token]": "e30",
                "subscription_data[metadata][rightful_customer_id]": "c-1",
                "subscription_data[metadata][rightful_product_id]": "pro",
                "subscription_data[metadata][rightful_external_purchase_token]": "e30",
            ])
        #expect(try await shop.post("c-1", "checkout", #"{"product_id":"lifetime"}"#).status == 200)
        let once = try #require(shop.asked.posted.last)
        #expect(once.form["mode"] == "payment" && once.form["customer_creation"] == "always")
        #expect(once.form["payment_intent_data[metadata][rightful_customer_id]"] == "c-1")
        #expect(once.form["subscription_data[metadata][rightful_customer_id]"] == nil)
        #expect(Set(shop.asked.posted.compactMap { $0.headers["Idempotency-Key"] }).count == 2)
        // Nothing is known of a purchase that nobody has paid.
        #expect(try await shop.stripe.access("c-1") == [])
    }

    @Test("a command that is sent again opens no second page, also after a crash between Stripe and the ledger")
    func again() async throws {
        let shop = try await CheckoutShop.make()
        let key = [("Idempotency-Key", "tap-1")]
        let first = try await shop.post("c-1", "checkout", Self.pro, headers: key)
        let second = try await shop.post("c-1", "checkout", Self.pro, headers: key)
        #expect(first.status == 200 && first.text == second.text && shop.asked.posted.count == 1)
        let other = try await shop.post("c-1", "checkout", #"{"product_id":"lifetime"}"#, headers: key)
        #expect(other.verdict == "409 idempotency_conflict")
        // What was not kept is asked for under the same key of Stripe's.
        try await shop.rig.pool.withConnection { try $0.execute(script: "DELETE FROM command_key") }
        #expect(try await shop.post("c-1", "checkout", Self.pro, headers: key).text == first.text)
        #expect(Set(shop.asked.posted.compactMap { $0.headers["Idempotency-Key"] }).count == 1)
    }

    @Test("whoever has a product that goes on is not sold it again unless they say so")
    func owned() async throws {
        let shop = try await CheckoutShop.make()
        #expect(try await shop.stripe.deliver(StripeBody.paid).status == 200)
        let running = StripeBody.event(
            "customer.subscription.updated", StripeBody.subscription(), id: "evt_2", created: StripeRig.noon - 50)
        #expect(try await shop.stripe.deliver(running).status == 200)
        #expect(try await shop.stripe.access("c-1") == ["web_checkout active"])
        let answer = try await shop.post("c-1", "checkout", Self.pro)
        #expect(answer.verdict == "409 already_owned" && answer.text.contains("web_checkout"), "\(answer.text)")
        #expect(shop.asked.posted.isEmpty)
        // Another product, somebody else, and whoever insists.
        #expect(try await shop.post("c-1", "checkout", #"{"product_id":"lifetime"}"#).status == 200)
        #expect(try await shop.post("c-2", "checkout", Self.pro).status == 200)
        #expect(try await shop.post("c-1", "checkout", #"{"product_id":"pro","buy_again":true}"#).status == 200)
        // What ends can be bought anew.
        let cancelled = StripeBody.event(
            "customer.subscription.updated", StripeBody.subscription(cancels: true), id: "evt_3",
            created: StripeRig.noon - 40)
        #expect(try await shop.stripe.deliver(cancelled).status == 200)
        #expect(try await shop.post("c-1", "checkout", Self.pro).status == 200)
        #expect(try await shop.rig.verdictOfVerify() == nil)
    }

    @Test(
        "a button that is pressed twice, or on two devices, leads to one page, for as long as it is open"
    )
    func onePage() async throws {
        let shop = try await CheckoutShop.make()
        func page(_ body: String = Self.pro, _ key: String? = nil, to customer: String = "c-1") async throws -> String {
            let answer = try await shop.post(
                customer, "checkout", body, headers: key.map { [("Idempotency-Key", $0)] } ?? [])
            #expect(answer.status == 200, "\(answer.text)")
            return answer.text
        }
        async let (left, right) = (page(), page(Self.pro, "phone"))
        let first = try await left
        #expect(try await right == first)
        #expect(try await page(Self.pro, "tablet") == first)
        #expect(try await page(to: "c-2") != first)
        #expect(try await page(#"{"product_id":"lifetime"}"#) != first)
        #expect(try await page(#"{"product_id":"pro","success_url":"https://example.com/x"}"#) != first)
        // Whoever insists buys once for each key of their own.
        let again = #"{"product_id":"pro","buy_again":true}"#
        let twice = [try await page(again, "one"), try await page(again, "two"), try await page(again, "one")]
        #expect(Set(twice).count == 2 && twice[0] == twice[2])
        // A page that is over is no page.
        shop.rig.clock.now = shop.rig.clock.now.adding(milliseconds: 24 * 3_600_000)
        shop.asked.pass(seconds: 86_400)
        let second = try await page()
        #expect(second != first)
        // What was bought elsewhere, and has ended, closes no page.
        let other = StripeBody.event("invoice.paid", StripeBody.invoice("c-1", subscription: "sub_9"), id: "evt_9")
        #expect(
            try await shop.stripe.deliver(other, header: StripeRig.header(other, at: StripeRig.noon + 86_400)).status
                == 200)
        #expect(try await page() == second)
    }

    @Test("a failure that Stripe keeps for the key of a page is left behind, with the page that nobody saw")
    func keptFailure() async throws {
        let shop = try await CheckoutShop.make()
        shop.asked.failPosts(count: 1, status: 500)
        let answer = try await shop.post("c-1", "checkout", Self.pro)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try await shop.post("c-1", "checkout", Self.pro).text == answer.text)
    }

    @Test("an Idempotency-Key is the customer's own, in their environment")
    func keys() async throws {
        let shop = try await CheckoutShop.make()
        let key = [("Idempotency-Key", "1")]
        var pages: Set<String> = []
        for customer in ["c-1", "c-2"] {
            let answer = try await shop.post(
                customer, "checkout", Self.pro, key: try await shop.rig.token(customer), headers: key)
            #expect(answer.status == 200, "\(answer.text)")
            pages.insert(answer.text)
        }
        #expect(pages.count == 2)
        let device = try await shop.rig.publishableKey(environment: nil)
        for instant in [0, 1] {
            // The app transaction is signed anew, and the order is the same.
            shop.rig.clock.now = shop.rig.clock.now.adding(milliseconds: Int64(instant) * 1000)
            let mine = try shop.rig.signAppTransaction("704")
            let answer = try await shop.post(
                "apple:704", "checkout", #"{"product_id":"pro","app_transaction":"\#(mine)"}"#, key: device,
                headers: key)
            #expect(answer.status == 200, "\(answer.text)")
        }
    }

    @Test("nobody is sold what Stripe charges them for, or tries to, by another price of the same product too")
    func charged() async throws {
        let shop = try await CheckoutShop.make()
        #expect(
            try await shop.rig.put(
                """
                {"products":[{"product_id":"pro","entitlements":["premium"],
                "stripe":{"price":"price_1","product":"prod_1","mode":"subscription"}},
                {"product_id":"yearly","entitlements":["premium"],
                "stripe":{"price":"price_3","product":"prod_1","mode":"subscription"}},
                {"product_id":"bundle","entitlements":["premium"],"stripe":{"price":"price_4","mode":"payment"}}]}
                """
            ).status == 200)
        func say(_ status: String, _ number: Int, cancels: Bool = false) async throws {
            let event = StripeBody.event(
                "customer.subscription.updated", StripeBody.subscription(status: status, cancels: cancels),
                id: "evt_\(number)", created: StripeRig.noon - 60 + Int64(number))
            #expect(try await shop.stripe.deliver(event).status == 200)
        }
        func verdict(_ product: String) async throws -> String {
            try await shop.post("c-1", "checkout", #"{"product_id":"\#(product)"}"#).verdict
        }
        // Its bank takes days, so nothing is paid yet.
        try await say("active", 1)
        #expect(try await verdict("pro") == "409 already_owned")
        #expect(try await verdict("yearly") == "409 already_owned")
        #expect(try await shop.post("c-1", "checkout", #"{"product_id":"bundle"}"#).status == 200)
        try await say("past_due", 2, cancels: true)
        #expect(try await verdict("pro") == "409 already_owned")
        for (number, status) in ["unpaid", "incomplete", "paused"].enumerated() {
            try await say(status, 3 + number)
            #expect(try await shop.post("c-1", "checkout", Self.pro).status == 200, "\(status)")
        }
        // What reaches further hides it, and it is held all the same.
        try await say("active", 6)
        #expect(try await shop.stripe.deliver(StripeBody.paid).status == 200)
        let grant = try await shop.post("c-1", "actions/grant", #"{"entitlement":"premium","reason":"r"}"#)
        #expect(grant.status == 200, "\(grant.text)")
        #expect(try await verdict("pro") == "409 already_owned")
    }

    @Test("what was transferred somebody else has paid for: neither their portal nor their card goes with it")
    func transferred() async throws {
        let shop = try await CheckoutShop.make()
        #expect(try await shop.stripe.deliver(StripeBody.paid).status == 200)
        let transfer = try await shop.post(
            "c-1", "actions/transfer", #"{"original_transaction_id":"sub_1","to":"c-2"}"#)
        #expect(transfer.status == 200, "\(transfer.text)")
        #expect(try await shop.post("c-2", "portal", "{}").verdict == "404 not_found")
        #expect(try await shop.post("c-1", "portal", "{}").verdict == "404 not_found")
        #expect(try await shop.post("c-2", "checkout", #"{"product_id":"lifetime"}"#).status == 200)
        #expect(shop.asked.posted.last?.form["customer"] == nil)
    }

    @Test("each environment sells by its own price, and tells its own")
    func sandboxPrice() async throws {
        let asked = ScriptedStripe(.sandbox)
        let clock = TestClock(try instant(ServiceRig.noon))
        let stripe = try await StripeRig.make(shops: [.sandbox: try asked.shop(clock)])
        let shop = CheckoutShop(stripe: stripe, asked: asked)
        #expect(
            try await shop.rig.put(
                """
                {"products":[{"product_id":"pro","entitlements":["premium"],"stripe":{"price":"price_1",
                "product":"prod_1","mode":"subscription","sandbox_price":"price_t1","sandbox_product":"prod_t1"}}]}
                """
            ).status == 200)
        asked.answer(
            "/v1/prices/price_t1",
            #"{"id":"price_t1","object":"price","active":true,"currency":"usd","unit_amount":1}"#)
        let body = #"{"product_id":"pro","environment":"sandbox"}"#
        #expect(try await shop.post("c-1", "checkout", body).status == 200)
        #expect(asked.posted.last?.form["line_items[0][price]"] == "price_t1")
        let listed = try await shop.rig.get("/v1/products?environment=sandbox").json["items"]?[0]?["web"]
        #expect(listed?["amount"] == .int(1))
    }

    @Test("whoever bought before stays the same customer of Stripe's, unless they were deleted there")
    func sameCustomer() async throws {
        let shop = try await CheckoutShop.make()
        #expect(try await shop.stripe.deliver(StripeBody.paid).status == 200)
        #expect(try await shop.post("c-1", "checkout", #"{"product_id":"lifetime"}"#).status == 200)
        #expect(shop.asked.posted.last?.form["customer"] == "cus_sub_1")
        #expect(shop.asked.asked.allSatisfy { $0.method == "POST" }, "the log knows who paid")
        #expect(shop.asked.posted.last?.form["customer_creation"] == nil)
        let portal = try await shop.post("c-1", "portal", "{}")
        #expect(try portal.json["object"] == .string("portal"), "\(portal.text)")
        #expect(try portal.json["url"] == .string("https://billing.stripe.com/p/2"))
        let plain = ["customer": "cus_sub_1", "return_url": "https://example.com/plans"]
        #expect(shop.asked.posted.last?.form == plain)
        // Whoever says nothing need not send a body.
        #expect(try await shop.post("c-1", "portal", "").status == 200)
        #expect(shop.asked.posted.last?.form == plain)
        shop.asked.delete(customer: "cus_sub_1")
        let elsewhere = #"{"product_id":"lifetime","success_url":"https://example.com/elsewhere"}"#
        #expect(try await shop.post("c-1", "checkout", elsewhere).status == 200)
        #expect(shop.asked.posted.last?.form["customer"] == nil)
        #expect(try await shop.post("c-2", "portal", "{}").verdict == "404 not_found")
    }

    @Test("what Stripe answers badly is told as what it is, and the key is told to nobody")
    func failures() async throws {
        let shop = try await CheckoutShop.make()
        func verdict(_ status: Int, _ body: String, _ headers: [String: String] = [:]) async throws -> String {
            shop.asked.fail(status, body, headers: headers)
            defer { shop.asked.fail(nil) }
            let answer = try await shop.post("c-1", "checkout", Self.pro)
            #expect(!answer.text.contains("rk_live_1"))
            let wait = answer.headers.first { $0.0 == "Retry-After" }?.1
            return "\(answer.verdict) \(wait ?? "-")"
        }
        func error(_ message: String) -> String {
            #"{"error":{"type":"invalid_request_error","message":"\#(message)"}}"#
        }
        #expect(try await verdict(500, "") == "503 unavailable 5")
        #expect(try await verdict(429, error("slow down"), ["Retry-After": "7"]) == "503 unavailable 7")
        #expect(try await verdict(401, error("Invalid key rk_live_1")) == "503 unavailable 5")
        // What only the operator can mend is nobody else's fault, and Stripe's words about it are for the log.
        for (status, words) in [
            (400, "No such price: 'price_1'"), (402, "pay your bill"), (404, "No such price"), (403, "lacks it"),
            (302, ""),
        ] {
            #expect(try await verdict(status, error(words)) == "503 unavailable 5", "\(words)")
        }
        shop.asked.fail(
            400, #"{"error":{"type":"invalid_request_error","param":"success_url","message":"Not a valid URL"}}"#)
        let page = try await shop.post("c-1", "checkout", Self.pro)
        #expect(page.verdict == "422 unprocessable" && page.text.contains("Not a valid URL"))
        shop.asked.fail(nil)
        #expect(try await verdict(200, "{}") == "503 unavailable 5")
        #expect(try await verdict(200, "<html>") == "503 unavailable 5")
        let other = #"{"id":"cs_1","livemode":false,"url":"https://checkout.stripe.com/c"}"#
        #expect(try await verdict(200, other) == "503 unavailable 5", "of the test mode")
        #expect(!shop.rig.log.lines.contains { $0.contains("rk_live_1") })
        // What is not sold, or not here.
        #expect(try await shop.post("c-1", "checkout", #"{"product_id":"none"}"#).verdict == "422 unprocessable")
        let sandbox = #"{"product_id":"pro","environment":"sandbox"}"#
        #expect(try await shop.post("c-1", "checkout", sandbox).verdict == "403 wrong_environment")
        #expect(try await shop.post("c-1", "checkout", "{}").verdict == "400 malformed_request")
    }

    @Test("products come with the price that was read last, and its age")
    func products() async throws {
        let shop = try await CheckoutShop.make()
        func price(_ id: String, _ amount: Int, _ rest: String) {
            shop.asked.answer(
                "/v1/prices/\(id)",
                #"{"id":"\#(id)","object":"price","active":true,"currency":"EUR","unit_amount":\#(amount)\#(rest)}"#)
        }
        price("price_1", 999, #","recurring":{"interval":"month","interval_count":3}"#)
        let device = try await shop.rig.publishableKey(environment: nil)
        let answer = try await shop.rig.send("GET", "/v1/products?environment=production", key: device)
        #expect(answer.status == 200, "\(answer.text)")
        let json = try answer.json
        let items = json["items"]
        #expect(items?.count == 2 && json["has_more"] == .bool(false))
        #expect(items?[1]?["product_id"] == .string("pro") && items?[1]?["app_store"] == .bool(true))
        #expect(items?[1]?["entitlements"] == .array([.string("premium")]))
        #expect(items?[1]?["web"]?["amount"] == .int(999) && items?[1]?["web"]?["currency"] == .string("eur"))
        #expect(items?[1]?["web"]?["interval"] == .string("month") && items?[1]?["web"]?["interval_count"] == .int(3))
        #expect(items?[1]?["web"]?["as_of"] == .string(ServiceRig.noon))
        #expect(items?[0]?["web"] == .null, "Stripe does not know it")
        // Read once, until it is old; and what is old is better than nothing.
        let count = shop.asked.asked.count
        _ = try await shop.rig.get("/v1/products")
        #expect(shop.asked.asked.count == count)
        shop.rig.clock.now = shop.rig.clock.now.adding(milliseconds: 10 * 60_000)
        shop.asked.fail(500)
        let old = try await shop.rig.get("/v1/products").json["items"]?[1]?["web"]
        #expect(old?["amount"] == .int(999) && old?["as_of"] == .string(ServiceRig.noon))
        shop.asked.fail(nil)
        // Where nothing is sold on the web, nobody is asked.
        let sandbox = try await shop.rig.get("/v1/products?environment=sandbox").json["items"]
        #expect(sandbox?.count == 2 && sandbox?[0]?["web"] == .null)
        #expect(try await shop.rig.send("GET", "/v1/products").verdict == "401 unauthenticated")
    }
}
