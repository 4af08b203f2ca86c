import EntitlementAPI
import EntitlementCore
import PostgresClient
import Testing

@testable import Ledger
@testable import Service

/// A device can have the store sign the same content again and again, each time with a date of its own.
@Suite("Statements that devices repeat")
struct RepetitionTests {
    private static let token = "00000000-0000-4000-8000-000000000001"

    /// Posts that repeat what a subscription's renewal information said, signed a second apart.
    private static func flood(_ rig: ServiceRig, _ held: HeldTransaction, posts: Int, each: Int) async throws {
        for post in 0..<posts {
            let renewals = try (0..<each).map { number in
                try rig.sign(HeldRenewal(signed: 10 + Double(post * each + number) / 86_400))
            }
            let answer = try await rig.answer(
                token,
                Posted(
                    transactions: [rig.sign(held.with { $0.signed = 10 + Double(post) / 86_400 })],
                    renewals: renewals))
            #expect(answer.finish == [held.id] && answer.entitlements.first?.givesAccess == true, "post \(post)")
        }
    }

    @Test("however often, they make neither the log nor a view grow without bound, and nothing else is kept out")
    func flood() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(token: Self.token)
        _ = try await rig.answer(Self.token, Posted(transactions: [try rig.sign(held)]))
        try await Self.flood(rig, held, posts: 40, each: 50)
        let sizes = try await rig.pool.withConnection { connection in
            try connection.query("SELECT sum(octet_length(facts))::bigint, count(*) FROM event").first.map {
                (try $0.int(0), try $0.int(1))
            }
        }
        let (bytes, events) = try #require(sizes)
        #expect(bytes < 512 << 10, "the log keeps \(bytes) bytes of facts in \(events) events")
        let evidence = try await rig.pool.withConnection {
            try $0.query("SELECT sum(octet_length(parts))::bigint FROM evidence").first?.int(0) ?? 0
        }
        #expect(evidence < 80 << 10, "the log keeps \(evidence) bytes of evidence")
        try await rig.writeViews()
        let state = try await rig.pool.withConnection {
            try $0.query("SELECT max(octet_length(state))::bigint FROM original_view").first?.int(0) ?? 0
        }
        #expect(state < 128 << 10, "the view keeps \(state) bytes")

        // What is new is recorded all the same: that it does not renew, and a refund.
        let off = HeldRenewal(signed: 20, renews: false)
        let head = try await rig.head()
        let ended = try await rig.answer(
            Self.token, Posted(transactions: [try rig.sign(held)], renewals: [try rig.sign(off)]))
        #expect(ended.entitlements.first?.willRenew == false && ended.renewalResults.map(\.status) == [.recorded])
        let refunded = held.with { ($0.signed, $0.revoked) = (30, 29) }
        let answer = try await rig.answer(Self.token, Posted(transactions: [try rig.sign(refunded)]))
        #expect(answer.verdicts == ["recorded"] && answer.entitlements.first?.state == .revoked)
        #expect(try await rig.head() == head + 2)
        #expect(try await rig.verdictOfVerify() == nil)
    }

    @Test("newest first, and with other content between them, they find no way around it")
    func descending() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(token: Self.token)
        _ = try await rig.answer(Self.token, Posted(transactions: [try rig.sign(held)]))
        for post in 0..<30 {
            var renewals = try (0..<50).map { number in
                try rig.sign(HeldRenewal(signed: 10 - Double(post * 50 + number) / 86_400))
            }
            renewals.insert(try rig.sign(HeldRenewal(signed: 10 - Double(post * 50) / 86_400, renews: false)), at: 0)
            _ = try await rig.answer(
                Self.token, Posted(transactions: [try rig.sign(held)], renewals: renewals))
        }
        let evidence = try await rig.pool.withConnection {
            try $0.query("SELECT sum(octet_length(parts))::bigint FROM evidence").first?.int(0) ?? 0
        }
        #expect(evidence < 70 << 10, "the log keeps \(evidence) bytes of evidence of 1,530 statements")
    }

    @Test("a device that repeats too much is told what is known, and another subscription has a budget of its own")
    func budget() async throws {
        var limits = Application.Limits()
        limits.rates.repetitions = RateLimit(perSecond: 1, burst: 2000)
        let rig = try await ServiceRig.withCatalog(limits: limits)
        let one = HeldTransaction(token: Self.token)
        let two = HeldTransaction(id: "2000000000000009", token: Self.token)
        _ = try await rig.answer(Self.token, Posted(transactions: [rig.sign(one), rig.sign(two)]))
        var verdicts: [String] = []
        for number in 1...12 {
            let again = try rig.sign(one.with { $0.signed = Double(number) })
            verdicts += try await rig.answer(Self.token, Posted(transactions: [again])).verdicts
        }
        let recorded = verdicts.filter { $0 == "recorded" }.count
        #expect((1...5).contains(recorded), "\(verdicts)")
        #expect(verdicts == verdicts.sorted().reversed(), "the first are recorded, the rest is known: \(verdicts)")
        let other = try await rig.answer(Self.token, Posted(transactions: [rig.sign(two.with { $0.signed = 5 })]))
        #expect(other.verdicts == ["recorded"])
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_rate_limited_total{kind="repetitions"}"#), "\(metrics)")
    }
}

extension ServiceRig {
    /// What `verify` finds, signatures aside; `nil`: nothing.
    func verdictOfVerify() async throws -> String? {
        do {
            _ = try await Verifier(pool: pool, derive: nil).run()
            return nil
        } catch let difference as VerificationDifference {
            return difference.description
        }
    }
}
