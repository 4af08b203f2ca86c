import EntitlementAPI
import EntitlementCore
import TestSupport
import Testing

@testable import RevenueCatAPI

@Suite("RevenueCat's document: what its members say")
struct SubscriberTests {
    @Test("every member is there, as RevenueCat names it, and dates are whole seconds")
    func wholeDocument() throws {
        var told = TestLog()
        told.notified(
            purchase("1", from: 0.000001, to: 30, offer: Offer(type: 1, discount: "FREE_TRIAL")),
            renewal(signed: 0.1, renews: true), recorded: 0.5)
        told.notified(lifetime("2", "gems", at: 1), recorded: 1)
        let encoded = try WireJSON.encode(told.document(at: day(2).adding(milliseconds: 250)))
        let expected = #"""
            {"request_date":"2026-01-03T00:00:00Z","request_date_ms":1767398400250,"subscriber":{
            "entitlements":{"premium":{"expires_date":"2026-01-31T00:00:00Z","grace_period_expires_date":null,
            "product_identifier":"pro","purchase_date":"2026-01-01T00:00:00Z"}},
            "first_seen":"2026-01-01T12:00:00Z","last_seen":"2026-01-02T00:00:00Z",
            "management_url":"https://apps.apple.com/account/subscriptions",
            "non_subscriptions":{"gems":[{"display_name":null,"id":"2","is_sandbox":false,
            "original_purchase_date":"2026-01-02T00:00:00Z","price":null,"purchase_date":"2026-01-02T00:00:00Z",
            "store":"app_store","store_transaction_id":"2"}]},
            "original_app_user_id":"alice","original_application_version":null,"original_purchase_date":null,
            "other_purchases":{"gems":{"purchase_date":"2026-01-02T00:00:00Z"}},"subscriber_attributes":{},
            "subscriptions":{"pro":{"auto_resume_date":null,"billing_issues_detected_at":null,"display_name":null,
            "expires_date":"2026-01-31T00:00:00Z","grace_period_expires_date":null,"is_sandbox":false,
            "original_purchase_date":"2026-01-01T00:00:00Z","ownership_type":"PURCHASED","period_type":"trial",
            "price":null,"purchase_date":"2026-01-01T00:00:00Z","refunded_at":null,"store":"app_store",
            "store_transaction_id":"1","unsubscribe_detected_at":null}}}}
            """#
        #expect(
            try WireJSON.decode(WireValue.self, from: encoded)
                == WireJSON.decode(WireValue.self, from: Array(expected.utf8)))
        #expect(
            try WireJSON.decode(SubscriberDocument.self, from: encoded)
                == told.document(at: day(2).adding(milliseconds: 250)))
    }

    @Test("what does not run out expires never: null is a lifetime")
    func lifetimeIsNull() throws {
        var told = TestLog()
        told.notified(lifetime("1", at: 0))
        #expect(told.subscriber(at: 1).entitlements["premium"] != nil)
        #expect(told.subscriber(at: 1).entitlements["premium"]?.expiresDate == nil)
        let encoded = try String(decoding: WireJSON.encode(told.document(at: 1)), as: UTF8.self)
        #expect(encoded.contains(#""premium":{"expires_date":null"#))
        #expect(try told.sdk(at: 10_000).active == ["premium"])
    }

    @Test("one-time purchases are listed in ascending order, the last of them beside, and those taken back not at all")
    func oneTimePurchases() {
        var told = TestLog()
        for (id, bought) in [("3", 20.0), ("1", 0.0), ("2", 10.0)] {
            told.notified(purchase(id, "coins", from: bought, .consumable, original: id))
        }
        told.notified(lifetime("4", at: 5))
        func ids(_ product: String, at days: Double) -> [String] {
            told.subscriber(at: days).nonSubscriptions[product]?.map(\.id) ?? []
        }
        #expect(ids("coins", at: 30) == ["1", "2", "3"] && ids("coins", at: 15) == ["1", "2"])
        #expect(told.subscriber(at: 30).otherPurchases["coins"]?.purchaseDate == shown(20))
        #expect(told.subscriber(at: 30).entitlements["premium"]?.productIdentifier == "lifetime")
        told.notified(lifetime("4", at: 5, signed: 25, revoked: 24))
        #expect(ids("lifetime", at: 23) == ["4"] && ids("lifetime", at: 30) == [])
        #expect(told.subscriber(at: 30).otherPurchases["lifetime"] == nil)
        #expect(told.subscriber(at: 30).entitlements["premium"] == nil)
    }

    @Test("a purchase that runs for the catalog's duration gives its entitlement until then, and stays listed")
    func season() throws {
        var told = TestLog()
        told.notified(purchase("1", "season", from: 0, .nonRenewing, original: "1"))
        #expect(told.subscriber(at: 1).entitlements["premium"]?.expiresDate == shown(90))
        let after = told.subscriber(at: 100)
        #expect(after.entitlements["premium"]?.expiresDate == shown(90) && after.nonSubscriptions["season"]?.count == 1)
        #expect(try told.sdk(at: 100).active.isEmpty)
    }

    @Test("a product has one entry, its latest period; those that ended stay, and their first purchase never moves")
    func latestPeriod() {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30))
        told.notified(purchase("2", from: 30, to: 60, reason: .renewal))
        told.notified(purchase("3", "pro.yearly", from: 40, to: 405))
        let upgraded = told.subscriber(at: 50)
        #expect(upgraded.subscriptions.keys.sorted() == ["pro", "pro.yearly"])
        #expect(upgraded.subscriptions["pro"]?.storeTransactionID == "2")
        #expect(upgraded.subscriptions["pro"]?.expiresDate == shown(40))
        #expect(upgraded.subscriptions.values.allSatisfy { $0.originalPurchaseDate == shown(0) })
        #expect(upgraded.entitlements["premium"]?.productIdentifier == "pro.yearly")
        told.notified(purchase("4", from: 500, to: 530))
        let resubscribed = told.subscriber(at: 510)
        #expect(resubscribed.subscriptions["pro"]?.purchaseDate == shown(500))
        #expect(resubscribed.subscriptions["pro"]?.originalPurchaseDate == shown(0))
        #expect(resubscribed.subscriptions["pro.yearly"]?.expiresDate == shown(405))
        #expect(resubscribed.entitlements["premium"]?.productIdentifier == "pro")
        let lapsed = told.subscriber(at: 600)
        #expect(lapsed.entitlements["premium"]?.expiresDate == shown(530) && lapsed.subscriptions.count == 2)
    }

    @Test(
        "a renewal that is told of ahead is shown as soon as it is known, another product from when it begins",
        arguments: [29.5, 30])
    func renewedAhead(bought: Double) throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30), renewal(signed: 0, renews: true))
        #expect(told.subscriber(at: 29.7).subscriptions["pro"]?.expiresDate == shown(30))
        told.notified(purchase("2", from: bought, to: 60, signed: 29.5, reason: .renewal))
        for instant in [29.7, 31] {
            let entry = told.subscriber(at: instant).subscriptions["pro"]
            #expect(entry?.expiresDate == shown(60) && entry?.purchaseDate == shown(bought))
            #expect(entry?.storeTransactionID == "2" && entry?.unsubscribeDetectedAt == nil)
        }
        var cancelled = told
        cancelled.notified(nil, renewal(signed: 29.8, renews: false))
        for instant in [29.9, 31, 61] {
            #expect(cancelled.subscriber(at: instant).subscriptions["pro"]?.unsubscribeDetectedAt == shown(29.8))
        }
        var refunded = told
        refunded.notified(
            purchase("2", from: bought, to: 60, signed: 29.8, revoked: 29.8, reason: .renewal),
            renewal(signed: 29.8, renews: false))
        #expect(refunded.subscriber(at: 29.9).subscriptions["pro"]?.expiresDate == shown(30))
        #expect(refunded.subscriber(at: 31).subscriptions["pro"]?.refundedAt == shown(29.8))
        told.notified(purchase("3", "basic", from: 59.5, to: 90, reason: .renewal))
        #expect(told.subscriber(at: 59.7).subscriptions["basic"] == nil)
        #expect(try told.sdk(at: 59.7).active == ["premium"])
        #expect(try told.sdk(at: 60).active == ["basic"])
    }

    @Test("of several purchases for an entitlement the furthest expiry shows")
    func furthestExpiry() {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30))
        told.notified(purchase("5", "pro.yearly", from: 0, to: 365, original: "5"))
        told.granted(at: 0, until: 90)
        #expect(told.subscriber(at: 1).entitlements["premium"]?.productIdentifier == "pro.yearly")
        #expect(told.subscriber(at: 1).entitlements["premium"]?.expiresDate == shown(365))
        // Two of one product are one entry, too.
        told.notified(purchase("6", from: 2, to: 400, original: "6"))
        #expect(told.subscriber(at: 1).subscriptions["pro"]?.expiresDate == shown(30))
        #expect(told.subscriber(at: 3).subscriptions["pro"]?.expiresDate == shown(400))
        #expect(told.subscriber(at: 3).entitlements["premium"]?.productIdentifier == "pro")
        told.notified(lifetime("7", at: 4))
        #expect(told.subscriber(at: 5).entitlements["premium"]?.productIdentifier == "lifetime")
    }

    @Test("a period's type, owner and store are told apart")
    func words() {
        func period(_ offer: Offer?, _ ownership: AppleOwnership = .purchased) -> SubscriptionEntry? {
            var told = TestLog()
            told.notified(purchase("1", from: 0, to: 30, offer: offer, ownership: ownership))
            return told.subscriber(at: 1).subscriptions["pro"]
        }
        #expect(period(nil)?.periodType == .normal)
        #expect(period(Offer(type: 1, discount: "FREE_TRIAL"))?.periodType == .trial)
        #expect(period(Offer(type: 3, discount: "FREE_TRIAL"))?.periodType == .trial)
        #expect(period(Offer(type: 1, discount: "PAY_AS_YOU_GO"))?.periodType == .intro)
        #expect(period(Offer(type: 1))?.periodType == .intro)
        #expect(period(Offer(type: 2, discount: "PAY_UP_FRONT"))?.periodType == .normal)
        #expect(period(nil)?.ownershipType == .purchased && period(nil, .familyShared)?.ownershipType == .familyShared)
        #expect(period(nil)?.store == .appStore)
    }

    @Test("the management page is Apple's while a subscription of the App Store runs, grace included, and none else")
    func managementURL() {
        var told = TestLog()
        told.granted(at: 0)
        told.notified(lifetime("9", at: 0))
        told.stripe(at: 0) { $0.invoices = paidLine("1", from: 0, to: 300) }
        #expect(told.subscriber(at: 1).managementURL == nil)
        told.notified(purchase("1", from: 2, to: 32), renewal(signed: 32, graceEnd: 48))
        for days in [2, 31, 40] {
            #expect(told.subscriber(at: Double(days)).managementURL == "https://apps.apple.com/account/subscriptions")
        }
        #expect(told.subscriber(at: 50).managementURL == nil)
    }

    @Test("what became somebody else's is listed with them alone")
    func transferred() throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30))
        told.notified(lifetime("2", at: 0))
        told.transferred(to: bob, at: 10)
        told.transferred(to: bob, at: 10, original: "2")
        #expect(try told.sdk(at: 9).active == ["premium"] && told.subscriber(at: 9).subscriptions.count == 1)
        let after = told.subscriber(at: 11)
        #expect(after.subscriptions.isEmpty && after.nonSubscriptions.isEmpty && after.entitlements.isEmpty)
    }
}
