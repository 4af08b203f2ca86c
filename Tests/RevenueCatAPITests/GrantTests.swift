import EntitlementAPI
import EntitlementCore
import TestSupport
import Testing

@testable import RevenueCatAPI

@Suite("RevenueCat's document: grants")
struct GrantTests {
    @Test(
        "a grant is a promotional product, named by its entitlement and how long it lasts",
        arguments: [
            ("P1D", "daily"), ("P3D", "three_day"), ("P7D", "weekly"), ("P14D", "two_week"), ("P1M", "monthly"),
            ("P2M", "two_month"), ("P3M", "three_month"), ("P6M", "six_month"), ("P1Y", "yearly"), ("P5D", "custom"),
        ])
    func names(length: String, name: String) throws {
        let duration = try #require(CalendarDuration(iso8601: length))
        // The end is reckoned by a client, a little before the grant is made.
        let end = day(10).adding(duration).adding(milliseconds: -700)
        var told = TestLog()
        told.granted(at: 10, endingAt: end)
        let subscriber = told.subscriber(at: 10.5)
        let product = "rc_promo_premium_\(name)"
        let entry = try #require(subscriber.subscriptions[product])
        #expect(subscriber.entitlements["premium"]?.productIdentifier == product)
        #expect(entry.store == .promotional && entry.periodType == .normal && entry.purchaseDate == shown(10))
        #expect(
            entry.expiresDate == WholeSecond(end)
                && entry.expiresDate == subscriber.entitlements["premium"]?.expiresDate)
        #expect(try told.sdk(at: 10.5).active == ["premium"] && !told.sdk(at: 10.5).willRenew("premium"))
        #expect(told.subscriber(at: 9).subscriptions.isEmpty)
    }

    @Test("a grant without an end ends in two hundred years, as RevenueCat shows it")
    func lifetimeGrant() throws {
        var told = TestLog()
        told.granted(at: 0)
        let entry = told.subscriber(at: 1).subscriptions["rc_promo_premium_lifetime"]
        #expect(entry?.expiresDate.map { "\($0)" } == "2226-01-01T00:00:00Z")
        #expect(try told.sdk(at: 1).active == ["premium"])
    }

    @Test("a grant that was taken back ended then, and stays listed")
    func takenBack() throws {
        var told = TestLog()
        told.granted(at: 0, until: 30)
        told.tookBack(at: 10)
        #expect(try told.sdk(at: 9).active == ["premium"] && told.sdk(at: 11).active.isEmpty)
        #expect(told.subscriber(at: 11).subscriptions["rc_promo_premium_custom"]?.expiresDate == shown(10))
    }

    @Test("two grants of one name are one entry, that of the later end")
    func twoAlike() {
        var told = TestLog()
        told.granted("grant_1", at: 0, until: 7)
        told.granted("grant_2", at: 3, until: 10)
        let subscriber = told.subscriber(at: 4)
        #expect(subscriber.subscriptions.keys.sorted() == ["rc_promo_premium_weekly"])
        #expect(subscriber.subscriptions.values.first?.storeTransactionID == "grant_2")
        #expect(subscriber.entitlements["premium"]?.expiresDate == shown(10))
    }
}
