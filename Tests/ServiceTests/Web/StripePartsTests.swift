import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Whose it is, by what Stripe calls a part of a purchase", .timeLimit(.minutes(5)))
struct StripePartsTests {
    /// Whom an id leads to, and by which original: `customer original`.
    private static func found(
        _ id: String, _ stripe: StripeRig, key: String? = nil
    ) async throws -> [String] {
        let answer = try await stripe.rig.send(
            "GET", "/v1/customers?transaction_id=\(id)", key: key ?? stripe.rig.admin)
        #expect(answer.status == 200, "\(answer.text)")
        let items = try answer.json["items"]
        return (0..<(items?.count ?? 0)).compactMap { index in
            guard let item = items?[index], case .string(let customer)? = item["customer_id"],
                case .string(let original)? = item["original_transaction_id"]
            else { return nil }
            return "\(customer) \(original)"
        }
    }

    private static func deliver(_ stripe: StripeRig, _ bodies: [(type: String, object: String)]) async throws {
        for (number, body) in bodies.enumerated() {
            let event = StripeBody.event(body.type, body.object, id: "evt_\(number)")
            #expect(try await stripe.deliver(event).status == 200, "\(body.type)")
        }
    }

    /// A session in which a subscription was sold, of which nobody is named elsewhere.
    private static func session(_ id: String, sells subscription: String) -> String {
        StripeBody.session("c-1", reference: "c-1").replacing(#""id":"cs_1""#, with: #""id":"\#(id)""#)
            .replacing(#""mode":"payment""#, with: #""mode":"subscription""#)
            .replacing(#""payment_intent":"pi_9""#, with: #""payment_intent":null"#)
            .replacing(#""subscription":null"#, with: #""subscription":"\#(subscription)""#)
    }

    @Test("sub_, in_, il_, pi_, ch_ and cs_ lead to the customer, paid or not, through transfers; nothing else does")
    func parts() async throws {
        let stripe = try await StripeRig.make()
        let invoice = StripeBody.oldInvoice.replacing(
            #""customer":"cus_1""#, with: #""customer":"cus_1","charge":"ch_1","payment_intent":"pi_1""#)
        let open = StripeBody.invoice().replacing(#""status":"paid""#, with: #""status":"open""#)
            .replacing("in_sub_1", with: "in_open").replacing("il_1", with: "il_open")
        try await Self.deliver(
            stripe,
            [
                ("invoice.paid", invoice), ("checkout.session.completed", Self.session("cs_2", sells: "sub_1")),
                ("invoice.payment_failed", open),
                ("checkout.session.completed", StripeBody.session("c-3", reference: "c-3")),
            ])
        for id in ["sub_1", "in_sub_1", "il_1", "pi_1", "ch_1", "cs_2", "in_open"] {
            #expect(try await Self.found(id, stripe) == ["c-1 sub_1"], "\(id)")
        }
        for id in ["pi_9", "cs_1"] { #expect(try await Self.found(id, stripe) == ["c-3 pi_9"], "\(id)") }
        // A part of an id, another case, a line that is not paid, an item, a customer of Stripe's, an event.
        for id in ["in_sub", "IN_SUB_1", "il_open", "si_1", "cus_1", "evt_1", "in_sub_1%25"] {
            #expect(try await Self.found(id, stripe).isEmpty, "\(id)")
        }
        let event = try await stripe.rig.get("/v1/events/5").json
        #expect(event["facts"]?["mentioned"] == .array([.string("in_open")]))
        let moved = try await stripe.rig.send(
            "POST", "/v1/customers/c-1/actions/transfer", key: stripe.rig.admin,
            body: Array(#"{"original_transaction_id":"sub_1","to":"c-2"}"#.utf8))
        #expect(moved.status == 200, "\(moved.text)")
        for id in ["sub_1", "ch_1", "cs_2"] { #expect(try await Self.found(id, stripe) == ["c-2 sub_1"], "\(id)") }
        #expect(try await stripe.verify().isProven)
    }

    @Test("what nobody has paid for yet is somebody's, and what was named to belong to nobody is nobody's")
    func unpaid() async throws {
        let stripe = try await StripeRig.make()
        let nobody = StripeBody.invoice(subscription: "sub_2", payments: StripeBody.payment("pi_2"))
            .replacing("rightful_customer_id", with: "x")
        try await Self.deliver(
            stripe,
            [
                ("customer.subscription.created", StripeBody.subscription(status: "incomplete")),
                ("checkout.session.completed", Self.session("cs_2", sells: "sub_1")), ("invoice.paid", nobody),
                ("charge.dispute.created", StripePartsTests.dispute("dp_1", of: "ch_9")),
            ])
        for id in ["sub_1", "cs_2"] { #expect(try await Self.found(id, stripe) == ["c-1 sub_1"], "\(id)") }
        for id in ["sub_2", "pi_2", "in_sub_2", "dp_1", "ch_9"] {
            #expect(try await Self.found(id, stripe).isEmpty, "\(id)")
        }
    }

    static func dispute(_ id: String, of charge: String) -> String {
        """
        {"id":"\(id)","object":"dispute","amount":999,"charge":"\(charge)","created":\(StripeRig.noon - 30),
        "livemode":true,"payment_intent":null,"status":"needs_response"}
        """
    }

    @Test("a key hears of parts in its own environment alone, and of whoever was forgotten nobody hears")
    func environments() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let test = StripeBody.event("invoice.paid", StripeBody.invoice("t-1", live: false), id: "evt_t", live: false)
        #expect(
            try await stripe.deliver(test, header: StripeRig.header(test, [StripeRig.sandbox])).status == 200)
        #expect(try await Self.found("in_sub_1", stripe) == ["c-1 sub_1", "t-1 sub_1"])
        for (environment, customer) in [(StoreEnvironment.production, "c-1"), (.sandbox, "t-1")] {
            let key = try await stripe.rig.keys.create(
                name: "bound", scopes: [.customersRead], environment: environment
            ).secret
            #expect(try await Self.found("il_1", stripe, key: key) == ["\(customer) sub_1"])
        }
        let forgetter = Forgetter(pool: PostgresPool(stripe.rig.database.ownerConninfo), now: { .earliest })
        #expect(try await forgetter.forget(try #require(CustomerID("c-1"))) != nil)
        #expect(try await Self.found("in_sub_1", stripe) == ["t-1 sub_1"])
    }
}
