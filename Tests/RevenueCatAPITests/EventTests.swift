import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// What became of purchases, in RevenueCat's words: each type with what makes it.
@Suite("RevenueCat's events: each type")
struct EventTests {
    /// A subscription from day 0, to be renewed at day 30.
    private func subscribed(_ policy: AccessPolicy = AccessPolicy(), offer: Offer? = nil) -> TestLog {
        var log = TestLog(policy: policy)
        log.notified(purchase("1000", from: 0, to: 30, offer: offer), renewal(signed: 0, renews: true, as: "pro"))
        return log
    }

    private static let trial = Offer(type: 1, discount: "FREE_TRIAL")

    @Test("INITIAL_PURCHASE, RENEWAL, and EXPIRATION by time alone")
    func life() throws {
        var log = subscribed()
        log.notified(purchase("1001", from: 29.5, to: 60, reason: .renewal))
        #expect(try log.story(by: 100) == ["INITIAL_PURCHASE @0", "RENEWAL @29.5", "EXPIRATION UNKNOWN @60"])
    }

    @Test("a RENEWAL is told when it is announced, and so is what is said before it begins", arguments: [29.2, 30])
    func renewedAhead(bought: Double) throws {
        var log = subscribed()
        log.notified(
            purchase("1001", from: bought, to: 60, signed: 29.2, reason: .renewal), renewal(signed: 29.2, renews: true))
        var cancelled = log
        cancelled.notified(nil, renewal(signed: 29.5, renews: false))
        #expect(
            try cancelled.story(by: 100) == [
                "INITIAL_PURCHASE @0", "RENEWAL @29.2", "CANCELLATION UNSUBSCRIBE @29.5", "EXPIRATION UNSUBSCRIBE @60",
            ])
        #expect(try cancelled.told(by: 50).last?["expiration_at_ms"] == .int(day(60).milliseconds))

