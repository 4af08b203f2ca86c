import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// What goes wrong first where RevenueCat's webhooks are imitated, and what their users complain of, each by its name.
@Suite("RevenueCat's events: the traps")
struct EventTrapTests {
    private static let premium: [WireValue] = [.string("premium")]

    /// A subscription from day 0 to day 30.
    private func subscribed(
        _ policy: AccessPolicy = AccessPolicy(), in environment: StoreEnvironment = .production
    ) -> TestLog {
        var log = TestLog(policy: policy, in: environment)
        log.notified(purchase("1000", from: 0, to: 30), renewal(signed: 0, renews: true, as: "pro"))
        return log
    }

    /// What GET shows at the moment of each event is what the event says.
    private func expectAgreement(_ told: [SentEvent]) {
        for event in told {
            guard case .string(let product)? = event["product_id"],
                let entry = event.document.subscriber.subscriptions[product]
            else { continue }
            var expiry: WholeSecond?
            if case .int(let milliseconds)? = event["expiration_at_ms"] {
                expiry = WholeSecond(Timestamp(milliseconds: milliseconds))
            }
            let ended = expiry?.predecessor
            #expect(
                entry.expiresDate == expiry || (entry.expiresDate == ended && expiry == event.document.requestDate),
                "\(event): \(entry)")
            let isActive = (entry.expiresDate.map { $0 >= event.document.requestDate } ?? true)
            #expect(event.type != .expiration || !isActive, "\(event): \(entry)")
            if case .int(let end)? = event["grace_period_expiration_at_ms"], entry.gracePeriodExpiresDate != nil {
                #expect(entry.gracePeriodExpiresDate == WholeSecond(Timestamp(milliseconds: end)))
            }
        }
    }

    @Test("EXPIRATION never contradicts the API around grace, in whatever order the two are known")
    func expirationAroundGrace() throws {
        var early = subscribed()
        early.notified(nil, renewal(signed: 29.9, renews: true, graceEnd: 46))
        var late = subscribed()
        late.notified(nil, renewal(signed: 30.5, renews: true, graceEnd: 46))
        #expect(try early.story(by: 60).last == "EXPIRATION BILLING_ERROR @46")
        // Until the store said so nobody knew of the grace; then what lets in comes again.
        #expect(
            try late.story(by: 60) == [
                "INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @30", "SUBSCRIPTION_EXTENDED @30.5",
                "BILLING_ISSUE @30.5", "CANCELLATION BILLING_ERROR @30.5", "EXPIRATION BILLING_ERROR @46",
            ])
        for log in [early, late] { expectAgreement(try log.told(by: 60)) }
        let issue = try #require(try late.told(by: 60).first { $0.type == .billingIssue })
        #expect(issue["expiration_at_ms"] == .int(day(46).milliseconds))
    }

    @Test("where the policy gives no access in grace, the end is the paid one and there is no grace")
    func graceWithoutAccess() throws {
        var log = subscribed(AccessPolicy(graceGivesAccess: false))
        log.notified(nil, renewal(signed: 29.9, renews: true, graceEnd: 46))
        let told = try log.told(by: 60)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "BILLING_ISSUE @29.9", "CANCELLATION BILLING_ERROR @29.9",
                "EXPIRATION BILLING_ERROR @30",
            ])
        #expect(told[1]["grace_period_expiration_at_ms"] == .null)
        expectAgreement(told)
    }

    @Test("leeway bridges what the store says late")
    func leeway() throws {
        var log = subscribed(AccessPolicy(leewaySeconds: 86_400))
        log.notified(purchase("1001", from: 30, to: 60, signed: 30.5, reason: .renewal))
        #expect(try log.story(by: 50) == ["INITIAL_PURCHASE @0", "RENEWAL @30.5"])
    }

    @Test(
        "what was learned at once long after it was true is no storm: of twelve periods the last, of what lapsed nothing"
    )
    func backfill() throws {
        var log = TestLog()
        for month in 0..<12 {
            let start = Double(month * 30)
            log.notified(
                purchase("\(1000 + month)", from: start, to: start + 30, reason: month == 0 ? .purchase : .renewal),
                renewal(signed: start, renews: true), recorded: 340)
        }
        for month in 0..<12 {
            let start = Double(month * 30)
            log.notified(
                purchase("\(7000 + month)", from: start, to: start + 30, original: "7000"),
                renewal(signed: start + 29, renews: true, retry: true, original: "7000"), recorded: 500)
            log.notified(
                purchase(
                    "\(7000 + month)", from: start, to: start + 30, signed: start + 31, revoked: start + 20,
                    original: "7000"), recorded: 500)
        }
        log.notified(purchase("C", "coins", from: 10, .consumable, original: "C"), recorded: 501)
        log.notified(lifetime("L", at: 10), recorded: 502)
        #expect(
            try log.story(by: 510) == [
                "RENEWAL @340", "EXPIRATION UNKNOWN @360", "NON_RENEWING_PURCHASE @502",
            ])
    }

    @Test("an endpoint is not told of what was before it")
    func past() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 3, renews: false))
        #expect(try log.story(after: 3, by: 40) == ["EXPIRATION UNSUBSCRIBE @30"])
    }

    @Test("the same said again, in other words and by others, sends nothing")
    func repetition() throws {
        var log = subscribed()
        for hour in 1...5 {
            log.notified(
                purchase("1000", from: 0, to: 30, signed: Double(hour)), renewal(signed: Double(hour), renews: true))
        }
        #expect(try log.story(by: 20) == ["INITIAL_PURCHASE @0"])
    }

    @Test("what goes through the log again, in smaller steps, finds the same events, byte for byte")
    func sameAgain() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 29.9, renews: true, graceEnd: 46))
        log.notified(purchase("1000", from: 0, to: 30, signed: 40, revoked: 39))
        let once = try log.told(by: 60)
        var again: [SentEvent] = []
        for end in stride(from: 0.0, through: 60, by: 0.5) {
            again = try log.told(by: end)
            #expect(again.map(\.members) == once.prefix(again.count).map(\.members))
        }
        #expect(again.count == once.count)
    }

    @Test("transaction ids are texts, and sandbox is told apart")
    func textsAndSandbox() throws {
        for environment in StoreEnvironment.allCases {
            var log = subscribed(in: environment)
            log.granted(at: 1)
            for event in try log.told(by: 2) {
                guard case .string? = event["transaction_id"], case .string? = event["original_transaction_id"] else {
                    Issue.record("\(event.members)")
                    continue
                }
                #expect(event["environment"] == .string(environment == .sandbox ? "SANDBOX" : "PRODUCTION"))
            }
        }
    }

    @Test("two purchases do not speak for each other: one ends while the other goes on")
    func twoPurchases() throws {
        var log = subscribed()
        log.notified(purchase("2000", "pro.yearly", from: 10, to: 375, original: "2000"))
        let told = try log.told(by: 40)
        #expect(told.map(\.description) == ["INITIAL_PURCHASE @0", "INITIAL_PURCHASE @10", "EXPIRATION UNKNOWN @30"])
        // Which of them is meant is told by the transaction, and whether anything is lost by the entitlements after it.
        #expect(told[2]["original_transaction_id"] == .string("1000"))
        #expect(told[2].document.subscriber.entitlements["premium"]?.productIdentifier == "pro.yearly")
    }

    @Test(
        "an event has the members that RevenueCat lists, null where nothing is known, and names people by number alone")
    func members() throws {
        let told = try subscribed().told(by: 1)
        let members = try #require(told.first?.members)
        #expect(
            members.keys.sorted() == [
                "aliases", "app_id", "commission_percentage", "country_code", "currency", "entitlement_id",
                "entitlement_ids", "environment", "experiments", "expiration_at_ms", "is_family_share", "metadata",
                "offer_code", "original_transaction_id", "period_type", "presented_offering_id", "price",
                "price_in_purchased_currency", "product_id", "purchased_at_ms", "renewal_number", "store", "subject",
                "subscriber_attributes", "takehome_percentage", "tax_percentage", "transaction_id", "type",
            ])
        #expect(members["entitlement_ids"] == .array(Self.premium) && members["price"] == .null)
        #expect(members["aliases"] == .array([.int(alice.number)]) && members["app_id"] == .string("com.example"))
        let kept = try WireJSON.encode(WireValue.object(members))
        #expect(try EventMessage.people(in: kept) == [alice])
        let sent = try EventMessage.body(
            of: kept,
            EventMessage.Sending(
                id: "an-id", at: day(0), sequence: 3, customerID: "alice", names: [alice: "alice"],
                before: Array("{}".utf8), after: Array(#"{"premium":{}}"#.utf8)))
        let body = try WireJSON.decode(WireValue.self, from: sent)
        let event = body["event"]
        #expect(body["api_version"] == .string("1.0") && event?["subject"] == nil)
        #expect(event?["app_user_id"] == .string("alice") && event?["original_app_user_id"] == .string("alice"))
        #expect(event?["aliases"] == .array([.string("alice")]) && event?["id"] == .string("an-id"))
        #expect(event?["sequence"] == .int(3) && event?["event_timestamp_ms"] == .int(day(0).milliseconds))
        #expect(event?["before"] == .object([:]) && event?["after"] == .object(["premium": .object([:])]))
        // Of a forgotten name nothing is left.
        let without = try EventMessage.body(
            of: kept,
            EventMessage.Sending(
                id: "an-id", at: day(0), sequence: 3, customerID: "alice", names: [:], before: Array("{}".utf8),
                after: Array("{}".utf8)))
        #expect(try WireJSON.decode(WireValue.self, from: without)["event"]?["aliases"] == .array([]))
    }

    @Test("TEST is a whole event of nobody, with the fields that RevenueCat's has")
    func test() throws {
        func event(_ app: String?) throws -> WireValue? {
            try WireJSON.decode(WireValue.self, from: EventMessage.test(id: "x", appID: app, at: day(1)))["event"]
        }
        let test = try event(nil)
        #expect(test?["type"] == .string("TEST") && test?["id"] == .string("x"))
        #expect(test?["app_user_id"] == .string("test") && test?["store"] == .string("APP_STORE"))
        #expect(test?["aliases"] == .array([.string("test")]) && test?["original_app_user_id"] == .string("test"))
        #expect(test?["environment"] == .string("SANDBOX") && test?["period_type"] == .string("NORMAL"))
        #expect(test?["product_id"] == .string("test_product") && test?["entitlement_ids"] == .null)
        #expect(test?["event_timestamp_ms"] == .int(day(1).milliseconds))
        #expect(test?["purchased_at_ms"] == .int(day(1).milliseconds))
        // Two hours, as RevenueCat's.
        #expect(test?["expiration_at_ms"] == .int(day(1).milliseconds + 7_200_000))
        // Receivers tell apps apart by it, so there is one.
        #expect(test?["app_id"] == .string("test_app"))
        #expect(try event("com.example")?["app_id"] == .string("com.example"))
    }

    @Test("the trap of spellings: a UUID is sent in both, for receivers compare texts, and any other id as it is")
    func spellings() throws {
        let told = try #require(try subscribed().told(by: 1).first)
        let kept = try WireJSON.encode(WireValue.object(told.members))
        func aliases(_ name: String) throws -> WireValue? {
            let body = try EventMessage.body(
                of: kept,
                EventMessage.Sending(
                    id: "x", at: day(0), sequence: 1, customerID: name, names: [alice: name],
                    before: Array("{}".utf8), after: Array("{}".utf8)))
            return try WireJSON.decode(WireValue.self, from: body)["event"]?["aliases"]
        }
        let uuid = "0b9f2c4d-6e8a-4f1c-9d3e-5a7b1c2d4e6f"
        #expect(try aliases(uuid) == .array([.string(uuid), .string(uuid.uppercased())]))
        #expect(try aliases("Ann/1") == .array([.string("Ann/1")]))
    }

    @Test(
        "a price is shown in its own currency, in dollars where that is what was paid, and what went back is less than 0"
    )
    func statedPrices() throws {
        func price(_ amount: Int64, _ currency: String) -> Money? { Money(thousandths: amount, currency: currency) }
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30, price: price(9990, "USD")))
        log.notified(purchase("1000", from: 0, to: 30, signed: 2, revoked: 2, price: price(9990, "USD")))
        log.notified(purchase("2000", from: 3, to: 33, original: "2000", price: price(1_500_000, "JPY")))
        log.stripe(at: 6) { $0.invoices = paidLine("1", from: 6, to: 36, currency: "eur") }
        let told = try log.told(by: 10)
        func amounts(_ type: MessageType) -> [[WireValue?]] {
            told.filter { $0.type == type }.map { event in
                ["price", "price_in_purchased_currency", "currency"].map { event[$0] }
            }
        }
        #expect(
            amounts(.initialPurchase) == [
                [.double(9.99), .double(9.99), .string("USD")], [.null, .int(1500), .string("JPY")],
                [.null, .double(9.99), .string("EUR")],
            ])
        #expect(amounts(.cancellation) == [[.double(-9.99), .double(-9.99), .string("USD")]])
    }

    @Test(
        "the trap of sums: a part that went back is told as that part, on the web too, and a family's share costs nobody twice"
    )
    func partsOfPrices() throws {
        let price = Money(thousandths: 9990, currency: "USD")
        var log = TestLog()
        log.stripe(at: 1) {
            $0.invoices = paidLine("1", from: 1, to: 31, currency: "usd")
            $0.invoicePayments = [WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)]
        }
        log.stripe(at: 2) {
            $0.refunds = [
                WebRefund(
                    refundID: "re_1", amount: 333, currency: "usd", status: .known(.succeeded), created: day(2),
                    paymentIntent: "pi_1", charge: nil)
            ]
        }
        log.notified(purchase("3000", from: 3, to: 33, ownership: .familyShared, original: "3000", price: price))
        let told = try log.told(by: 4)
        let amounts = told.map { event in ["price", "price_in_purchased_currency"].map { event[$0] } }
        #expect(told.map(\.type).prefix(2) == [.initialPurchase, .cancellation], "\(told.map(\.type))")
        #expect(amounts.first == [.double(9.99), .double(9.99)])
        #expect(amounts.dropFirst().first == [.double(-3.33), .double(-3.33)])
        #expect(amounts.last == [.int(0), .int(0)] && told.last?.type == .initialPurchase)
    }

    @Test(
        "the trap of parts: each refund of Stripe's is told with what it gave back, whether it ends access or not",
        arguments: [ProratedRefundPolicy.endsAccess, .keepsAccess])
    func refundsInParts(policy: ProratedRefundPolicy) throws {
        var log = TestLog(policy: AccessPolicy(proratedRefund: policy))
        log.stripe(at: 1) {
            $0.invoices = paidLine("1", from: 1, to: 31, currency: "usd")
            $0.invoicePayments = [WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)]
        }
        for (number, at, amount) in [(1, 2, 301), (2, 20, 501), (2, 21, 501), (3, 25, 197)] as [(Int, Double, Int64)] {
            log.stripe(at: at) {
                $0.refunds = [
                    WebRefund(
                        refundID: "re_\(number)", amount: amount, currency: "usd", status: .known(.succeeded),
                        created: day(at), paymentIntent: "pi_1", charge: nil)
                ]
            }
        }
        let refunds = try log.told(by: 30).filter { $0.type == .cancellation }
        #expect(refunds.map { $0["price"] } == [.double(-3.01), .double(-5.01), .double(-1.97)], "\(refunds)")
        #expect(refunds.allSatisfy { $0["cancel_reason"] == .string("CUSTOMER_SUPPORT") })
        #expect(try log.told(by: 30).count { $0.type == .expiration } == 1)
    }

    @Test("a part that goes back at the moment of an unsubscription does not hide it")
    func partAndUnsubscription() throws {
        var log = TestLog(policy: AccessPolicy(proratedRefund: .keepsAccess))
        let item = WebItem(
            item: "si_1", product: WebProduct(price: "price_pro", product: nil), periodStart: nil, periodEnd: day(31))
        log.stripe(at: 1) {
            $0.invoices = paidLine("1", from: 1, to: 31, currency: "usd")
            $0.invoicePayments = [WebInvoicePayment(paymentIntent: "pi_1", charge: nil, invoice: "in_1", amount: 999)]
            $0.subscription = WebSubscription(status: .known(.active), items: [item])
        }
        log.stripe(at: 2) {
            $0.refunds = [
                WebRefund(
                    refundID: "re_1", amount: 301, currency: "usd", status: .known(.succeeded), created: day(2),
                    paymentIntent: "pi_1", charge: nil)
            ]
            $0.subscription = WebSubscription(status: .known(.active), items: [item], cancelsAtPeriodEnd: true)
        }
        let reasons = try log.told(by: 3).filter { $0.type == .cancellation }.map { $0["cancel_reason"] }
        #expect(reasons == [.string("CUSTOMER_SUPPORT"), .string("UNSUBSCRIBE")])
    }

    @Test("an end that is set for after more periods is no unsubscription, nor is a pause of the collection")
    func commitment() throws {
        var log = TestLog()
        func told(until end: Double, _ change: (inout WebSubscription) -> Void) -> WebSubscription {
            var subscription = WebSubscription(
                status: .known(.active),
                items: [
                    WebItem(
                        item: "si_1", product: WebProduct(price: "price_pro", product: nil), periodStart: nil,
                        periodEnd: day(end))
                ])
            change(&subscription)
            return subscription
        }
        for month in 0..<3 {
            let (start, end) = (Double(1 + 30 * month), Double(31 + 30 * month))
            log.stripe(at: start) {
                $0.invoices = paidLine("\(month)", from: start, to: end, currency: "usd")
                $0.subscription = told(until: end) { $0.cancelAt = day(91) }
            }
            guard month == 1 else { continue }
            log.stripe(at: 40) {
                $0.subscription = told(until: end) { $0.collectionPause = "void" }
            }
        }
        #expect(log.subscriber(at: 45).subscriptions["pro"]?.unsubscribeDetectedAt == nil)
        let types = try log.told(by: 100).map(\.type)
        // What is paused ends with what was paid for, until it goes on.
        #expect(
            types == [.initialPurchase, .renewal, .expiration, .renewal, .cancellation, .expiration], "\(types)")
    }

    @Test("an unknown price is null, and 0 only where nothing was due")
    func prices() throws {
        var log = TestLog()
        let offers: [Offer?] = [nil, Offer(type: 1, discount: "FREE_TRIAL"), Offer(type: 1, discount: "PAY_UP_FRONT")]
        for (number, offer) in offers.enumerated() {
            let id = "\(1000 + number)"
            log.notified(
                purchase(id, from: 0, to: 30, offer: offer, original: id),
                renewal(signed: 0, renews: true, original: id))
            log.notified(nil, renewal(signed: 1, renews: false, original: id))
            log.notified(purchase(id, from: 0, to: 30, signed: 2, revoked: 2, offer: offer, original: id))
        }
        log.notified(lifetime("L", at: 3))
        log.granted(at: 4, until: 5)
        log.stripe(at: 6) { $0.invoices = paidLine("1", from: 6, to: 36) }
        let told = try log.told(by: 40)
        #expect(told.count > 12)
        for event in told {
            let isFree = ["TRIAL", "PROMOTIONAL"].contains { event["period_type"] == .string($0) }
            for member in ["price", "price_in_purchased_currency"] {
                #expect(event[member] == (isFree ? .int(0) : .null), "\(event): \(event.members)")
            }
            #expect(event["currency"] == .null)
        }
    }
}
