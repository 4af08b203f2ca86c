import AppStorePayloads
import EntitlementCore
import Testing

@testable import StripePayloads

@Suite("Stripe's events")
struct EventTests {
    @Test("a paid invoice states its lines, whose they are, and when it was paid")
    func invoice() throws {
        let event = try decode(Sample.event("invoice.paid", Sample.invoice()))
        #expect(event.environment == .production && event.created == instant(At.paid) && event.type == "invoice.paid")
        #expect(event.fact.originalTransactionID == "sub_1")
        #expect(
            event.fact.invoices == [
                WebInvoice(
                    invoiceID: "in_1", paidAt: instant(At.paid), amountPaid: 999, currency: "usd",
                    lines: [
                        WebLine(
                            lineID: "il_1", item: "si_1", product: WebProduct(price: "price_1", product: "prod_1"),
                            start: instant(At.start), end: instant(At.end), isProration: false, amount: 999)
                    ])
            ])
        #expect(event.fact.owners == [WebOwner(place: .purchase, customer: IdentityRef(0))])
        #expect(event.identities.customerIDs == ["c-1"])
        #expect(event.followUps.isEmpty && event.fact.remarks.isEmpty && event.states)
    }

    @Test("where an invoice does not say when it was paid, the event does that says that it was; no other does")
    func paidWithoutDate() throws {
        for transitions in [#""status_transitions":{"finalized_at":null,"paid_at":null}"#, #""x":1"#] {
            let undated = Sample.oldInvoice.replacing(
                #""status_transitions":{"finalized_at":\#(At.start),"paid_at":\#(At.paid)}"#, with: transitions)
            for (type, paidAt) in [
                ("invoice.paid", instant(At.later)), ("invoice.payment_succeeded", instant(At.later)),
                ("invoice.updated", nil),
            ] {
                let text = Sample.event(type, undated, created: At.later)
                #expect(try decode(text).fact.invoices.map(\.paidAt) == [paidAt], "\(type)")
                var reading = StripeReading(environment: .production, readAt: instant(At.later + 9))
                try reading.add(subject: Array(text.utf8))
                #expect(try reading.fact(sha256: sha256).0.invoices.map(\.paidAt) == [paidAt], "read with \(type)")
            }
        }
        let dated = try decode(Sample.event("invoice.paid", Sample.oldInvoice, created: At.later))
        #expect(dated.fact.invoices.map(\.paidAt) == [instant(At.paid)])
    }

    @Test("both shapes state the same, and are one event")
    func shapes() throws {
        let new = try decode(Sample.event("invoice.paid", Sample.invoice()))
        let old = try decode(
            Sample.event("invoice.paid", Sample.oldInvoice, version: "2024-06-20", pending: 0))
        #expect(old.fact.payloadHash == new.fact.payloadHash)
        #expect(old.fact.invoices == new.fact.invoices && old.fact.owners == new.fact.owners)
        #expect(
            old.fact.invoicePayments == [
                WebInvoicePayment(paymentIntent: "pi_1", charge: "ch_1", invoice: "in_1", amount: 999)
            ], "the old shape tells it, and no look-up is needed")
        let subscriptions = try [Sample.subscription(), Sample.oldSubscription].map {
            try decode(Sample.event("customer.subscription.updated", $0)).fact
        }
        #expect(subscriptions[0].payloadHash == subscriptions[1].payloadHash)
        #expect(subscriptions[0].subscription == subscriptions[1].subscription)
    }

    @Test("formatting, deliveries still to be made and the order of members change nothing; content does")
    func identity() throws {
        let event = try decode(Sample.event("invoice.paid", Sample.invoice()))
        let again = try decode(
            "  " + Sample.event("invoice.paid", Sample.invoice(), pending: 7).replacing("\n", with: "\n\t "))
        #expect(again.fact.payloadHash == event.fact.payloadHash)
        let others = [
            Sample.event("invoice.paid", Sample.invoice(lines: [Sample.line(to: At.end + 1)])),
            Sample.event("invoice.paid", Sample.invoice(), created: At.paid + 1),
            Sample.event("invoice.paid", Sample.invoice(), id: "evt_2"),
        ]
        let hashes = try others.map { try decode($0).fact.payloadHash } + [event.fact.payloadHash]
        #expect(Set(hashes).count == hashes.count)
        let another = try decode(Sample.event("invoice.paid", Sample.invoice().replacing("c-1", with: "c-2")))
        #expect(another.identities != event.identities)
        #expect(another.fact.payloadHash == event.fact.payloadHash, "the hash stays when an id is forgotten")
        let nobody = try decode(
            Sample.event("invoice.paid", Sample.invoice().replacing("rightful_customer_id", with: "x")))
        #expect(nobody.fact.payloadHash != event.fact.payloadHash)
    }

    @Test("an invoice that is not paid states no periods")
    func unpaid() throws {
        for status in ["draft", "open", "uncollectible", "void", "odd"] {
            let event = try decode(Sample.event("invoice.payment_failed", Sample.invoice(status: status)))
            #expect(event.fact.invoices.isEmpty && event.fact.originalTransactionID == "sub_1")
        }
    }

    @Test("a line written by hand, or of another subscription, is none of the subscription's")
    func foreignLines() throws {
        let other = Sample.line("il_2").replacing(#""subscription":"sub_1""#, with: #""subscription":"sub_2""#)
        let hand =
            #"{"id":"il_3","object":"line_item","amount":5,"period":{"start":1,"end":1},"parent":{"type":"invoice_item_details","invoice_item_details":{"invoice_item":"ii_1","proration":false,"subscription":null}}}"#
        let event = try decode(Sample.event("invoice.paid", Sample.invoice(lines: [Sample.line(), other, hand])))
        #expect(event.fact.invoices.first?.lines.map(\.lineID) == ["il_1"])
    }

    @Test("a long invoice calls for its other pages")
    func pages() throws {
        let event = try decode(Sample.event("invoice.paid", Sample.invoice(more: true)))
        #expect(event.followUps == [StripeFollowUp(.invoiceLines("in_1", after: "il_1"), .now)])
        #expect(event.followUps[0].lookup.path == "/v1/invoices/in_1/lines?limit=100&starting_after=il_1")
    }

    @Test("a subscription states its status, and is to be read again unless it is over")
    func subscription() throws {
        let event = try decode(Sample.event("customer.subscription.updated", Sample.subscription(status: "past_due")))
        let stated = try #require(event.fact.subscription)
        #expect(stated.status == .known(.pastDue))
        #expect(stated.items.map(\.periodEnd) == [instant(At.end)])
        #expect(event.followUps == [StripeFollowUp(.subscription("sub_1"), .soon)])
        let ended = Sample.subscription(status: "canceled")
            .replacing(#""ended_at":null"#, with: #""ended_at":\#(At.later)"#)
        let over = try decode(Sample.event("customer.subscription.deleted", ended))
        #expect(over.fact.subscription?.endedAt == instant(At.later) && over.followUps.isEmpty)
        let paused = Sample.subscription()
            .replacing(#""pause_collection":null"#, with: #""pause_collection":{"behavior":"void","resumes_at":null}"#)
        #expect(
            try decode(Sample.event("customer.subscription.updated", paused)).fact.subscription?.collectionPause
                == "void")
        let cut = try decode(Sample.event("customer.subscription.updated", Sample.subscription(moreItems: true)))
        #expect(cut.fact.subscription?.hasMoreItems == true)
        #expect(cut.followUps.first == StripeFollowUp(.subscriptionItems("sub_1", after: "si_1"), .now))
    }

    @Test("a word that nobody knows is kept and remarked")
    func unknownWords() throws {
        let event = try decode(Sample.event("customer.subscription.updated", Sample.subscription(status: "asleep")))
        #expect(event.fact.subscription?.status == .unknown("asleep"))
        #expect(event.fact.remarks == ["unknown_value:subscription.status=asleep"])
        let refund = try decode(Sample.event("refund.updated", Sample.refund(status: "lost_in_space")))
        #expect(refund.fact.refunds.first?.status == .unknown("lost_in_space"))
    }

    @Test("a one-time payment is paid from its event's date, and not before it is paid")
    func payment() throws {
        let event = try decode(Sample.event("checkout.session.completed", Sample.session()))
        #expect(event.fact.originalTransactionID == "pi_1")
        #expect(
            event.fact.payment
                == WebPayment(
                    paidAt: instant(At.paid), isPaidByEvent: true, amount: 4999, currency: "usd",
                    catalogProductID: "lifetime",
                    products: []))
        #expect(event.fact.owners.map(\.place) == [.session])
        let unpaid = try decode(Sample.event("checkout.session.completed", Sample.session(paid: "unpaid")))
        #expect(unpaid.fact.payment?.paidAt == nil && unpaid.fact.originalTransactionID == "pi_1")
        let open = try decode(
            Sample.event("checkout.session.expired", Sample.session(paid: "no_payment_required", status: "expired")))
        #expect(open.fact.payment?.paidAt == nil)
    }

    @Test("a session in which nothing was due is an original of its own")
    func free() throws {
        let session = Sample.session(paid: "no_payment_required", intent: "null")
        let event = try decode(Sample.event("checkout.session.completed", session))
        #expect(event.fact.originalTransactionID == "cs_1" && event.fact.payment?.paidAt == instant(At.paid))
    }

    @Test("what was sold without our metadata is looked up")
    func products() throws {
        let event = try decode(
            Sample.event("checkout.session.completed", Sample.session(metadata: #"{"rightful_customer_id":"c-1"}"#)))
        #expect(
            event.followUps == [
                StripeFollowUp(.sessionItems("cs_1", after: nil), .now), StripeFollowUp(.paymentIntent("pi_1"), .now),
            ])
    }

    @Test("whose a payment is, is looked up in its payment intent: that may name another, and comes with no event")
    func ownerOfPayment() throws {
        func lookups(_ session: String) throws -> [StripeFollowUp] {
            try decode(Sample.event("checkout.session.completed", session)).followUps
        }
        let nobody = Sample.session(metadata: #"{"rightful_product_id":"lifetime"}"#)
        #expect(try lookups(nobody) == [StripeFollowUp(.paymentIntent("pi_1"), .now)])
        #expect(try lookups(Sample.session(paid: "unpaid", metadata: "{}")).isEmpty)
        #expect(try lookups(Sample.session()) == [StripeFollowUp(.paymentIntent("pi_1"), .now)])
        #expect(try lookups(Sample.session(paid: "no_payment_required", intent: "null")).isEmpty)
    }

    @Test("two spellings of one character are two customers, as in the log")
    func spellings() throws {
        let (composed, decomposed) = ("jos\u{E9}", "jose\u{301}")
        let intent =
            #"{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":4999,"amount_received":4999,"created":\#(At.start),"livemode":true,"metadata":{"rightful_customer_id":"\#(composed)"}}"#
        let session = Sample.session(intent: intent, metadata: #"{"rightful_customer_id":"\#(decomposed)"}"#)
        let event = try decode(Sample.event("checkout.session.completed", session))
        let owners = event.fact.owners.map { owner in
            "\(owner.place) \(Array(event.identities.customerIDs[Int(owner.customer.number)].utf8))"
        }
        #expect(
            Set(owners) == ["purchase \(Array(composed.utf8))", "session \(Array(decomposed.utf8))"], "\(owners)")
    }

    @Test("who paid is read of an event as large as events are taken")
    func largePayer() throws {
        let session = Sample.session(
            metadata: #"{"rightful_customer_id":"c-1","note":"\#(String(repeating: "x", count: 2 << 20))"}"#)
        let body = Array(Sample.event("checkout.session.completed", session).utf8)
        #expect(try StripePayer.id(inEvent: body) == "cus_1")
    }

    @Test("a session of a subscription says whose that is; its reference counts, too")
    func session() throws {
        let session = Sample.session(
            mode: "subscription", intent: "null", subscription: #""sub_1""#,
            metadata: #"{"rightful_customer_id":"8B0C7D2E-0000-4000-8000-00000000ABCD"}"#, reference: #""c-2""#)
        let event = try decode(Sample.event("checkout.session.completed", session))
        #expect(event.fact.originalTransactionID == "sub_1" && event.fact.payment == nil)
        #expect(event.fact.owners.map(\.place) == [.session, .clientReference])
        #expect(event.identities.customerIDs == ["8b0c7d2e-0000-4000-8000-00000000abcd", "c-2"])
        let unusable = try decode(
            Sample.event(
                "checkout.session.completed",
                session.replacing(
                    "8B0C7D2E-0000-4000-8000-00000000ABCD", with: String(repeating: "x", count: 300))))
        #expect(unusable.fact.remarks == ["unexpected_value:metadata.rightful_customer_id"])
        #expect(unusable.fact.owners.map(\.place) == [.clientReference])
    }

    @Test("refunds and disputes name no invoice: for which it was is looked up")
    func withdrawals() throws {
        let refund = try decode(Sample.event("refund.created", Sample.refund()))
        #expect(refund.fact.originalTransactionID == nil)
        #expect(
            refund.followUps.map(\.lookup) == [
                .invoiceOfPayment("pi_1"), .sessionOfPayment("pi_1"), .paymentIntent("pi_1"), .refund("re_1"),
            ])
        #expect(refund.followUps.map(\.urgency) == [.now, .now, .now, .soon])
        #expect(
            refund.followUps[0].lookup.path
                == "/v1/invoice_payments?payment[type]=payment_intent&payment[payment_intent]=pi_1"
                + "&expand[]=data.invoice&limit=100")
        let dispute = try decode(Sample.event("charge.dispute.funds_reinstated", Sample.dispute("won")))
        #expect(dispute.fact.disputes.first?.funds == .reinstated)
        #expect(dispute.fact.disputes.first?.status == .known(.won))
        let charge = try decode(Sample.event("charge.refunded", Sample.charge()))
        #expect(
            charge.fact.invoicePayments == [
                WebInvoicePayment(paymentIntent: "pi_1", charge: "ch_1", invoice: nil, amount: 999)
            ])
        #expect(charge.followUps.first?.lookup == .refundsOfCharge("ch_1", after: nil))
        #expect(charge.followUps.contains(StripeFollowUp(.invoiceOfPayment("pi_1"), .now)))
    }

    @Test("a charge of an old version brings its refunds and its invoice along, and is the same event")
    func oldCharge() throws {
        let old = try decode(
            Sample.event(
                "charge.refunded", Sample.charge(#","invoice":"in_1","refunds":\#(Sample.list([Sample.refund()]))"#)))
        #expect(old.fact.refunds.map(\.refundID) == ["re_1"])
        #expect(old.fact.invoicePayments.first?.invoice == "in_1")
        #expect(old.followUps.map(\.lookup).contains(.invoice("in_1")))
        let new = try decode(Sample.event("charge.refunded", Sample.charge()))
        #expect(old.fact.payloadHash == new.fact.payloadHash)
    }

    @Test("a type that nobody knows is kept, and states nothing")
    func unknownType() throws {
        let event = try decode(Sample.event("radar.early_fraud_warning.created", #"{"id":"issfr_1"}"#))
        #expect(!event.states && event.fact.remarks == ["unknown_type:radar.early_fraud_warning.created"])
        #expect(event.fact.originalTransactionID == nil && event.followUps.isEmpty)
    }

    @Test("a thin event is to be looked up")
    func thin() throws {
        let text =
            #"{"object":"v2.core.event","id":"evt_2","type":"v1.invoice.paid","created":"2026-01-01T00:01:00.000Z","livemode":false,"context":null,"related_object":{"id":"in_1","type":"invoice","url":"/v1/invoices/in_1"}}"#
        let event = try decode(text)
        #expect(event.isThin && !event.states && event.environment == .sandbox)
        #expect(event.created == instant(At.paid))
        #expect(event.followUps == [StripeFollowUp(.invoice("in_1"), .now)])
        #expect(event.fact.remarks == ["thin_event"])
        let odd = try decode(text.replacing(#""id":"in_1""#, with: #""id":"prod_1""#))
        #expect(odd.followUps.isEmpty)
    }

    @Test("what names nothing that is known here is kept, and states nothing of it")
    func nothingInParticular() throws {
        let refund = try decode(
            Sample.event(
                "refund.created",
                #"{"id":"re_1","object":"refund","amount":999,"status":"succeeded","created":\#(At.paid),"charge":null,"payment_intent":null}"#
            ))
        #expect(refund.fact.refunds.count == 1 && refund.fact.originalTransactionID == nil)
        let thin =
            #"{"object":"v2.core.event","id":"evt_2","type":"v2.core.health.event","created":"2026-01-01T00:01:00.000Z","livemode":true,"related_object":null}"#
        #expect(try decode(thin).followUps.isEmpty)
        let draft = Sample.event("invoice.payment_failed", #"{"id":"in_1","object":"invoice","lines":{"data":[]}}"#)
        #expect(try decode(draft).fact.invoices.isEmpty)
    }

    @Test("an account that is connected to ours states nothing of what we sell")
    func connectedAccount() throws {
        let own = Sample.event("invoice.paid", Sample.invoice())
        let event = try decode(own.replacing(#""id":"evt_1""#, with: #""account":"acct_2","id":"evt_1""#))
        #expect(!event.states && event.fact.remarks == ["connected_account"] && event.label == "invoice.paid")
        #expect(event.followUps.isEmpty && event.identities.customerIDs.isEmpty)
        #expect(try decode(own).states)
    }

    @Test("a line is named by itself where its id names the subscription, and a fee beside the plan is no time")
    func lineNames() throws {
        func line(_ id: String, _ rest: String) -> String {
            #"{"id":"\#(id)","object":"line_item","amount":999,"proration":false,"subscription":"sub_1","period":{"start":\#(At.start),"end":\#(At.start + 86_400)},"plan":{"id":"price_1","object":"plan","product":"prod_1"}\#(rest)}"#
        }
        func invoice(_ id: String, _ lines: String...) -> String {
            #"{"id":"\#(id)","object":"invoice","paid":true,"amount_paid":999,"livemode":true,"subscription":"sub_1","lines":{"object":"list","has_more":false,"data":[\#(lines.joined(separator: ","))]}}"#
        }
        func names(_ id: String, _ lines: String...) throws -> [String] {
            try decode(Sample.event("invoice.paid", invoice(id, lines.joined(separator: ",")))).fact.invoices
                .flatMap(\.lines).map(\.lineID)
        }
        let plan = #","type":"subscription","subscription_item":"si_1""#
        #expect(try names("in_1", line("sub_1", plan)) == ["in_1/sub_1/si_1"])
        #expect(try names("in_2", line("sub_1", plan)) == ["in_2/sub_1/si_1"])
        #expect(try names("in_1", line("sli_1", plan + #","unique_id":"il_7""#)) == ["il_7"])
        #expect(try names("in_1", line("il_1", #","type":"invoiceitem""#), line("il_2", plan)) == ["il_2"])
    }

    @Test("livemode is the environment, and objects of another are refused")
    func environment() throws {
        let sandbox = try decode(
            Sample.event("customer.subscription.updated", Sample.subscription(live: false), live: false))
        #expect(sandbox.environment == .sandbox)
        #expect(throws: PayloadError.self) {
            try decode(Sample.event("customer.subscription.updated", Sample.subscription(live: false)))
        }
    }

    @Test(
        "without what makes it what it is, it is inconsistent",
        arguments: [
            (#""object":"event""#, #""object":"elephant""#), (#""id":"evt_1""#, #""id":"""#),
            (#""livemode":true,"pending"#, #""livemode":"yes","pending"#), (#""created":\#(At.paid),"data"#, #""data"#),
            (#""type":"invoice.paid""#, #""type":7"#), (#""data":{"object""#, #""data":{"thing""#),
            (#""object":"invoice""#, #""object":"refund""#), (#""id":"in_1""#, #""id":null"#),
            (#""status":"paid""#, #""status":3"#), (#""start":\#(At.start)"#, #""start":"then""#),
            (#""amount":999,"currency":"usd","livemode""#, #""amount":"999","currency":"usd","livemode""#),
        ])
    func inconsistent(part: String, replacement: String) {
        let text = Sample.event("invoice.paid", Sample.invoice()).replacing(",\n", with: ",")
        #expect(text.contains(part), "\(part)")
        do {
            _ = try decode(text.replacing(part, with: replacement))
            Issue.record("read without \(part)")
        } catch let error as PayloadError {
            if case .malformed = error { Issue.record("malformed without \(part)") }
        } catch {
            Issue.record("\(error)")
        }
    }

    @Test("what is asked for fits into lists of types, and no id leads elsewhere")
    func lookups() {
        #expect(StripeEventType.wanted.count == 24)
        #expect(
            StripeLookup.invoice("in_1/../../v1/charges?x=y&z").path
                == "/v1/invoices/in_1%2F%2E%2E%2F%2E%2E%2Fv1%2Fcharges%3Fx%3Dy%26z")
        #expect(StripeLookup(id: "du_1") == .dispute("du_1") && StripeLookup(id: "cus_1") == nil)
    }
}
