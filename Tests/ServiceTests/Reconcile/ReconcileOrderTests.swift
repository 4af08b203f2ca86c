import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// Statements by notification and by device, in any order, against the fold of them all.
@Suite("Reconcile in any order", .serialized, .timeLimit(.minutes(10)))
struct ReconcileOrderTests {
    private static let customer = Purchase.customer

    /// One delivery: a transaction, renewal information, and who brings it.
    private struct Delivery {
        var transaction: HeldTransaction
        var renewal: HeldRenewal?
        var isDevice: Bool
    }

    /// A few periods, some of them refunded, given back, re-signed, some in grace.
    private static func life(_ random: inout SplitMix64, original: String) -> [Delivery] {
        func chance(_ oneIn: Int) -> Bool { Int.random(in: 0..<oneIn, using: &random) == 0 }
        func moment(_ range: ClosedRange<Int>) -> Double { Double(Int.random(in: range, using: &random)) }
        var deliveries: [Delivery] = []
        for number in 0..<Int.random(in: 1...4, using: &random) {
            let start = Double(200 + number * 60)
            let paid = HeldTransaction(
                id: number == 0 ? original : "\(original)-\(number)", original: original,
                product: chance(4) ? "com.example.pro.monthly" : "com.example.pro.yearly", from: start,
                until: start + 60, signed: start, token: customer, reason: number == 0 ? "PURCHASE" : "RENEWAL")
            var statements = [paid]
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                // Now and then at the same instant as another.
                statements.append(paid.with { $0.signed = start + moment(0...12) * 10 })
            }
            if chance(2) {
                let refund = moment(1...12) * 10
                statements.append(paid.with { ($0.revoked, $0.signed) = (start + refund - 5, start + refund) })
            }
            for statement in statements {
                var renewal: HeldRenewal?
                if chance(3) {
                    renewal = HeldRenewal(
                        original: original, signed: statement.signed, renews: !chance(3), retry: chance(3),
                        graceEnd: chance(3) ? start + 60 + moment(1...16) : nil)
                }
                deliveries.append(Delivery(transaction: statement, renewal: renewal, isDevice: chance(2)))
                if chance(4) {
                    deliveries.append(Delivery(transaction: statement, renewal: renewal, isDevice: chance(2)))
                }
            }
        }
        return deliveries
    }

    /// What the fold says of all statements, in the order in which they were made.
    private static func folded(_ lives: [String: [Delivery]], at instant: Timestamp) throws -> [String] {
        var originals: [String: OriginalState] = [:]
        for (original, deliveries) in lives {
            var state = OriginalState()
            for (index, delivery) in deliveries.enumerated() {
                let source: StatementSource = delivery.isDevice ? .device : .notification
                let bytes = try delivery.transaction.payload.encoded()
                var people = IdentityList()
                let fact = try TransactionPayload(parsing: bytes).fact(
                    payloadHash: Digest(SHA256.hash(bytes)) ?? .zero, fallbackSignedDate: nil, identities: &people)
                state.join(fact, source: source, position: Int64(index + 1))
                guard let renewal = try delivery.renewal?.payload.encoded() else { continue }
                state.join(
                    try RenewalPayload(parsing: renewal).fact(
                        payloadHash: Digest(SHA256.hash(renewal)) ?? .zero, fallbackSignedDate: nil,
                        isGraceNotification: false), source: source, position: Int64(index + 1))
            }
            originals[original] = state
        }
        let catalog = try CatalogDocument(
            parsing: Array(ServiceRig.deviceCatalog.utf8), from: .request
        ).catalog
        let facts = CustomerFacts(customer: IdentityRef(0), originals: originals, catalog: catalog)
        return facts.answers(at: instant).map { EntitlementDocument($0).words }
            + facts.timelines().flatMap { words(TimelineDocument.Entitlement($0, policy: catalog.policy)) }
    }

    private static func words(_ timeline: TimelineDocument.Entitlement) -> [String] {
        timeline.intervals.map {
            "\(timeline.id) \($0.from)..\($0.until.map { "\($0)" } ?? "") \($0.state) \($0.productID ?? "")"
        }
    }

    @Test(
        "whoever brings which statement, and in which order, the answers are those of the fold of them all",
        arguments: 1...12 as ClosedRange<UInt64>)
    func permutations(seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let lives = ["100": Self.life(&random, original: "100"), "200": Self.life(&random, original: "200")]
        let rig = try await ServiceRig.withCatalog()
        let expected = try Self.folded(lives, at: rig.clock.now)
        var deliveries = lives.values.flatMap(\.self).shuffled(using: &random)
        var number = 0
        while let next = deliveries.popLast() {
            number += 1
            guard next.isDevice else {
                try await rig.notify(next.transaction, next.renewal, uuid: "\(seed)-\(number)")
                continue
            }
            // A device brings what it has at once.
            var batch = [next]
            while batch.count < 4, let more = deliveries.last, more.isDevice { batch.append(deliveries.removeLast()) }
            let answer = try await rig.answer(
                Self.customer,
                Posted(
                    transactions: try batch.map { try rig.sign($0.transaction) },
                    renewals: try batch.compactMap(\.renewal).map { try rig.sign($0) }))
            #expect(answer.finish.count == Set(batch.map(\.transaction.id)).count, "seed \(seed)")
            #expect(try await rig.entitlements(Self.customer) == answer.entitlements, "seed \(seed)")
            #expect(try await rig.timeline(Self.customer) == answer.timeline, "seed \(seed)")
        }
        let shown =
            try await rig.entitlements(Self.customer).map(\.words)
            + rig.timeline(Self.customer).flatMap { Self.words($0) }
        #expect(shown == expected, "seed \(seed)")
        // Everything once more by the device, from what it has or had: no device's word overrules the store's.
        let head = try await rig.head()
        let known = lives.values.flatMap(\.self).filter(\.isDevice)
        if !known.isEmpty {
            let again = try await rig.answer(
                Self.customer, Posted(transactions: try known.map { try rig.sign($0.transaction) }))
            #expect(again.held == Array(shown.prefix(again.held.count)), "seed \(seed)")
            #expect(try await rig.head() == head, "seed \(seed)")
        }
    }

    @Test("a refund signed between two statements of a device ends access, whichever arrives first")
    func lateRefund() async throws {
        let early = HeldTransaction(signed: 10, token: Self.customer)
        let refund = early.with { ($0.signed, $0.revoked) = (20, 19) }
        let late = early.with { $0.signed = 30 }
        for refundIsLast in [true, false] {
            let rig = try await ServiceRig.withCatalog()
            func post(_ held: HeldTransaction) async throws {
                _ = try await rig.answer(Self.customer, Posted(transactions: [rig.sign(held)]))
            }
            try await post(early)
            if !refundIsLast { try await rig.notify(refund, type: "REFUND", uuid: "r") }
            try await post(late)
            if refundIsLast { try await rig.notify(refund, type: "REFUND", uuid: "r") }
            #expect(try await rig.head() == 5)
            let entitlements = try await rig.entitlements(Self.customer)
            #expect(entitlements.map(\.state) == [.revoked] && entitlements.first?.since == day(19))
            let subscription = try await rig.get("/v1/subscriptions/\(early.id)")
            #expect(subscription.text.contains(#""needs_store_check":true"#), "the store is to be asked")
            // The store itself takes it back.
            try await rig.notify(early.with { $0.signed = 40 }, type: "REFUND_REVERSED", uuid: "v")
            #expect(try await rig.entitlements(Self.customer).map(\.state) == [.active])
            #expect(try await rig.get("/v1/subscriptions/\(early.id)").text.contains(#""needs_store_check":false"#))
        }
    }

    @Test("a refund that only a device reported is taken back by a device's newer statement, in either order")
    func reversalByDevice() async throws {
        let bought = HeldTransaction(signed: 10, token: Self.customer)
        let refund = bought.with { ($0.signed, $0.revoked) = (20, 19) }
        let restored = bought.with { $0.signed = 30 }
        for order in [[bought, refund, restored], [restored, refund, bought], [refund, bought, restored]] {
            let rig = try await ServiceRig.withCatalog()
            for held in order {
                _ = try await rig.answer(Self.customer, Posted(transactions: [rig.sign(held)]))
            }
            #expect(try await rig.entitlements(Self.customer).map(\.state) == [.active])
            let subscription = try await rig.get("/v1/subscriptions/\(bought.id)")
            #expect(subscription.text.contains(#""needs_store_check":false"#))
        }
    }
}