        var downgraded = log
        downgraded.notified(nil, renewal(signed: 29.5, renews: true, as: "basic"))
        downgraded.notified(purchase("1002", "basic", from: 60, to: 90, signed: 59.5, reason: .renewal))
        downgraded.notified(nil, renewal(signed: 59.7, renews: false, as: "basic"))
        #expect(
            try downgraded.story(by: 70) == [
                "INITIAL_PURCHASE @0", "RENEWAL @29.2", "PRODUCT_CHANGE basic @29.5", "RENEWAL @60",
                "CANCELLATION UNSUBSCRIBE @60",
            ])

        var refunded = log
        refunded.notified(
            purchase("1001", from: bought, to: 60, signed: 29.5, revoked: 29.4, reason: .renewal),
            renewal(signed: 29.5, renews: false))
        let told = try refunded.told(by: 100)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "RENEWAL @29.2", "CANCELLATION CUSTOMER_SUPPORT @29.5",
                "CANCELLATION UNSUBSCRIBE @29.5", "EXPIRATION CUSTOMER_SUPPORT @30",
            ])
        #expect(told[2]["transaction_id"] == .string("1001"))
        #expect(told[2]["expiration_at_ms"] == .int(day(30).milliseconds))

        // Whoever was charged had turned it on again, though nobody heard of that.
        var silent = subscribed()
        silent.notified(nil, renewal(signed: 10, renews: false))
        silent.notified(purchase("1001", from: bought, to: 60, signed: 29.2, reason: .renewal))
        #expect(
            try silent.story(by: 50) == ["INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @10", "RENEWAL @29.2"])

        // What is learned of when its money has gone back already was never told.
        var late = subscribed()
        late.notified(
            purchase("1001", from: bought, to: 60, signed: 29.5, revoked: 29.4, reason: .renewal),
            renewal(signed: 29.5, renews: true))
        #expect(try late.story(by: 100) == ["INITIAL_PURCHASE @0", "EXPIRATION CUSTOMER_SUPPORT @30"])
    }

    @Test("a RENEWAL of a trial is a conversion, any other none")
    func trialConversion() throws {
        var log = subscribed(offer: Self.trial)
        log.notified(purchase("1001", from: 30, to: 60, reason: .renewal))
        log.notified(purchase("1002", from: 60, to: 90, reason: .renewal))
        let told = try log.told(by: 80)
        #expect(told.map(\.type) == [.initialPurchase, .expiration, .renewal, .expiration, .renewal])
        #expect(told.map { $0["is_trial_conversion"] } == [nil, nil, .bool(true), nil, .bool(false)])
        #expect(told[0]["period_type"] == .string("TRIAL") && told[0]["price"] == .int(0))
        #expect(told[2]["period_type"] == .string("NORMAL") && told[2]["price"] == .null)
    }

    @Test("CANCELLATION when renewing is turned off, UNCANCELLATION when it is on again, EXPIRATION with the reason")
    func unsubscribing() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 3, renews: false))
        log.notified(nil, renewal(signed: 4, renews: false))
        log.notified(nil, renewal(signed: 5, renews: true))
        log.notified(nil, renewal(signed: 6, renews: false))
        log.notified(purchase("1000", from: 0, to: 30, signed: 31), renewal(signed: 31, renews: false, intent: 1))
        #expect(
            try log.story(by: 100) == [
                "INITIAL_PURCHASE @0", "CANCELLATION UNSUBSCRIBE @3", "UNCANCELLATION @5",
                "CANCELLATION UNSUBSCRIBE @6",
                "EXPIRATION UNSUBSCRIBE @30",
            ])
    }

    @Test("who does not agree to a higher price is told apart")
    func priceIncrease() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 3, renews: false, intent: 3))
        #expect(
            try log.story(by: 100) == [
                "INITIAL_PURCHASE @0", "CANCELLATION PRICE_INCREASE @3", "EXPIRATION PRICE_INCREASE @30",
            ])
    }

    @Test("BILLING_ISSUE once for an episode, with CANCELLATION; EXPIRATION at the end of grace, not before")
    func grace() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 29.9, renews: true, graceEnd: 46, retry: true))
        log.notified(nil, renewal(signed: 33, renews: true, graceEnd: 46, retry: true))
        log.notified(nil, renewal(signed: 47, renews: true, retry: true))
        let told = try log.told(by: 100)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "BILLING_ISSUE @29.9", "CANCELLATION BILLING_ERROR @29.9",
                "EXPIRATION BILLING_ERROR @46",
            ])
        #expect(told[1]["grace_period_expiration_at_ms"] == .int(day(46).milliseconds))
        #expect(told[3]["expiration_at_ms"] == .int(day(46).milliseconds))
    }

    @Test("without grace EXPIRATION comes with the end of what was paid, and a recovery is a RENEWAL")
    func retry() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 29.9, renews: true, retry: true))
        log.notified(purchase("1001", from: 35, to: 65, reason: .renewal), renewal(signed: 35, renews: true))
        #expect(
            try log.story(by: 50) == [
                "INITIAL_PURCHASE @0", "BILLING_ISSUE @29.9", "CANCELLATION BILLING_ERROR @29.9",
                "EXPIRATION BILLING_ERROR @30", "RENEWAL @35",
            ])
    }

    @Test("a charge that went through for a period that begins where the last one ended ends the episode")
    func recoveredWithoutGap() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 30.01, renews: true, graceEnd: 46, retry: true))
        log.notified(
            purchase("1001", from: 30, to: 60, signed: 33, reason: .renewal), renewal(signed: 33, renews: true))
        #expect(
            try log.story(by: 50).filter { !$0.hasPrefix("SUBSCRIPTION_EXTENDED") } == [
                "INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @30", "BILLING_ISSUE @30.01",
                "CANCELLATION BILLING_ERROR @30.01", "RENEWAL @33",
            ])
    }

    @Test("the next failure is another episode")
    func episodes() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 29.9, renews: true, graceEnd: 46))
        log.notified(purchase("1001", from: 33, to: 63, reason: .renewal), renewal(signed: 33, renews: true))
        log.notified(nil, renewal(signed: 62.9, renews: true, graceEnd: 79))
        #expect(
            try log.story(by: 70) == [
                "INITIAL_PURCHASE @0", "BILLING_ISSUE @29.9", "CANCELLATION BILLING_ERROR @29.9", "RENEWAL @33",
                "BILLING_ISSUE @62.9", "CANCELLATION BILLING_ERROR @62.9",
            ])
    }

    @Test("a refund is CANCELLATION and EXPIRATION, its reversal REFUND_REVERSED")
    func refund() throws {
        var log = subscribed()
        log.notified(purchase("1000", from: 0, to: 30, signed: 10, revoked: 9))
        log.notified(purchase("1000", from: 0, to: 30, signed: 12))
        let told = try log.told(by: 20)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @10", "EXPIRATION CUSTOMER_SUPPORT @10",
                "REFUND_REVERSED @12",
            ])
        #expect(told[1]["expiration_at_ms"] == .int(day(9).milliseconds))
        #expect(told[3]["expiration_at_ms"] == .int(day(30).milliseconds))
    }

    @Test("a refund that is reversed after the end gives money back and no access: what lets in is followed by the end")
    func reversedTooLate() throws {
        var log = subscribed()
        log.notified(purchase("1000", from: 0, to: 30, signed: 10, revoked: 9))
        let refunded = [
            "INITIAL_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @10", "EXPIRATION CUSTOMER_SUPPORT @10",
        ]
        var late = log
        log.notified(purchase("1000", from: 0, to: 30, signed: 31))
        let told = try log.told(by: 40)
        #expect(told.map(\.description) == refunded + ["REFUND_REVERSED @31", "EXPIRATION UNKNOWN @31"])
        #expect(told.suffix(2).allSatisfy { $0["expiration_at_ms"] == .int(day(30).milliseconds) })
        // However late it is heard of, the money is back.
        late.notified(purchase("1000", from: 0, to: 30, signed: 31), recorded: 39)
        #expect(try late.story(by: 50) == refunded + ["REFUND_REVERSED @39", "EXPIRATION UNKNOWN @39"])
    }

    @Test("a refund that keeps access is a CANCELLATION alone")
    func proratedRefund() throws {
        var log = subscribed(AccessPolicy(proratedRefund: .keepsAccess))
        log.notified(purchase("1000", from: 0, to: 30, signed: 10, revoked: 10, .refundProrated))
        #expect(try log.story(by: 20) == ["INITIAL_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @10"])
    }

    @Test("the refund of an earlier period sends nothing")
    func earlierRefund() throws {
        var log = subscribed()
        log.notified(purchase("1001", from: 29.5, to: 60, reason: .renewal))
        log.notified(purchase("1000", from: 0, to: 30, signed: 35, revoked: 34))
        #expect(try log.story(by: 50) == ["INITIAL_PURCHASE @0", "RENEWAL @29.5"])
    }

    @Test("a downgrade is announced, and comes with the next RENEWAL")
    func downgrade() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 5, renews: true, as: "basic"))
        log.notified(
            purchase("1001", "basic", from: 30, to: 60, reason: .renewal),
            renewal(signed: 30, renews: true, as: "basic"))
        let told = try log.told(by: 50)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "PRODUCT_CHANGE basic @5", "EXPIRATION UNKNOWN @30", "RENEWAL @30",
            ])
        #expect(told[1]["product_id"] == .string("pro") && told[3]["product_id"] == .string("basic"))
        #expect(told[3]["entitlement_ids"] == .array([.string("basic")]))
    }

    @Test("an announced change that comes before its time ends what was, by another PRODUCT_CHANGE")
    func downgradeAtOnce() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 5, renews: true, as: "basic"))
        log.notified(purchase("1001", "basic", from: 10, to: 40), renewal(signed: 10, renews: true, as: "basic"))
        let told = try log.told(by: 20)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "PRODUCT_CHANGE basic @5", "PRODUCT_CHANGE basic @10", "RENEWAL @10",
            ])
        #expect(told[2]["product_id"] == .string("pro") && told[2]["expiration_at_ms"] == .int(day(10).milliseconds))
    }

    @Test("a change that is heard of only with its end is EXPIRATION of what was told of")
    func changeUnheard() throws {
        var log = subscribed()
        log.notified(purchase("1001", "basic", from: 9, to: 39, signed: 10, revoked: 9.5))
        let told = try log.told(by: 20)
        #expect(told.map(\.description) == ["INITIAL_PURCHASE @0", "EXPIRATION CUSTOMER_SUPPORT @10"])
        #expect(told[1]["product_id"] == .string("pro"))
        #expect(told[1]["entitlement_ids"] == .array([.string("premium")]))
        #expect(told[1]["expiration_at_ms"] == .int(day(9).milliseconds))
    }

    @Test("an announced change that is taken back is a change to what it is")
    func downgradeTakenBack() throws {
        var log = subscribed()
        log.notified(nil, renewal(signed: 5, renews: true, as: "basic"))
        log.notified(nil, renewal(signed: 6, renews: true, as: "pro"))
        #expect(
            try log.story(by: 20) == ["INITIAL_PURCHASE @0", "PRODUCT_CHANGE basic @5", "PRODUCT_CHANGE pro @6"])
    }

    @Test("an upgrade is PRODUCT_CHANGE of what was, followed by RENEWAL of what is")
    func upgrade() throws {
        var log = subscribed()
        log.notified(
            purchase("1001", "pro.yearly", from: 10, to: 375), renewal(signed: 10, renews: true, as: "pro.yearly"))
        let told = try log.told(by: 20)
        #expect(told.map(\.description) == ["INITIAL_PURCHASE @0", "PRODUCT_CHANGE pro.yearly @10", "RENEWAL @10"])
        #expect(told[1]["product_id"] == .string("pro"))
        #expect(told[1]["expiration_at_ms"] == .int(day(10).milliseconds))
        #expect(told[2]["product_id"] == .string("pro.yearly"))
        #expect(told[2]["expiration_at_ms"] == .int(day(375).milliseconds))
    }

    @Test("who lapsed and subscribes again sends RENEWAL, as the table of types says")
    func resubscription() throws {
        var log = subscribed()
        log.notified(purchase("1001", from: 50, to: 80))
        #expect(try log.story(by: 60) == ["INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @30", "RENEWAL @50"])
    }

    @Test("SUBSCRIPTION_EXTENDED when the store gives more time")
    func extended() throws {
        var log = subscribed()
        log.notified(purchase("1000", from: 0, to: 40, signed: 20))
        let told = try log.told(by: 50)
        #expect(
            told.map(\.description) == ["INITIAL_PURCHASE @0", "SUBSCRIPTION_EXTENDED @20", "EXPIRATION UNKNOWN @40"])
        #expect(told[1]["expiration_at_ms"] == .int(day(40).milliseconds))
    }

    @Test("one-time purchases: what gives access, what gives nothing, what runs for a while, and a refund")
    func oneTime() throws {
        var log = TestLog()
        log.notified(lifetime("L", at: 0))
        log.notified(lifetime("L", at: 0, signed: 2, revoked: 2))
        log.notified(purchase("C", "coins", from: 3, .consumable, original: "C"))
        log.notified(purchase("C", "coins", from: 3, .consumable, signed: 4, revoked: 4, original: "C"))
        log.notified(purchase("S", "season", from: 5, .nonRenewing, original: "S"))
        let told = try log.told(by: 200)
        #expect(
            told.map(\.description) == [
                "NON_RENEWING_PURCHASE @0", "CANCELLATION CUSTOMER_SUPPORT @2", "EXPIRATION CUSTOMER_SUPPORT @2",
                "NON_RENEWING_PURCHASE @3", "CANCELLATION CUSTOMER_SUPPORT @4", "NON_RENEWING_PURCHASE @5",
                "EXPIRATION UNKNOWN @95",
            ])
        #expect(told[0]["expiration_at_ms"] == .null)
        #expect(told[3]["entitlement_ids"] == .null && told[3]["entitlement_id"] == .null)
    }

    @Test("a one-time purchase that the store says again under another id is told once")
    func otherID() throws {
        var log = TestLog()
        for (id, signed) in [("M", 0), ("L", 2), ("A", 3), ("L", 4), ("M", 5)] as [(String, Double)] {
            var bought = lifetime(id, at: 0, signed: signed, original: "L")
            bought.webOrderLineItemID = nil
            log.notified(bought)
        }
        #expect(try log.story(by: 10) == ["NON_RENEWING_PURCHASE @0"])
    }

    @Test("a grant is a NON_RENEWING_PURCHASE of the store PROMOTIONAL, and ends as one")
    func grants() throws {
        var log = TestLog()
        log.granted(at: 0, until: 7)
        log.granted("grant_2", "basic", at: 1)
        log.tookBack("grant_2", at: 3)
        let told = try log.told(by: 20)
        #expect(
            told.map(\.description) == [
                "NON_RENEWING_PURCHASE @0", "NON_RENEWING_PURCHASE @1", "CANCELLATION DEVELOPER_INITIATED @3",
                "EXPIRATION DEVELOPER_INITIATED @3", "EXPIRATION UNKNOWN @7",
            ])
        #expect(told[0]["store"] == .string("PROMOTIONAL") && told[0]["period_type"] == .string("PROMOTIONAL"))
        #expect(told[0]["product_id"] == .string("rc_promo_premium_weekly"))
    }

    @Test("a family-shared purchase is marked as such, and its end is no refund")
    func family() throws {
        var log = TestLog()
        log.notified(purchase("1000", from: 0, to: 30, ownership: .familyShared))
        log.notified(
            purchase("1000", from: 0, to: 30, signed: 5, revoked: 5, .familyRevoke, ownership: .familyShared))
        let told = try log.told(by: 20)
        #expect(told.map(\.description) == ["INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @5"])
        #expect(told.allSatisfy { $0["is_family_share"] == .bool(true) })
    }

    @Test("what Stripe sells: a life with a failed charge and a recovery")
    func stripe() throws {
        var log = TestLog()
        log.stripe(at: 0) {
            $0.invoices = paidLine("1", from: 0, to: 30)
            $0.subscription = stripeSubscription(.active, until: 30)
        }
        log.stripe(at: 30) { $0.subscription = stripeSubscription(.active, until: 60) }
        log.stripe(at: 30.1) { $0.subscription = stripeSubscription(.pastDue, until: 60) }
        log.stripe(at: 33) {
            $0.invoices = paidLine("2", from: 30, to: 60)
            $0.subscription = stripeSubscription(.active, until: 60)
        }
        log.stripe(at: 40) { $0.subscription = stripeSubscription(.active, until: 60, cancels: true) }
        let told = try log.told(by: 90)
        #expect(
            told.map(\.description) == [
                "INITIAL_PURCHASE @0", "SUBSCRIPTION_EXTENDED @30", "BILLING_ISSUE @30.1",
                "CANCELLATION BILLING_ERROR @30.1", "RENEWAL @33", "CANCELLATION UNSUBSCRIBE @40",
                "EXPIRATION UNSUBSCRIBE @60",
            ])
        #expect(told[0]["store"] == .string("STRIPE") && told[0]["app_id"] == .null)
        #expect(told.map { $0["transaction_id"] }.first == .string("in_1"))
        #expect(told[4]["transaction_id"] == .string("in_2") && told[4]["original_transaction_id"] == .string("sub_1"))
    }

    @Test("a purchase that goes to another customer ends for the one and is bought by the other")
    func moved() throws {
        var log = subscribed()
        log.transferred(to: bob, at: 5)
        #expect(try log.story(by: 10) == ["INITIAL_PURCHASE @0", "EXPIRATION UNKNOWN @5"])
        #expect(try log.story(of: bob, by: 10) == ["INITIAL_PURCHASE @5"])
        let events = try EventTeller().transfer(
            of: [["store": "app_store", "app": "com.example"], ["store": "app_store", "app": "com.example"]],
            from: alice, to: bob, told: bob, in: .production)
        #expect(events.map(\.type) == [.transfer])
        let body = try EventMessage.body(
            of: events[0].body,
            EventMessage.Sending(
                id: "id", at: day(5), sequence: 1, customerID: "bob", names: [alice: "alice", bob: "bob"],
                before: Array("{}".utf8), after: Array("{}".utf8)))
        #expect(
            String(decoding: body, as: UTF8.self)
                == #"{"api_version":"1.0","event":{"after":{},"app_id":"com.example","before":{},"#
                + #""environment":"PRODUCTION","event_timestamp_ms":1767657600000,"id":"id","sequence":1,"#
                + #""store":"APP_STORE","transferred_from":["alice"],"transferred_to":["bob"],"type":"TRANSFER"}}"#)
    }
}
