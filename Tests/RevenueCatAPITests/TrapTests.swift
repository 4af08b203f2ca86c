import EntitlementAPI
import EntitlementCore
import Foundation
import TestSupport
import Testing

@testable import RevenueCatAPI

/// What goes wrong first where RevenueCat's documents are imitated, each by its name; those that are about HTTP are in
/// `RevenueCatRouteTests`.
@Suite("RevenueCat's document: the traps")
struct TrapTests {
    @Test("in grace the grace end is in both expiry dates, and afterwards in neither")
    func graceMovesTheExpiry() throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30))
        let before = told.subscriber(at: 29)
        #expect(before.entitlements["premium"]?.expiresDate == shown(30))
        #expect(before.entitlements["premium"]?.gracePeriodExpiresDate == nil)
        // The charge fails, and the store says until when it keeps access open, before what was paid for ends.
        told.notified(purchase("1", from: 0, to: 30, signed: 29.5), renewal(signed: 29.5, renews: true, graceEnd: 46))
        let ahead = told.subscriber(at: 29.6)
        #expect(ahead.entitlements["premium"]?.expiresDate == shown(46))
        #expect(ahead.subscriptions["pro"]?.gracePeriodExpiresDate == shown(46))
        let within = told.subscriber(at: 40)
        let (entitlement, subscription) = (within.entitlements["premium"], within.subscriptions["pro"])
        #expect(entitlement?.expiresDate == shown(46) && subscription?.expiresDate == shown(46))
        #expect(entitlement?.gracePeriodExpiresDate == shown(46) && subscription?.gracePeriodExpiresDate == shown(46))
        #expect(try told.sdk(at: 40).active == ["premium"])
        let after = told.subscriber(at: 50)
        #expect(after.entitlements["premium"]?.expiresDate == shown(46))
        #expect(after.entitlements["premium"]?.gracePeriodExpiresDate == nil)
        #expect(after.subscriptions["pro"]?.gracePeriodExpiresDate == nil)
        #expect(try told.sdk(at: 50).active.isEmpty)
    }

    @Test("what the policy adds to the paid time, and a payment under way, move the end as they are known")
    func laterEnds() throws {
        var leeway = TestLog(policy: AccessPolicy(leewaySeconds: 86_400))
        leeway.notified(purchase("1", from: 0, to: 30))
        for days in [1, 29.9, 30.5] {
            #expect(leeway.subscriber(at: days).entitlements["premium"]?.expiresDate == shown(31), "day \(days)")
            #expect(leeway.subscriber(at: days).entitlements["premium"]?.gracePeriodExpiresDate == nil)
        }
        #expect(try leeway.sdk(at: 30.5).active == ["premium"] && leeway.sdk(at: 31).active.isEmpty)
        var web = TestLog()
        web.stripe(at: 0) {
            $0.invoices = paidLine("1", from: 0, to: 30)
            $0.subscription = stripeSubscription(.active, until: 30)
        }
        // Stripe charges about an hour after the period has ended.
        #expect(web.subscriber(at: 1).subscriptions["pro"]?.expiresDate == shown(30 + 1.0 / 24))
        web.stripe(at: 30) { $0.subscription = stripeSubscription(.active, until: 60) }
        #expect(web.subscriber(at: 30.01).subscriptions["pro"]?.expiresDate == shown(33))
        #expect(web.subscriber(at: 30.01).subscriptions["pro"]?.gracePeriodExpiresDate == nil)
        web.stripe(at: 30.1) { $0.subscription = stripeSubscription(.pastDue, until: 60) }
        let grace = web.subscriber(at: 30.2).subscriptions["pro"]
        #expect(grace?.expiresDate == shown(37) && grace?.gracePeriodExpiresDate == shown(37))
    }

    @Test("nothing ends before it was bought, though it ended in the second in which it began")
    func endsBeforeBought() throws {
        var told = TestLog()
        let start = day(10).adding(milliseconds: 200)
        let second = Double(start.milliseconds - day(0).milliseconds) / 86_400_000
        let refund = second + 0.3 / 86_400
        told.notified(purchase("1", from: second, to: 40, signed: refund, revoked: refund))
        told.notified(purchase("2", "pro.yearly", from: second, to: 40, signed: refund, revoked: 5, original: "2"))
        told.granted(at: second, until: second)
        told.granted("grant_2", "basic", at: second, until: 3)
        for milliseconds in [200, 400, 500, 800, 1000, 5000] {
            let document = told.document(at: day(10).adding(milliseconds: Int64(milliseconds)))
            for entry in document.subscriber.subscriptions.values {
                let expiry = try #require(entry.expiresDate)
                #expect(entry.originalPurchaseDate <= entry.purchaseDate && entry.purchaseDate <= expiry, "\(entry)")
            }
            for (id, entry) in document.subscriber.entitlements {
                #expect(entry.expiresDate.map { entry.purchaseDate <= $0 } ?? false, "\(id) \(entry)")
            }
        }
        #expect(told.subscriber(at: 11).subscriptions.count == 4)
        #expect(try told.sdk(at: 11).active.isEmpty)
    }

    @Test("a grace period that gives no access here moves no date")
    func graceWithoutAccess() throws {
        var told = TestLog(policy: AccessPolicy(graceGivesAccess: false))
        told.notified(purchase("1", from: 0, to: 30), renewal(signed: 30, renews: true, graceEnd: 46))
        let within = told.subscriber(at: 40)
        #expect(within.entitlements["premium"]?.expiresDate == shown(30))
        #expect(within.subscriptions["pro"]?.gracePeriodExpiresDate == nil)
        #expect(try told.sdk(at: 40).active.isEmpty)
    }

    @Test("no entitlement stands without a product entry, a grant's neither")
    func noDanglingProduct() throws {
        var told = TestLog()
        told.granted(at: 0, until: 7)
        told.granted("grant_2", "basic", at: 0)
        told.notified(purchase("1", from: 0, to: 30))
        told.notified(lifetime("2", at: 1))
        let sdk = try told.sdk(at: 3)
        #expect(Set(sdk.kept.keys) == Set(sdk.body.subscriber.entitlements.keys))
        #expect(sdk.kept.keys.sorted() == ["basic", "premium"] && sdk.active == ["basic", "premium"])
        #expect(
            sdk.body.subscriber.subscriptions.keys.sorted() == [
                "pro", "rc_promo_basic_lifetime", "rc_promo_premium_weekly",
            ])
        #expect(sdk.kept["basic"]?.productIdentifier == "rc_promo_basic_lifetime")
    }

    @Test("of nobody there is an empty subscriber, which the SDK decodes")
    func unknownCustomer() throws {
        let document = TestLog().document(at: 5, as: "nobody")
        #expect(document.subscriber.entitlements.isEmpty && document.subscriber.subscriptions.isEmpty)
        #expect(document.subscriber.firstSeen == shown(5) && document.subscriber.lastSeen == shown(5))
        let sdk = try SDKCustomerInfo(WireJSON.encode(document))
        #expect(sdk.body.subscriber.originalAppUserID == "nobody" && sdk.active.isEmpty)
    }

    @Test("the store's transaction id is a text, of each store")
    func transactionIDIsText() throws {
        var told = TestLog()
        told.notified(purchase("2000000123456780", from: 0, to: 30))
        told.notified(lifetime("2000000123456781", at: 0))
        told.granted("grant_9", at: 0)
        told.stripe(at: 0, of: "sub_9") { $0.invoices = paidLine("9", from: 0, to: 60) }
        let text = try String(decoding: WireJSON.encode(told.document(at: 1)), as: UTF8.self)
        #expect(text.contains(#""store_transaction_id":"2000000123456781""#))
        #expect(text.contains(#""store_transaction_id":"sub_9""#))
        #expect(text.contains(#""store_transaction_id":"grant_9""#))
        let sdk = try told.sdk(at: 1)
        #expect(sdk.body.subscriber.nonSubscriptions["lifetime"]?.last?.storeTransactionID == "2000000123456781")
    }

    @Test("sandbox and production are told apart by each entry")
    func sandbox() {
        for (environment, isSandbox) in [(StoreEnvironment.sandbox, true), (.production, false)] {
            var told = TestLog(in: environment)
            told.notified(purchase("1", from: 0, to: 30))
            told.notified(lifetime("2", at: 0))
            told.granted(at: 0)
            let subscriber = told.subscriber(at: 1)
            #expect(subscriber.subscriptions.count == 2)
            #expect(subscriber.subscriptions.values.allSatisfy { $0.isSandbox == isSandbox })
            #expect(subscriber.nonSubscriptions["lifetime"]?.map(\.isSandbox) == [isSandbox])
        }
    }

    @Test("what ends within the second of the request is not active to a client that counts that second")
    func boundaries() throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30))
        let end = day(30)
        for (offset, isActive) in [
            (-1001, true), (-1000, true), (-1, true), (0, false), (1, false), (999, false), (1000, false),
        ] {
            let sdk = try told.sdk(at: end.adding(milliseconds: Int64(offset)))
            #expect((sdk.active == ["premium"]) == isActive, "\(offset) ms from the end")
        }
        #expect(told.document(at: end).subscriber.entitlements["premium"]?.expiresDate == WholeSecond(end).predecessor)
        #expect(told.subscriber(at: 31).entitlements["premium"]?.expiresDate == shown(30))
    }

    @Test("after three days the device's own clock counts, and an old answer gives nothing any more")
    func oldAnswer() throws {
        var told = TestLog()
        told.notified(purchase("1", from: 0, to: 30))
        let bytes = try WireJSON.encode(told.document(at: 1))
        func active(after days: Double) throws -> Set<String> {
            let requested = try SDKCustomerInfo(bytes).body.requestDate
            return try SDKCustomerInfo(bytes, clock: requested.addingTimeInterval(days * 86_400)).active
        }
        #expect(try active(after: 2) == ["premium"])
        #expect(try active(after: 28) == ["premium"])
        #expect(try active(after: 30) == [])
    }
}
