import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("What is erased of Stripe's when somebody is forgotten", .timeLimit(.minutes(5)))
struct StripeForgettingTests {
    /// The bodies that are left, by the ids of their events.
    private static func left(_ stripe: StripeRig) async throws -> [String] {
        let bodies = try await stripe.rig.pool.withConnection { connection in
            try connection.query("SELECT encode(parts, 'escape') FROM evidence ORDER BY position").rows.map {
                try $0.text(0)
            }
        }
        return bodies.compactMap { body in body.firstMatch(of: /"(evt_[a-z0-9]+)"/).map { String($0.1) } }
    }

    private static func forget(_ customer: String, _ stripe: StripeRig) async throws -> ForgettingOutcome? {
        try await Forgetter(pool: PostgresPool(stripe.rig.database.ownerConninfo), now: { .earliest }).forget(
            try #require(CustomerID(customer)))
    }

    @Test("webhooks about the payments of whoever is forgotten are erased, though they name nobody; others' stay")
    func forgottenPayments() async throws {
        let stripe = try await StripeRig.make()
        for customer in ["a", "b"] {
            let invoice = StripeBody.invoice(
                "customer-\(customer)", subscription: "sub_\(customer)", payments: StripeBody.payment("pi_\(customer)"))
            let charge = """
                {"id":"ch_\(customer)","object":"charge","amount":999,"amount_refunded":999,"refunded":true,
                "created":\(StripeRig.noon - 60),"livemode":true,"metadata":{},"payment_intent":"pi_\(customer)",
                "billing_details":{"email":"\(customer)@example.com"}}
                """
            let dispute = """
                {"id":"dp_\(customer)","object":"dispute","amount":999,"charge":"ch_\(customer)",
                "created":\(StripeRig.noon - 30),"livemode":true,"payment_intent":null,"status":"needs_response"}
                """
            let person = #"{"id":"cus_sub_\#(customer)","object":"customer","email":"\#(customer)@example.com"}"#
            for (name, type, object) in [
                ("invoice", "invoice.paid", invoice), ("charge", "charge.refunded", charge),
                ("dispute", "charge.dispute.created", dispute), ("person", "customer.updated", person),
            ] {
                let body = StripeBody.event(type, object, id: "evt_\(name)\(customer)")
                #expect(try await stripe.deliver(body).status == 200, "\(name)")
            }
        }
        #expect(try await Self.forget("customer-a", stripe)?.evidence == 4, "the dispute is found by the charge")
        #expect(try await Self.left(stripe) == ["evt_invoiceb", "evt_chargeb", "evt_disputeb", "evt_personb"])
        #expect(try await stripe.access("customer-b") == ["web_checkout active"])
        let summary = try await stripe.verify()
        #expect(summary.isProven && summary.erasedEvidence == 4)
    }

    @Test(
        "whoever paid under another's id takes what they paid along when they are forgotten, and nothing of that one's own",
        arguments: [("payer", ["evt_own"]), ("named", [])])
    func paidUnderAnothersID(forgotten: String, left: [String]) async throws {
        let stripe = try await StripeRig.make()
        let session = """
            {"id":"cs_1","object":"checkout.session","mode":"subscription","payment_status":"paid","status":"complete",
            "subscription":"sub_link","customer":"cus_sub_payer","livemode":true,"client_reference_id":"named",
            "created":\(StripeRig.noon - 90),"metadata":{}}
            """
        for (id, type, object) in [
            ("own", "invoice.paid", StripeBody.invoice("named", subscription: "sub_named")),
            ("payers", "invoice.paid", StripeBody.invoice("payer", subscription: "sub_payer")),
            ("link", "checkout.session.completed", session),
        ] {
            #expect(try await stripe.deliver(StripeBody.event(type, object, id: "evt_\(id)")).status == 200)
        }
        let outcome = try await Self.forget(forgotten, stripe)
        #expect(outcome?.evidence == 3 - left.count && outcome?.sharedMailAddresses == left.count)
        #expect(try await Self.left(stripe) == left, "a customer of Stripe's is one person")
        let other = forgotten == "payer" ? "named" : "payer"
        #expect(try await stripe.access(other) == ["web_checkout active"])
        #expect(try await stripe.verify().isProven)
    }

    @Test("a customer's id is found in webhooks however it is spelt there, and no other id is taken for it")
    func spellings() async throws {
        let stripe = try await StripeRig.make()
        let customer = #"Zoë-7 "z" \ /x"#
        let spelt = [
            #"Zoë-7 \"z\" \\ /x"#, #"Zo\u00eb-7 \"z\" \\ \/x"#, #"Zo\u00EB\u002d7\u0020\u0022z\" \u005c \u002Fx"#,
        ]
        let others = [#"zoë-7 \"z\" \\ /x"#, #"Zoë-7 \"z\" \\ /xy"#, #"Zoë.7 \"z\" \\ /x"#]
        for (number, name) in (spelt + others).enumerated() {
            let object = """
                {"id":"cus_\(number)","object":"customer","metadata": { "rightful_customer_id" : "\(name)" }}
                """
            let body = StripeBody.event("customer.updated", object, id: "evt_c\(number)")
            #expect(try await stripe.deliver(body).status == 200)
        }
        let paid = StripeBody.event("invoice.paid", StripeBody.invoice(spelt[0]), id: "evt_paid")
        #expect(try await stripe.deliver(paid).status == 200)
        #expect(try await Self.forget(customer, stripe)?.evidence == 4)
        #expect(try await Self.left(stripe) == ["evt_c3", "evt_c4", "evt_c5"])
        #expect(try await stripe.verify().erasedEvidence == 4)
    }

    @Test(
        "whoever is named by nothing but a checkout that was abandoned can be forgotten, and nobody else is",
        arguments: [
            #""metadata":{"rightful_customer_id":"visitor"}"#, #""client_reference_id":"visitor","metadata":{}"#,
        ])
    func abandoned(naming: String) async throws {
        let stripe = try await StripeRig.make()
        for (id, named) in [("a", naming), ("b", naming.replacing("visitor", with: "visitor-2"))] {
            let session = """
                {"id":"cs_live_\(id)","object":"checkout.session","status":"expired","mode":"payment","livemode":true,
                "created":\(StripeRig.noon - 60),"payment_status":"unpaid",\(named)}
                """
            let body = StripeBody.event("checkout.session.expired", session, id: "evt_\(id)")
            #expect(try await stripe.deliver(body).status == 200)
        }
        #expect(try await Self.forget("visito", stripe) == nil)
        let outcome = try await Self.forget("visitor", stripe)
        #expect(outcome?.evidence == 1 && outcome?.identities == 0)
        #expect(try await Self.left(stripe) == ["evt_b"])
        #expect(try await Self.forget("visitor", stripe) == nil)
        #expect(try await stripe.verify().isProven)
    }

    // MARK: - By mail addresses

    /// A dispute that nothing ties to a payment that is known.
    private static func dispute(_ name: String, mail: String) -> String {
        """
        {"id":"dp_\(name)","object":"dispute","amount":999,"charge":"ch_\(name)","created":\(StripeRig.noon - 30),
        "livemode":true,"payment_intent":null,"status":"needs_response","evidence":{
        "customer_email_address" : "\(mail)","uncategorized_text":null}}
        """
    }

    private static func deliver(
        _ stripe: StripeRig, _ bodies: [(id: String, type: String, object: String)]
    ) async throws {
        for body in bodies {
            let event = StripeBody.event(body.type, body.object, id: "evt_\(body.id)")
            #expect(try await stripe.deliver(event).status == 200, "\(body.id)")
        }
    }

    private static func invoice(_ customer: String, mail: String) -> String {
        StripeBody.invoice(customer, subscription: "sub_\(customer)").replacing("zoë@example.com", with: mail)
    }

    @Test(
        "what is nobody else's and bears their address is erased, however that is spelt; no other address is taken for it"
    )
    func untied() async throws {
        let stripe = try await StripeRig.make()
        let mail = "Zoë.a+7@Mail.example.com"
        let spelt = [mail, #"zo\u00eb.A\u002b7@mail.example.com"#, "ZOë.a+7@mail.EXAMPLE.com"]
        let others = [
            "x\(mail)", "x.\(mail)", "\(mail).au", "\(mail)-x", "Zoe.a+7@Mail.example.com", "Zoë.a+7@Mail-example.com",
            "b@x.example",
        ]
        let text = """
            {"id":"dp_t","object":"dispute","amount":999,"charge":"ch_t","created":\(StripeRig.noon - 30),"livemode":true,
            "status":"needs_response","evidence":{"uncategorized_text":"Wrote:\\nzoë.a+7@mail.example.com. And left."}}
            """
        let session = StripeBody.session("c-1", reference: "c-1").replacing(
            #""client_reference_id":"c-1""#, with: #""customer_details":{"email":"\#(mail)"}"#
        ).replacing("rightful_customer_id", with: "user")
        try await Self.deliver(
            stripe,
            [("paid", "invoice.paid", Self.invoice("a", mail: mail))]
                + spelt.enumerated().map { ("s\($0)", "charge.dispute.created", Self.dispute("s\($0)", mail: $1)) }
                + others.enumerated().map { ("o\($0)", "charge.dispute.created", Self.dispute("o\($0)", mail: $1)) } + [
                    ("text", "charge.dispute.updated", text),
                    ("session", "checkout.session.completed", session),
                ])
        let outcome = try #require(try await Self.forget("a", stripe))
        #expect(outcome.evidence == 6 && outcome.sharedMailAddresses == 0)
        #expect(try await Self.left(stripe) == others.indices.map { "evt_o\($0)" })
        let summary = try await stripe.verify()
        #expect(summary.isProven && summary.erasedEvidence == 6)
    }

    @Test("an address that came later, by what names nobody but their customer of Stripe's, is looked for, too")
    func changedAddress() async throws {
        let stripe = try await StripeRig.make()
        let person = #"{"id":"cus_sub_a","object":"customer","email":"new@example.com"}"#
        try await Self.deliver(
            stripe,
            [
                ("d1", "charge.dispute.created", Self.dispute("1", mail: "new@example.com")),
                ("d2", "charge.dispute.created", Self.dispute("2", mail: "older@example.com")),
                ("paid", "invoice.paid", Self.invoice("a", mail: "old@example.com")),
                ("person", "customer.updated", person),
            ])
        #expect(try await Self.forget("a", stripe)?.evidence == 3)
        #expect(try await Self.left(stripe) == ["evt_d2"])
    }

    @Test("by an address that is another customer's, too, nothing is erased until that one is forgotten")
    func shared() async throws {
        let stripe = try await StripeRig.make()
        let mail = "family@example.com"
        try await Self.deliver(
            stripe,
            [
                ("a", "invoice.paid", Self.invoice("a", mail: mail)),
                ("b", "invoice.paid", Self.invoice("b", mail: mail)),
                ("d", "charge.dispute.created", Self.dispute("1", mail: mail)),
            ])
        let outcome = try #require(try await Self.forget("a", stripe))
        #expect(outcome.evidence == 1 && outcome.sharedMailAddresses == 1)
        #expect(try await Self.left(stripe) == ["evt_b", "evt_d"])
        #expect(try await stripe.access("b") == ["web_checkout active"])
        let last = try #require(try await Self.forget("b", stripe))
        #expect(last.evidence == 2 && last.sharedMailAddresses == 0)
        #expect(try await Self.left(stripe).isEmpty)
        #expect(try await stripe.verify().erasedEvidence == 3)
    }

    @Test("an event that names nobody is another's where its purchase is, and nobody's where nobody was ever named")
    func ofPurchases() async throws {
        let stripe = try await StripeRig.make()
        let mail = "a@example.com"
        func nameless(_ subscription: String) -> String {
            StripeBody.invoice("x", subscription: subscription).replacing("zoë@example.com", with: mail)
                .replacing("rightful_customer_id", with: "user")
        }
        try await Self.deliver(
            stripe,
            [
                ("a", "invoice.paid", Self.invoice("a", mail: mail)),
                ("free", "invoice.paid", nameless("sub_nobodys").replacing("il_1", with: "il_9")),
            ])
        #expect(try await Self.forget("a", stripe)?.evidence == 2)
        #expect(try await Self.left(stripe).isEmpty)
        try await Self.deliver(
            stripe,
            [
                ("c", "invoice.paid", Self.invoice("c", mail: mail)),
                ("b", "invoice.paid", Self.invoice("b", mail: "b@example.com")),
                ("renewed", "invoice.paid", nameless("sub_b").replacing("in_sub_b", with: "in_2")),
                ("d", "charge.dispute.created", Self.dispute("1", mail: mail)),
            ])
        let outcome = try #require(try await Self.forget("c", stripe))
        #expect(outcome.evidence == 1 && outcome.sharedMailAddresses == 1)
        #expect(try await Self.left(stripe) == ["evt_b", "evt_renewed", "evt_d"])
    }
}
