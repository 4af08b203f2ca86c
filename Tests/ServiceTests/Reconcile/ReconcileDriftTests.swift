import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("Drift in reconcile", .serialized, .timeLimit(.minutes(5)))
struct ReconcileDriftTests {
    private static let customer = Purchase.customer
    private static let pro = "com.example.pro.yearly"

    private static func claims(_ states: (String, EntitlementState, Double?)...) -> [ReconcileRequest.Claim] {
        states.map { .init(productID: $0.0, state: $0.1, until: $0.2.map { day($0) }) }
    }

    private static func drifts(_ rig: ServiceRig) async throws -> Int {
        try await rig.eventTypes(after: 1).count { $0 == "drift" }
    }

    /// A customer whose yearly plan is refunded.
    private static func refunded() async throws -> ServiceRig {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(HeldTransaction(signed: 10, token: customer, revoked: 9), type: "REFUND", uuid: "n1")
        return rig
    }

    @Test("a device that believes otherwise is told, and an event of its own once; another belief is another event")
    func once() async throws {
        let rig = try await Self.refunded()
        let posted = Posted(claims: Self.claims((Self.pro, .active, 365)))
        for round in 0..<3 {
            let answer = try await rig.answer(Self.customer, posted)
            let drift = try #require(answer.drift.first)
            #expect(drift.productID == Self.pro && drift.claimed == .active && drift.actual == .revoked)
            #expect(drift.claimedUntil == day(365))
            #expect(drift.explanation.contains("active") && drift.explanation.contains("revoked"))
            #expect(drift.explanation.contains("2026-01-10T00:00:00.000Z") && drift.explanation.contains("refunded"))
            #expect(!drift.explanation.contains(Self.customer))
            #expect(try await Self.drifts(rig) == 1, "round \(round)")
        }
        let other = Posted(claims: Self.claims((Self.pro, .inGracePeriod, nil)))
        for _ in 0..<2 { #expect(try await rig.answer(Self.customer, other).drift.count == 1) }
        #expect(try await Self.drifts(rig) == 2)
        let event = try await rig.get("/v1/events/5").json
        #expect(event["type"] == .string("drift") && event["customer_id"] == .string(Self.customer))
        #expect(event["source"] == .string("device"))
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_device_drift_total{outcome="recorded"} 2"#))
        #expect(metrics.contains(#"rightful_device_drift_total{outcome="known"} 3"#))
    }

    @Test("what the device posts in the same request counts before its claims are looked at")
    func afterRecording() async throws {
        let rig = try await ServiceRig.withCatalog()
        let answer = try await rig.answer(
            Self.customer,
            Posted(
                transactions: [rig.sign(HeldTransaction(token: Self.customer))],
                claims: Self.claims((Self.pro, .active, 365))))
        #expect(answer.drift.isEmpty && answer.entitlements.count == 1)
        #expect(try await rig.head() == 3)
    }

    @Test("more than twenty a day are counted only; the next day some are events again")
    func limited() async throws {
        let rig = try await Self.refunded()
        let products = (0..<50).map { "com.example.p\($0)" }
        let sold = products.map { #"{"product_id":"\#($0)","entitlements":["x"]}"# }.joined(separator: ",")
        #expect(try await rig.put(#"{"products":[\#(sold)]}"#).status == 200)
        let many = Posted(claims: products.map { .init(productID: $0, state: .active) })
        #expect(try await rig.answer(Self.customer, many).drift.count == 50)
        #expect(try await Self.drifts(rig) == 20)
        for _ in 0..<2 { #expect(try await rig.answer(Self.customer, many).drift.count == 50) }
        #expect(try await Self.drifts(rig) == 20)
        #expect(try await rig.get("/metrics").text.contains(#"rightful_device_drift_total{outcome="limited"} 90"#))
        rig.clock.now = rig.clock.now.adding(milliseconds: Timestamp.millisecondsPerDay + 100_000)
        #expect(try await rig.answer(Self.customer, many).drift.count == 50)
        #expect(try await Self.drifts(rig) == 40, "those reported are known")
        // Another customer has a limit of their own.
        #expect(try await rig.answer("c-2", many).drift.count == 50)
        #expect(try await Self.drifts(rig) == 60)
    }

    @Test("of products that nobody sells nothing is recorded: nobody could ever explain it")
    func unknownProducts() async throws {
        let rig = try await Self.refunded()
        let before = try await Self.drifts(rig)
        let many = Posted(claims: (0..<30).map { .init(productID: "com.example.junk\($0)", state: .active) })
        #expect(try await rig.answer(Self.customer, many).drift.count == 30)
        #expect(try await Self.drifts(rig) == before)
        #expect(
            try await rig.get("/metrics").text.contains(#"rightful_device_drift_total{outcome="unknown_product"} 30"#))
    }

    @Test("launches at once on two services record the same drift once, and never more than the limit")
    func concurrent() async throws {
        let rig = try await Self.refunded()
        let instances = [rig.application, rig.secondInstance()]
        let one = Posted(claims: Self.claims((Self.pro, .active, 365)))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let answer = try await rig.answer(Self.customer, one, on: instances[number % 2])
                    #expect(answer.drift.count == 1)
                }
            }
            try await group.waitForAll()
        }
        #expect(try await Self.drifts(rig) == 1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let claims = (0..<10).map {
                        ReconcileRequest.Claim(productID: "p\(number)-\($0)", state: .active)
                    }
                    _ = try await rig.answer(Self.customer, Posted(claims: claims), on: instances[number % 2])
                }
            }
            try await group.waitForAll()
        }
        #expect(try await Self.drifts(rig) <= 20)
    }

    @Test("a device that contradicts itself about a product costs no event at each launch")
    func selfContradiction() async throws {
        let rig = try await Self.refunded()
        let posted = Posted(claims: Self.claims((Self.pro, .active, 365), (Self.pro, .expired, nil)))
        for _ in 0..<4 { _ = try await rig.answer(Self.customer, posted) }
        #expect(try await Self.drifts(rig) <= 2)
    }

    @Test("without proof nothing is recorded, and only what was posted is compared")
    func unproven() async throws {
        let rig = try await Self.refunded()
        let key = try await rig.publishableKey()
        let claims = Self.claims((Self.pro, .active, 365), ("com.example.lifetime", .active, nil))
        let bare = try await rig.answer(Self.customer, Posted(claims: claims), key: key)
        #expect(bare.drift.isEmpty)
        let refund = try rig.sign(HeldTransaction(signed: 10, token: Self.customer, revoked: 9))
        let shown = try await rig.answer(Self.customer, Posted(transactions: [refund], claims: claims), key: key)
        #expect(shown.drift.map(\.productID) == [Self.pro])
        #expect(try await rig.head() == 4)
        #expect(try await rig.get("/metrics").text.contains(#"rightful_device_drift_total{outcome="unproven"} 1"#))
    }

    @Test("a device that holds what the ledger holds never drifts: paid, grace, lifetime, upgraded away, lapsed")
    func consistent() async throws {
        let rig = try await ServiceRig.withCatalog()
        let lapsed = HeldTransaction(id: "1", until: 320, signed: 1, token: Self.customer)
        let grace = HeldRenewal(original: "1", signed: 320.5, retry: true, graceEnd: 336)
        let upgraded = HeldTransaction(
            id: "2", product: "com.example.pro.monthly", until: 31, signed: 15.5, token: Self.customer, isUpgraded: true
        )
        let upgrade = HeldTransaction(
            id: "3", original: "2", product: "com.example.yearly.other", from: 15, until: 380, signed: 15,
            token: Self.customer)
        let posted = Posted(
            transactions: try [lapsed, upgraded, upgrade, .lifetime("4", token: Self.customer)].map {
                try rig.sign($0)
            },
            renewals: [try rig.sign(grace)],
            claims: Self.claims(
                (Self.pro, .inGracePeriod, 336), ("com.example.pro.monthly", .expired, nil),
                ("com.example.yearly.other", .active, 380), ("com.example.lifetime", .active, nil),
                ("com.example.never.bought", .expired, nil)))
        let answer = try await rig.answer(Self.customer, posted)
        #expect(answer.drift.isEmpty, "\(answer.drift)")
        #expect(try await Self.drifts(rig) == 0)
        let table: [(String, EntitlementState, Double?, Bool)] = [
            (Self.pro, .inGracePeriod, nil, false), (Self.pro, .active, 336, true),
            (Self.pro, .inGracePeriod, 335, true),
            ("com.example.lifetime", .active, 400, true), ("com.example.lifetime", .revoked, nil, true),
            ("com.example.pro.monthly", .active, 31, true), ("com.example.never.bought", .revoked, nil, true),
        ]
        for row in table {
            let one = Posted(claims: Self.claims((row.0, row.1, row.2)))
            let drift = try await rig.answer(Self.customer, one).drift
            #expect(drift.isEmpty == !row.3, "\(row)")
            #expect(drift.allSatisfy { $0.explanation.hasSuffix(".") }, "\(row)")
        }
    }
}
