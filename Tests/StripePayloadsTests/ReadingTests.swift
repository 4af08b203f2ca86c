import AppStorePayloads
import EntitlementCore
import Testing

@testable import StripePayloads

/// Reads on until nothing is missing, and answers from a table by path; what is not there is not found.
private func read(
    _ subject: String, _ answers: [String: String], environment: StoreEnvironment = .production
) throws -> (reading: StripeReading, asked: [String]) {
    var reading = StripeReading(environment: environment, readAt: instant(At.later + 9))
    try reading.add(subject: Array(subject.utf8))
    var asked: [String] = []
    while let lookup = reading.next {
        asked.append(lookup.path)
        if let answer = answers[lookup.path] {
            try reading.add(answer: Array(answer.utf8), to: lookup)
        } else {
            try reading.addMissing(lookup)
        }
    }
    return (reading, asked)
}

@Suite("Readings of Stripe's API")
struct ReadingTests {
    private let tiePath = StripeLookup.invoiceOfPayment("pi_1").path

    @Test("a refund is traced to its invoice and subscription, and stated again with them")
    func refund() throws {
        let (reading, asked) = try read(
            Sample.event("refund.created", Sample.refund()), [tiePath: Sample.invoicePayments(Sample.invoice())])
        #expect(asked == [tiePath])
        let (fact, identities) = try reading.fact(sha256: sha256)
        #expect(fact.originalTransactionID == "sub_1" && fact.type == WebFact.readingLabel && fact.eventID == nil)
        #expect(fact.refunds.map(\.refundID) == ["re_1"])
        #expect(
            fact.invoicePayments.contains(
                WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)))
        #expect(identities.customerIDs == ["c-1"])
        var state = OriginalState()
        state.join(.web(fact), originalTransactionID: "sub_1", source: .serverAPI, position: 1)
        let catalog = Catalog(products: [
            CatalogProduct(
                productID: "pro", entitlements: ["premium"],
                stripe: StripeProduct(price: "price_1", mode: .subscription))
        ])
        let facts = CustomerFacts(customer: IdentityRef(0), originals: ["sub_1": state], catalog: catalog)
        #expect(facts.answers(at: instant(At.later - 1)).map(\.state) == [.active])
        #expect(facts.answers(at: instant(At.later)).map(\.state) == [.revoked])
    }

    @Test("what an event says of a refund or dispute was so when it was made, however late it is traced")
    func tracedLate() throws {
        let answers = [tiePath: Sample.invoicePayments(Sample.invoice())]
        func traced(_ type: String, _ object: String) throws -> WebFact {
            try read(Sample.event(type, object, created: At.later), answers).reading.fact(sha256: sha256).0
        }
        #expect(try traced("refund.created", Sample.refund()).statedAt == instant(At.later))
        let closed = try traced("charge.dispute.closed", Sample.dispute("lost"))
        #expect(closed.statedAt == instant(At.later) && closed.disputes.map(\.funds) == [nil])
        let back = try traced("charge.dispute.funds_reinstated", Sample.dispute("lost"))
        #expect(back.disputes.map(\.funds) == [.reinstated], "only the event says which way the money went")
        #expect(back.payment == nil && back.originalTransactionID == "sub_1")
        let object = try read(Sample.dispute("lost"), answers).reading.fact(sha256: sha256).0
        #expect(object.statedAt == instant(At.later + 9), "an object is as it was when it was read")
        let evidence = try read(
            Sample.event("charge.dispute.funds_reinstated", Sample.dispute("lost"), created: At.later), answers
        ).reading.evidence
        #expect(try StripeReading(evidence: evidence).fact(sha256: sha256).0 == back)
    }

    @Test("what the log knows it to be about is not asked for, stands in the evidence, and is stated alone")
    func knownOriginal() throws {
        var reading = StripeReading(environment: .production, readAt: instant(At.later + 9))
        reading.knownOriginal = "sub_1"
        try reading.add(subject: Array(Sample.event("refund.created", Sample.refund(), created: At.later).utf8))
        #expect(reading.next == nil)
        let (fact, identities) = try reading.fact(sha256: sha256)
        #expect(fact.originalTransactionID == "sub_1" && fact.refunds.map(\.refundID) == ["re_1"])
        #expect(fact.statedAt == instant(At.later) && fact.subscription == nil && fact.invoices.isEmpty)
        #expect(identities.customerIDs.isEmpty)
        let again = try StripeReading(evidence: reading.evidence)
        #expect(try again.fact(sha256: sha256).0 == fact && again.evidence == reading.evidence)
        try reading.add(subject: Array(Sample.session(id: "cs_9", intent: #""pi_9""#).utf8))
        #expect(throws: PayloadError.self) { try reading.fact(sha256: sha256) }
    }

    @Test("without the expanded invoice it is read by itself")
    func unexpanded() throws {
        let (reading, asked) = try read(
            Sample.refund(), [tiePath: Sample.invoicePayments(#""in_1""#), "/v1/invoices/in_1": Sample.invoice()])
        #expect(asked == [tiePath, "/v1/invoices/in_1"])
        #expect(try reading.fact(sha256: sha256).0.originalTransactionID == "sub_1")
    }

    @Test("a payment without an invoice was made in a session, or is told by its own metadata")
    func oneTime() throws {
        let sessions = StripeLookup.sessionOfPayment("pi_1").path
        let (reading, asked) = try read(
            Sample.refund(), [tiePath: Sample.list([]), sessions: Sample.list([Sample.session()])])
        #expect(asked == [tiePath, sessions, StripeLookup.paymentIntent("pi_1").path])
        let fact = try reading.fact(sha256: sha256).0
        #expect(fact.originalTransactionID == "pi_1" && fact.payment?.isPaidByEvent == false)
        #expect(fact.payment?.paidAt == instant(At.start))
        let intent =
            #"{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":4999,"amount_received":4999,"created":\#(At.start),"livemode":true,"latest_charge":\#(Sample.charge()),"metadata":{"rightful_customer_id":"c-1","rightful_product_id":"lifetime"}}"#
        let byIntent = try read(Sample.refund(), [StripeLookup.paymentIntent("pi_1").path: intent]).reading
        let told = try byIntent.fact(sha256: sha256).0
        #expect(told.originalTransactionID == "pi_1" && told.owners.map(\.place) == [.purchase])
        #expect(told.payment?.paidAt == instant(At.paid), "when it was charged")
        let stranger = try read(Sample.refund(), [:])
        #expect(stranger.asked.count == 3)
        #expect(try stranger.reading.fact(sha256: sha256).0.originalTransactionID == nil, "not ours")
    }

    @Test("an invoice of no subscription leads to the session that made it")
    func invoiceOfPayment() throws {
        let sessions = StripeLookup.sessionOfPayment("pi_1").path
        let invoice = #"{"id":"in_9","object":"invoice","status":"paid","livemode":true,"parent":null,"amount_paid":1}"#
        let (reading, asked) = try read(
            Sample.refund(), [tiePath: Sample.invoicePayments(invoice), sessions: Sample.list([Sample.session()])])
        #expect(asked == [tiePath, sessions, StripeLookup.paymentIntent("pi_1").path])
        #expect(try reading.fact(sha256: sha256).0.originalTransactionID == "pi_1")
    }

    @Test(
        "what was paid for by an invoice of no subscription stands in its lines, and whose it is in the payment or a list"
    )
    func soldByInvoice() throws {
        let item =
            #"{"id":"il_7","object":"line_item","amount":4999,"pricing":{"price_details":{"price":"price_9","product":"prod_9"}}}"#
        let invoice =
            #"{"id":"in_9","object":"invoice","status":"paid","livemode":true,"parent":null,"amount_paid":4999,"lines":\#(Sample.list([item]))}"#
        func intent(_ metadata: String) -> String {
            #"{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":4999,"amount_received":4999,"created":\#(At.start),"livemode":true,"customer":"cus_1","metadata":{\#(metadata)}}"#
        }
        func told(_ metadata: String, _ entry: StripeOwnerEntry?, paying invoice: String) throws -> StripeReading {
            var reading = StripeReading(environment: .production, readAt: instant(At.later))
            reading.ownerEntry = entry
            try reading.add(subject: Array(intent(metadata).utf8))
            try reading.add(
                answer: Array(Sample.invoicePayments(invoice).utf8), to: .invoiceOfPayment("pi_1"))
            return reading
        }
        // To `Character`, neither of the last two is a mark that JSON has escaped.
        let customer = try #require(CustomerID("a \"b\" \\ c\"\u{301}\\\u{301}"))
        let entry = try #require(StripeOwnerEntry(id: "pi_1", customer: customer, productID: "lifetime"))
        let payer = try #require(StripeOwnerEntry(id: "cus_1", customer: customer))
        for (metadata, list, owner, product) in [
            (#""rightful_customer_id":"c-1""#, nil, "c-1", nil), ("", entry, customer.value, "lifetime"),
            (#""rightful_customer_id":"c-1""#, entry, "c-1", "lifetime"),
            (#""rightful_product_id":"once""#, payer, customer.value, "once"),
        ] as [(String, StripeOwnerEntry?, String, String?)] {
            var reading = try told(metadata, list, paying: invoice)
            #expect(reading.names == ["pi_1", "cus_1"] && reading.next == nil)
            reading.settleOwner()
            let evidence = String(decoding: reading.evidence, as: UTF8.self)
            #expect(evidence.contains(#"a \"b\" \\ c"#) == (owner == customer.value), "\(evidence)")
            let (fact, identities) = try reading.fact(sha256: sha256)
            #expect(fact.originalTransactionID == "pi_1" && identities.customerIDs == [owner], "\(metadata)")
            #expect(fact.payment?.products == [WebProduct(price: "price_9", product: "prod_9")])
            #expect(fact.payment?.catalogProductID == product)
            let again = try StripeReading(evidence: reading.evidence)
            #expect(again.evidence == reading.evidence)
            let (other, others) = try again.fact(sha256: sha256)
            #expect(other == fact && others == identities)
            #expect(fact.owners.map(\.place) == [owner == customer.value ? .list : .purchase])
        }
        #expect(try told("", nil, paying: invoice).fact(sha256: sha256).0.originalTransactionID == nil)
        var known = try told("", nil, paying: invoice)
        known.knownSale = "pi_1"
        #expect(try known.fact(sha256: sha256).0.originalTransactionID == "pi_1")
        #expect(try StripeReading(evidence: known.evidence).fact(sha256: sha256).0 == known.fact(sha256: sha256).0)
        let ofSubscription = try told(#""rightful_customer_id":"c-9""#, entry, paying: Sample.invoice())
        let (fact, identities) = try ofSubscription.fact(sha256: sha256)
        #expect(fact.originalTransactionID == "sub_1" && fact.payment == nil && identities.customerIDs == ["c-1"])
        for odd in [("in_1", nil), ("sub_1", "lifetime"), ("cus_", nil), ("pi_1\n", nil), ("pi_1", "")]
            as [(String, String?)]
        {
            #expect(StripeOwnerEntry(id: odd.0, customer: customer, productID: odd.1) == nil, "\(odd)")
        }
    }

    @Test("a refunded charge is asked for its refunds; one without an intent for its invoice")
    func charge() throws {
        let refunds = StripeLookup.refundsOfCharge("ch_1", after: nil).path
        let (reading, _) = try read(
            Sample.event("charge.refunded", Sample.charge()),
            [refunds: Sample.list([Sample.refund()]), tiePath: Sample.invoicePayments(Sample.invoice())])
        let fact = try reading.fact(sha256: sha256).0
        #expect(fact.refunds.map(\.refundID) == ["re_1"] && fact.originalTransactionID == "sub_1")
        let direct = Sample.invoicePayments(Sample.invoice())
            .replacing(
                #"{"type":"payment_intent","payment_intent":"pi_1"}"#, with: #"{"type":"charge","charge":"ch_1"}"#)
        let byCharge = try read(
            Sample.refund(payment: "null"), [StripeLookup.invoiceOfCharge("ch_1").path: direct])
        #expect(byCharge.asked.first == "/v1/charges/ch_1")
        #expect(try byCharge.reading.fact(sha256: sha256).0.originalTransactionID == "sub_1")
    }

    @Test("all pages of a long invoice are read")
    func pages() throws {
        let first = "/v1/invoices/in_1/lines?limit=100&starting_after=il_1"
        let second = "/v1/invoices/in_1/lines?limit=100&starting_after=il_3"
        let (reading, asked) = try read(
            Sample.event("invoice.paid", Sample.invoice(more: true)),
            [
                first: Sample.list([Sample.line("il_2"), Sample.line("il_3")], more: true),
                second: Sample.list([Sample.line("il_4")]),
            ])
        #expect(asked == [first, second])
        let fact = try reading.fact(sha256: sha256).0
        #expect(fact.invoices.first?.lines.map(\.lineID) == ["il_1", "il_2", "il_3", "il_4"])
    }

    @Test("items of a subscription and of a session are read by the page")
    func items() throws {
        let more = StripeLookup.subscriptionItems("sub_1", after: "si_1").path
        let item = #"{"id":"si_2","object":"subscription_item","price":{"id":"price_2","product":"prod_2"}}"#
        let (reading, _) = try read(Sample.subscription(moreItems: true), [more: Sample.list([item])])
        let subscription = try #require(try reading.fact(sha256: sha256).0.subscription)
        #expect(subscription.items.map(\.item) == ["si_1", "si_2"] && !subscription.hasMoreItems)
        let lines = StripeLookup.sessionItems("cs_1", after: nil).path
        let sold = #"{"id":"li_1","object":"item","price":{"id":"price_1","product":"prod_1"},"quantity":1}"#
        let session = try read(Sample.session(metadata: "{}", reference: #""c-1""#), [lines: Sample.list([sold])])
            .reading
        let fact = try session.fact(sha256: sha256).0
        #expect(fact.payment?.products == [WebProduct(price: "price_1", product: "prod_1")])
    }

    @Test("what is about several originals is refused, and so is what is of another environment")
    func several() throws {
        var reading = StripeReading(environment: .production, readAt: instant(At.later))
        try reading.add(subject: Array(Sample.subscription().utf8))
        try reading.add(subject: Array(Sample.session().utf8))
        #expect(throws: PayloadError.self) { try reading.fact(sha256: sha256) }
        #expect(throws: PayloadError.self) { try reading.add(subject: Array(Sample.subscription(live: false).utf8)) }
    }

    @Test("evidence reads back as the same fact, byte for byte")
    func evidence() throws {
        let (reading, _) = try read(
            Sample.event("refund.created", Sample.refund()), [tiePath: Sample.invoicePayments(Sample.invoice())])
        let again = try StripeReading(evidence: reading.evidence)
        #expect(again.evidence == reading.evidence && again.environment == .production)
        let (fact, identities) = try reading.fact(sha256: sha256)
        let (other, others) = try again.fact(sha256: sha256)
        #expect(other == fact && others == identities)
        let text = String(decoding: reading.evidence, as: UTF8.self)
        #expect(text.contains(Sample.refund()) && text.contains(tiePath))
    }

    @Test(
        "the pages of a long invoice begin behind the last line that it shows, whatever that is of, and whatever it names"
    )
    func firstPage() throws {
        let byHand = """
            {"id":"il_9","object":"line_item","amount":5,"currency":"usd","period":{"start":1,"end":1},"pricing":null,
            "parent":{"type":"invoice_item_details","subscription_item_details":null,"invoice_item_details":{
            "invoice_item":"ii_1","proration":false,"subscription":null}}}
            """
        let old = Sample.line("sli_1").replacing(#""object""#, with: #""unique_id":"il_7","object""#)
        let pages = "/v1/invoices/in_1/lines?limit=100"
        for (shown, first) in [
            ([Sample.line(), byHand], "\(pages)&starting_after=il_9"), ([byHand], "\(pages)&starting_after=il_9"),
            ([old], pages), ([], pages),
        ] {
            let (reading, asked) = try read(
                Sample.event("invoice.paid", Sample.invoice(lines: shown, more: true)),
                [first: Sample.list([Sample.line("il_12")])])
            #expect(asked == [first])
            #expect(try reading.fact(sha256: sha256).0.invoices.first?.lines.last?.lineID == "il_12")
        }
    }

    @Test("an invoice is read in as many pages as a reading takes answers, and one that has more is refused")
    func mostPages() throws {
        let pages = StripeReading.answerLimit - 1
        func answers(_ pages: Int) -> [String: String] {
            Dictionary(
                uniqueKeysWithValues: (1...pages).map { page in
                    (
                        "/v1/invoices/in_1/lines?limit=100&starting_after=il_\(page)",
                        Sample.list([Sample.line("il_\(page + 1)")], more: page < pages)
                    )
                })
        }
        let invoice = Sample.event("invoice.paid", Sample.invoice(more: true))
        let (reading, asked) = try read(invoice, answers(pages))
        #expect(asked.count == pages)
        #expect(try reading.fact(sha256: sha256).0.invoices.first?.lines.count == pages + 1)
        #expect(throws: PayloadError.self) { try read(invoice, answers(pages + 1)) }
    }

    @Test("a reading has a bound")
    func bound() throws {
        var reading = StripeReading(environment: .production, readAt: instant(At.later))
        for _ in 0..<StripeReading.answerLimit { try reading.add(subject: Array("{}".utf8)) }
        #expect(throws: PayloadError.self) { try reading.add(subject: Array("{}".utf8)) }
        for odd in ["", "[]", "{} ", "{},{}", "{}}]}{", "\u{FEFF}{}"] {
            var fresh = StripeReading(environment: .production, readAt: instant(At.later))
            #expect(throws: PayloadError.self, "\(odd)") { try fresh.add(subject: Array(odd.utf8)) }
        }
    }

    @Test("a page of a list is taken apart as it came")
    func list() throws {
        let events = [
            Sample.event("invoice.paid", Sample.invoice(), id: "evt_3"), Sample.event("x", "{}", id: "evt_2"),
        ]
        let list = try StripeList(parsing: Array(Sample.list(events, more: true).utf8))
        #expect(list.elements.map { String(decoding: $0, as: UTF8.self) } == events)
        #expect(list.firstID == "evt_3" && list.lastID == "evt_2" && list.hasMore)
        #expect(try StripeList(parsing: Array(Sample.list([]).utf8)).lastID == nil)
        #expect(throws: PayloadError.self) { try StripeList(parsing: Array("{}".utf8)) }
    }
}
