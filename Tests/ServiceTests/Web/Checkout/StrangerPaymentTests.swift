import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StoreSimulator
import Testing

@testable import Service

/// Whoever has the address of a Payment Link writes any `client_reference_id` into it, and lets anybody pay there.
@Suite("Payments on the web under a name that the payer wrote", .timeLimit(.minutes(5)))
struct StrangerPaymentTests {
    private static let pro = #"{"product_id":"com.example.pro.monthly"}"#
    private static let lifetime = #"{"product_id":"com.example.lifetime"}"#

    /// Whose portal a customer is led to; `nil` where there is none, which is told as what it is.
    private static func portal(_ customer: String, _ rig: StripeAccountRig) async throws -> String? {
        let answer = try await rig.post(customer, "portal", "{}")
        if answer.verdict == "404 not_found" { return nil }
        guard case .string(let url)? = try answer.json["url"], let id = url.split(separator: "/").last else {
            Issue.record("\(answer.text)")
            return nil
        }
        return rig.account.portal(String(id))?.customer
    }

    /// The page on which a customer pays; `nil` where nothing is sold to them.
    private static func page(_ customer: String, _ body: String, _ rig: StripeAccountRig) async throws -> StripeSession?
    {
        let answer = try await rig.post(customer, "checkout", body)
        guard answer.verdict != "409 already_owned" else { return nil }
        guard case .string(let id)? = try answer.json["id"] else {
            Issue.record("\(answer.text)")
            return nil
        }
        return rig.account.session(id)
    }

    @Test("it is theirs whom it names, and neither gives them the payer's portal and card, nor the payer theirs")
    func takeover() async throws {
        let rig = try await StripeAccountRig()
        let bought = try await rig.sell(reference: "victim")
        try await rig.deliver()
        let payer = try await rig.payer(of: bought)
        #expect(try await rig.stripe.access("victim") == ["web_checkout active"], "as the contract says")
        let answer = try await rig.post("victim", "portal", "{}")
        #expect(answer.verdict == "404 not_found" && answer.text.contains("rightful_customer_id"), "\(answer.text)")
        let page = try #require(try await Self.page("victim", Self.lifetime, rig))
        #expect(page.customer == nil, "who pays is asked anew")
        #expect(try await Self.page("victim", Self.pro, rig) == nil, "they have it")
        // When the seller says so, too, it is known who paid.
        _ = try await rig.ask("POST", "subscriptions/\(bought)", ["metadata[rightful_customer_id]": "victim"])
        try await rig.deliver()
        #expect(try await Self.portal("victim", rig) == payer)
        #expect(try await rig.stripe.verify().isProven)
        await rig.stop()
    }

    @Test(
        "a payment that never arrives, made under somebody's name, keeps them from nothing; their own is waited for",
        arguments: ["pi_9", "sub_1"], [false, true])
    func lockout(original: String, isOwn: Bool) async throws {
        let shop = try await CheckoutShop.make()
        let metadata = isOwn ? StripeBody.metadata("victim") : "{}"
        let isOnce = original == "pi_9"
        let session = """
            {"id":"cs_1","object":"checkout.session","mode":"\(isOnce ? "payment" : "subscription")","livemode":true,
            "payment_status":"unpaid","status":"complete","\(isOnce ? "payment_intent" : "subscription")":"\(original)",
            "customer":"cus_stranger","created":\(StripeRig.noon - 90),"client_reference_id":"victim","metadata":\(metadata),
            "line_items":{"object":"list","data":[{"id":"li_1","object":"item","price":{"id":"price_2","object":"price",
            "product":"prod_2"}}],"has_more":false}}
            """
        let subscription = StripeBody.subscription(status: "incomplete").replacing(
            StripeBody.metadata("c-1"), with: metadata)
        for event in [
            StripeBody.event("checkout.session.completed", session, id: "evt_cs"),
            StripeBody.event("customer.subscription.created", subscription, id: "evt_sub"),
        ].prefix(isOnce ? 1 : 2) {
            #expect(try await shop.stripe.deliver(event).status == 200)
        }
        shop.asked.answer("/v1/payment_intents/pi_9", #"{"id":"pi_9","status":"processing"}"#)
        shop.asked.answer("/v1/subscriptions/sub_1", #"{"id":"sub_1","status":"incomplete"}"#)
        let answer = try await shop.post("victim", "checkout", #"{"product_id":"\#(isOnce ? "lifetime" : "pro")"}"#)
        #expect(answer.verdict == (isOwn ? "409 already_owned" : "200 -"), "\(answer.text)")
        #expect(isOwn || shop.asked.pages.last?.form["customer"] == nil)
    }

    @Test("a newer payment under their name takes neither portal nor card from whoever bought by a checkout of ours")
    func ownPortal() async throws {
        let rig = try await StripeAccountRig()
        let own = try await rig.sell(to: "victim")
        try await rig.deliver()
        let payer = try await rig.payer(of: own)
        #expect(try await Self.portal("victim", rig) == payer)
        let strangers = try await rig.sell(reference: "victim")
        try await rig.deliver()
        #expect(try await rig.payer(of: strangers) != payer)
        #expect(try await Self.portal("victim", rig) == payer)
        #expect(try await Self.page("victim", Self.lifetime, rig)?.customer == payer)
        await rig.stop()
    }

    @Test("a team's own list, and metadata of Stripe's customers, say who paid; a list is told from a reference")
    func imported() async throws {
        let rig = try await StripeAccountRig()
        let listed = try await rig.sell()
        let known = try await rig.sell(of: ["user_id": "c-2"])
        let referred = try await rig.sell(reference: "c-3")
        _ = try await rig.imported(ownerMetadata: "user_id", owners: [OwnerLine(listed, "c-1")])
        #expect(try await Self.portal("c-1", rig) == rig.payer(of: listed))
        #expect(try await Self.portal("c-2", rig) == rig.payer(of: known))
        #expect(try await Self.portal("c-3", rig) == nil)
        // A list that names them as the reference does.
        _ = try await rig.imported(owners: [OwnerLine(referred, "c-3")])
        #expect(try await Self.portal("c-3", rig) == rig.payer(of: referred))
        #expect(try await rig.stripe.verify().isProven)
        await rig.stop()
    }
}
