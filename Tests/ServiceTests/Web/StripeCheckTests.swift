import EntitlementAPI
import HTTPServer
import Ledger
import StoreSimulator
import Testing

@testable import Service

@Suite("Asking Stripe now", .timeLimit(.minutes(5)))
struct StripeCheckTests {
    @Test("whatever was never heard of a subscription is recorded, once, and both sides are shown")
    func subscription() async throws {
        let rig = try await StripeAccountRig()
        let original = try await rig.sell(to: "c-1")
        let first = try await rig.check(original)
        #expect(first.status == 200, "\(first.text)")
        #expect(first.json["app"] == .null && first.json["object"] == .string("store_check"))
        #expect(first.json["before"]?["ledger"] == .null && first.json["agrees"] == .bool(true))
        let store = first.json["before"]?["store"]
        #expect(store?["state"] == .string("active") && store?["stripe_status"] == .string("active"))
        #expect(store?["status"] == .null && store?["will_renew"] == .bool(true))
        #expect(store?["product_id"] == .string("com.example.pro.monthly"), "\(first.text)")
        #expect(first.json["recorded"]?.count == 2, "the subscription, and its invoice: \(first.text)")
        #expect(first.json["after"]?["ledger"]?["state"] == .string("active"))
        #expect(try await rig.stripe.access("c-1") == ["web_checkout active"])
        let head = try await rig.stripe.head()
        let again = try await rig.check(original)
        #expect(again.json["recorded"]?.count == 0 && again.json["agrees"] == .bool(true))
        #expect(try await rig.stripe.head() == head)

        rig.account.act(.refund, on: original)
        rig.advance(60_000)
        let refunded = try await rig.check(original)
        #expect(refunded.json["before"]?["store"]?["state"] == .string("revoked"), "\(refunded.text)")
        #expect(refunded.json["before"]?["ledger"]?["state"] == .string("active"))
        #expect(refunded.json["after"]?["ledger"]?["state"] == .string("revoked"))
        #expect(refunded.json["recorded"]?.count == 1 && refunded.json["agrees"] == .bool(true))
        let last = try await rig.stripe.verify()
        #expect(last.isProven)
        await rig.stop()
    }

    @Test("renewals, failed charges, disputes that are won and ends are found without any event")
    func lives() async throws {
        let rig = try await StripeAccountRig()
        let original = try await rig.sell(to: "c-1", by: .cardOnce)
        _ = try await rig.check(original)
        rig.account.act(.mendCard, on: original)
        rig.advance(40 * 86_400_000)
        #expect(try await rig.stripe.access("c-1") == ["web_checkout expired"], "nothing was heard")
        let renewed = try await rig.check(original)
        #expect(renewed.json["after"]?["ledger"]?["state"] == .string("active"), "\(renewed.text)")
        #expect(renewed.json["before"]?["store"]?["transactions"] == .int(2))
        rig.account.act(.dispute, on: original)
        rig.advance(1000)
        #expect(try await rig.check(original).json["after"]?["ledger"]?["state"] == .string("revoked"))
        rig.account.act(.winDispute, on: original)
        rig.advance(1000)
        let won = try await rig.check(original)
        #expect(won.json["after"]?["ledger"]?["state"] == .string("active") && won.json["agrees"] == .bool(true))
        rig.account.act(.breakCard, on: original)
        rig.advance(24 * 86_400_000)
        let late = try await rig.check(original)
        #expect(late.json["before"]?["store"]?["stripe_status"] == .string("past_due"), "\(late.text)")
        #expect(
            late.json["after"]?["ledger"]?["state"] == .string("in_grace_period") && late.json["agrees"] == .bool(true))
        #expect(late.json["before"]?["store"]?["grace_ends_at"] != .null)
        rig.account.act(.cancelNow, on: original)
        rig.advance(1000)
        let over = try await rig.check(original)
        #expect(over.json["after"]?["ledger"]?["state"] == .string("expired") && over.json["agrees"] == .bool(true))
        await rig.stop()
    }

    @Test("a one-time payment is checked by its payment intent or its session, and its refund found")
    func payment() async throws {
        let rig = try await StripeAccountRig()
        let original = try await rig.sell(SimulatedShop.lifetime, to: "c-2")
        let session = try #require(
            rig.account.purchases().first.flatMap { object -> String? in
                if case .session(let session) = object { session.id } else { nil }
            })
        let found = try await rig.check(session)
        #expect(found.json["original_transaction_id"] == .string(original), "\(found.text)")
        #expect(found.json["after"]?["ledger"]?["state"] == .string("active") && found.json["agrees"] == .bool(true))
        #expect(found.json["before"]?["store"]?["stripe_status"] == .null)
        rig.account.act(.refund, on: original)
        rig.advance(1000)
        let refunded = try await rig.check(original)
        #expect(refunded.json["after"]?["ledger"]?["state"] == .string("revoked"), "\(refunded.text)")
        #expect(refunded.json["recorded"]?.count == 1 && refunded.json["agrees"] == .bool(true))
        #expect(try await rig.check(original).json["recorded"]?.count == 0)
        await rig.stop()
    }

    @Test("what Stripe does not know, does not let be asked, and cannot say now is told apart")
    func failures() async throws {
        let rig = try await StripeAccountRig()
        let original = try await rig.sell(to: "c-1")
        let unknown = try await rig.check("sub_nobody")
        #expect(unknown.status == 404 && unknown.text.contains("Neither the ledger nor the store"), "\(unknown.text)")
        for (fault, words) in [
            (SimulatedStripe.Fault.status(401), "credentials"), (.status(403), "credentials"),
            (.status(429, retryAfter: 7), "takes no more requests"), (.status(500), "could not be asked to the end"),
            (.page, "could not be asked to the end"), (.truncated, "could not be asked to the end"),
        ] {
            rig.account.failAlways(fault)
            let answer = try await rig.check(original)
            #expect(answer.status == 503 && answer.text.contains(words), "\(fault): \(answer.text)")
            #expect(answer.retryAfter != nil, "\(fault)")
            rig.account.failAlways(nil)
            // What Stripe wanted to be left alone for.
            rig.advance(10_000)
        }
        #expect(try await rig.stripe.head() == .int(3), "nothing was recorded")
        // What is not the first that is asked fails after something was recorded.
        rig.account.failAlways(.status(500), about: "invoices")
        #expect(try await rig.check(original).status == 503)
        #expect(try await rig.stripe.head() == .int(4), "what it had said is")
        rig.account.failAlways(nil, about: "invoices")
        let whole = try await rig.check(original, headers: [("Idempotency-Key", "k")])
        #expect(whole.json["recorded"]?.count == 1 && whole.json["agrees"] == .bool(true), "\(whole.text)")
        let asked = rig.account.asked.count
        #expect(try await rig.check(original, headers: [("Idempotency-Key", "k")]).text == whole.text)
        #expect(rig.account.asked.count == asked)
        let sandbox = try await rig.check(original, body: #"{"environment":"sandbox"}"#)
        #expect(sandbox.status == 503, "the other mode's key is another account's: \(sandbox.text)")
        await rig.stop()
    }

    @Test("without an account of Stripe's what was bought on the web cannot be checked, and that is said")
    func unconfigured() async throws {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(StripeBody.paid).status == 200)
        let answer = try await stripe.rig.send(
            "POST", "/v1/subscriptions/sub_1/actions/check", key: stripe.rig.admin, body: Array("{}".utf8))
        #expect(answer.status == 422 && answer.text.contains("no account of Stripe's"), "\(answer.text)")
    }
}
