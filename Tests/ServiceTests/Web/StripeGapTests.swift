import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// Stripe's list of events holds thirty days.
@Suite("What no event of Stripe's tells any more", .timeLimit(.minutes(5)))
struct StripeGapTests {
    private static let day: Int64 = 86_400_000

    @Test("at first start what was sold long ago is read, and nothing is called known before")
    func firstStart() async throws {
        let rig = try await StripeAccountRig()
        let original = try await rig.sell(SimulatedShop.lifetime, to: "c-1")
        rig.advance(45 * Self.day)
        rig.account.failAlways(.status(403), about: "sessions")
        await #expect(throws: (any Error).self) { try await rig.sweep() }
        let failed = try await rig.stream()
        #expect(failed?["sweep"]?["state"] == .string("failed") && failed?["sweep"]?["completed_until"] == .null)
        #expect(failed?["sweep"]?["gap"]?["from"] == .null && failed?["sweep"]?["gap"]?["until"] != .null)
        guard case .string(let reason)? = failed?["sweep"]?["last_error"] else { throw CancellationError() }
        #expect(reason.contains("lacks a permission"))
        #expect(try await rig.stripe.access("c-1") == [])
        rig.account.failAlways(nil, about: "sessions")
        try await rig.sweep()
        let done = try await rig.stream()
        #expect(done?["sweep"]?["gap"] == .null && done?["sweep"]?["completed_until"] == .string("\(rig.now)"))
        #expect(try await rig.stripe.access("c-1") == ["web_checkout active"])
        #expect(try await rig.rig.get("/v1/subscriptions/\(original)").status == 200)
        let asked = rig.account.asked.count
        try await rig.sweep()
        #expect(rig.account.asked.dropFirst(asked).allSatisfy { $0 == "GET /v1/events" }, "once is enough")
        await rig.stop()
    }

    @Test("after a pause longer than Stripe lists events everything is read again, and the pause is told until then")
    func pause() async throws {
        let rig = try await StripeAccountRig()
        let original = try await rig.sell(to: "c-1")
        let other = try await rig.sell(to: "c-2")
        try await rig.sweep()
        let known = "\(rig.now)"
        rig.advance(2 * Self.day)
        rig.account.act(.refund, on: original)
        rig.account.act(.cancelNow, on: other)
        rig.advance(43 * Self.day)
        rig.account.failAlways(.status(503), about: "refunds")
        await #expect(throws: (any Error).self) { try await rig.sweep() }
        let during = try await rig.stream()?["sweep"]
        #expect(during?["completed_until"] == .string(known), "nothing more is known for certain")
        #expect(during?["gap"]?["from"] == .string(known) && during?["gap"]?["last_error"] != .null)
        #expect(rig.rig.log.lines.contains { $0.contains("Stripe lists no events from before this") })
        // A further sweep of events does not close it.
        await #expect(throws: (any Error).self) { try await rig.sweep() }
        #expect(try await rig.stream()?["sweep"]?["completed_until"] == .string(known))
        rig.account.failAlways(nil, about: "refunds")
        try await rig.sweep()
        let after = try await rig.stream()?["sweep"]
        #expect(after?["gap"] == .null && after?["completed_until"] == .string("\(rig.now)"))
        let periods = try await rig.rig.get("/v1/subscriptions/\(original)").json["periods"]
        #expect(periods?[0]?["revoked_at"] != .null, "the refund was made while nobody looked")
        #expect(try await rig.stripe.access("c-2") == ["web_checkout expired"])
        await rig.stop()
    }

    @Test("a Stripe that fails is told while somebody is at reading everything, and to Prometheus")
    func failsMeanwhile() async throws {
        let rig = try await StripeAccountRig()
        rig.account.failAlways(.status(403), about: "sessions")
        await #expect(throws: (any Error).self) { try await rig.sweep() }
        let reader = WebImportRegister(
            pool: rig.rig.pool, environment: .production, ownerMetadata: nil, holder: "another")
        #expect(try await reader.begin() != nil)
        rig.account.failAlways(.status(500))
        await #expect(throws: (any Error).self) { try await rig.sweep() }
        #expect(try await rig.stream()?["sweep"]?["state"] == .string("failed"))
        try await #require(rig.rig.stripeSweep).noteStandings()
        let metrics = try await rig.rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_sweep_failing{environment="production",source="stripe"} 1"#), "\(metrics)")
        await rig.stop()
    }

    @Test("what is owed to be read is shown to Prometheus")
    func owed() async throws {
        let rig = try await StripeAccountRig()
        rig.account.failAlways(.status(500))
        #expect(
            try await rig.stripe.deliver(StripeBody.event("customer.subscription.updated", StripeBody.subscription()))
                .status == 200)
        let lookups = try #require(rig.rig.application.stripe.lookups)
        _ = try await lookups.round()
        let metrics = try await rig.rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_stripe_lookups_owed{environment="production"} 1"#), "\(metrics)")
        await rig.stop()
    }
}
