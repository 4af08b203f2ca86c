import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("A web subscriber who is forgotten, and goes on paying", .timeLimit(.minutes(5)))
struct ForgottenSubscriberTests {
    private static let open = ["web_checkout active"]

    /// Each is created a second after the one before, by the number in its id.
    private static func deliver(_ id: String, _ object: String, to stripe: StripeRig) async throws {
        let created = StripeRig.noon - 60 + (Int64(id.suffix(1)) ?? 0)
        let type = object.contains(#""object":"subscription""#) ? "customer.subscription.updated" : "invoice.paid"
        #expect(try await stripe.deliver(StripeBody.event(type, object, id: id, created: created)).status == 200)
    }

    private static func forget(_ customer: String, _ stripe: StripeRig) async throws -> ForgettingOutcome {
        let forgetter = Forgetter(pool: PostgresPool(stripe.rig.database.ownerConninfo), now: { .earliest })
        let id = try #require(CustomerID(customer))
        let outcome = try await forgetter.forget(id)
        return try #require(outcome)
    }

    /// The renewal of the same subscription.
    private static func renewal(_ customer: String) -> String {
        StripeBody.invoice(customer).replacing("in_sub_1", with: "in_2").replacing("il_1", with: "il_2")
    }

    @Test("what Stripe states after a forgetting begins anew under a new number; earlier answers stay")
    func comesBack() async throws {
        let stripe = try await StripeRig.make()
        let rig = stripe.rig
        try await Self.deliver("evt_1", StripeBody.invoice("gone"), to: stripe)
        let before = try await rig.head
        #expect(try await stripe.access("gone") == Self.open)
        let outcome = try await Self.forget("gone", stripe)
        #expect(outcome.positions == [before + 1, before + 2], "one event of the person, one of the purchase")
        #expect(try await stripe.access("gone") == [])
        #expect(try await rig.get("/v1/subscriptions/sub_1").json["periods"]?[0]?["customer_id"] == .null)

        try await Self.deliver("evt_2", Self.renewal("gone"), to: stripe)
        #expect(try await stripe.access("gone") == Self.open)
        #expect(try await stripe.access("gone", knownAt: Int(before + 2)) == [])
        #expect(try await rig.get("/v1/subscriptions/sub_1").json["claimed"] == .bool(true))
        #expect(try await !rig.get("/metrics").text.contains("rightful_ownership_conflicts_total 1\n"))
        let explained = try await rig.get("/v1/customers/gone/explain").json
        #expect(explained["entitlements"]?[0]?["decision"]?["gives_access"] == .bool(true))
        #expect(explained["conflicts"]?.count == 0)
        // The same from the log alone, and by a key of one app.
        try await rig.writeViews()
        #expect(try await stripe.access("gone") == Self.open)
        _ = try await rig.deleteViews()
        #expect(try await stripe.access("gone") == Self.open)
        let bound = try await rig.keys.create(name: "x", scopes: [.admin], bundleID: ServiceRig.bundleID).secret
        let told = try await rig.send("GET", "/v1/customers/gone/entitlements", key: bound).json["entitlements"]
        #expect(told?.count == 1)
        let summary = try await stripe.verify()
        #expect(summary.isProven && summary.erasedEvidence == 1)
        // And once more.
        _ = try await Self.forget("gone", stripe)
        #expect(try await stripe.access("gone") == [])
        try await Self.deliver("evt_3", StripeBody.subscription("gone"), to: stripe)
        #expect(try await stripe.access("gone") == Self.open)
    }

    @Test("whom Stripe names afterwards in their place has it; whoever was named beside them before gets nothing by it")
    func another() async throws {
        let stripe = try await StripeRig.make()
        try await Self.deliver("evt_1", StripeBody.invoice("gone"), to: stripe)
        try await Self.deliver("evt_2", StripeBody.subscription("beside"), to: stripe)
        _ = try await Self.forget("gone", stripe)
        #expect(try await stripe.access("beside") == [], "nobody else's answers change")
        let explained = try await stripe.rig.get("/v1/customers/beside/explain?entitlement=premium").json
        #expect(explained["entitlements"]?[0]?["rule"]?["code"] != .string("unknown_customer"))
        let moved = StripeBody.subscription("beside").replacing(#""status":"active""#, with: #""status":"past_due""#)
        try await Self.deliver("evt_3", moved, to: stripe)
        #expect(try await stripe.access("beside") == Self.open, "named again, and so its customer")
    }

    @Test("what a forgotten customer bought can be given to somebody, and is theirs while Stripe names nobody else")
    func transferred() async throws {
        let stripe = try await StripeRig.make()
        try await Self.deliver("evt_1", StripeBody.invoice("gone"), to: stripe)
        _ = try await Self.forget("gone", stripe)
        let answer = try await stripe.rig.transfer("sub_1", from: "new", to: "new")
        #expect(try answer.status == 200 && answer.json["from"] == .null, "\(answer.text)")
        stripe.rig.wait()
        #expect(try await stripe.access("new") == Self.open)
        try await Self.deliver("evt_2", Self.renewal("gone"), to: stripe)
        #expect(try await stripe.access("new") == Self.open)
        #expect(try await stripe.rig.holdings("gone") == ["premium expired owned_by_another"])
        #expect(try await stripe.rig.get("/metrics").text.contains("rightful_ownership_conflicts_total 1\n"))
    }

    @Test("a reading names nobody again who was forgotten, until a webhook did; what goes on being charged is told")
    func readings() async throws {
        let stripe = try await StripeRig.make()
        let reader = stripe.rig.context.reader
        let gone = try #require(CustomerID("gone"))
        try await Self.deliver("evt_1", StripeBody.subscription("gone"), to: stripe)
        try await Self.deliver("evt_2", StripeBody.invoice("gone"), to: stripe)
        func charges() async throws -> [String] {
            let facts = try await reader.customerFacts(gone, environment: .production).facts
            return facts.runningCharges(at: stripe.rig.clock.now).map {
                "\($0.originalTransactionID) \($0.productID ?? "-")"
            }
        }
        func isForgotten() async throws -> Bool {
            let found = try await reader.subscription("sub_1", environment: .production).subscription
            let known = try #require(found)
            return try await reader.isForgotten(known)
        }
        #expect(try await charges() == ["sub_1 pro"])
        // Two periods are charged before that.
        let later = StripeBody.subscription("gone").replacing(
            #""cancel_at":null"#, with: #""cancel_at":\#(StripeRig.noon + 3 * 86_400)"#)
        try await Self.deliver("evt_3", later, to: stripe)
        #expect(try await charges() == ["sub_1 pro"])
        #expect(try await !isForgotten())
        _ = try await Self.forget("gone", stripe)
        #expect(try await isForgotten())
        #expect(try await charges() == [])
        try await Self.deliver("evt_4", Self.renewal("gone"), to: stripe)
        #expect(try await !isForgotten())
        let ended = StripeBody.subscription("gone", status: "canceled", endedAt: StripeRig.noon - 30)
        try await Self.deliver("evt_6", ended, to: stripe)
        #expect(try await charges() == [])
    }
}
