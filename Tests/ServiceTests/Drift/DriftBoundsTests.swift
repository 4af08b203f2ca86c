import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// Which part of what is known of a customer is compared with a device's word.
@Suite("What is compared with a device's word", .serialized, .timeLimit(.minutes(5)))
struct DriftBoundsTests {
    private static let customer = Purchase.customer
    private static let pro = "com.example.pro.yearly"

    private static func claim(_ until: Double, app: String = ServiceRig.bundleID) -> Posted {
        Posted(app: app, claims: [.init(productID: pro, state: .active, until: day(until))])
    }

    @Test("of two apps that sell the same product id, only the device's own is compared, and named")
    func twoApps() async throws {
        let rig = try await ServiceRig.withCatalog(hasOtherApp: true)
        let own = HeldTransaction(id: "801", token: Self.customer)
        let other = HeldTransaction(id: "802", from: 10, until: 380, token: Self.customer)
            .with { $0.bundleID = ServiceRig.otherBundleID }
        try await rig.notify(own, uuid: "n1")
        try await rig.notify(other, uuid: "n2")
        // Each says what its own store sold.
        for posted in [Self.claim(365), Self.claim(380, app: ServiceRig.otherBundleID)] {
            #expect(try await rig.answer(Self.customer, posted).drift.isEmpty)
        }
        #expect(try await rig.differences() == [])
        for (posted, original) in [
            (Self.claim(380), "801"), (Self.claim(365, app: ServiceRig.otherBundleID), "802"),
        ] {
            #expect(try await rig.answer(Self.customer, posted).drift.count == 1, "\(original)")
            try await rig.tellApart()
            let item = try #require(try await rig.drift().items.last)
            #expect(item.app == posted.app && item.originalTransactionID == original && item.class == .unexplained)
        }
        // A report of the one app neither stands for the other's nor ends it.
        #expect(
            try await rig.drift("resolved=false").items.map(\.app) == [ServiceRig.bundleID, ServiceRig.otherBundleID])
        _ = try await rig.answer(Self.customer, Self.claim(380, app: ServiceRig.otherBundleID))
        try await rig.tellApart()
        #expect(try await rig.drift("resolved=false").items.map(\.app) == [ServiceRig.bundleID])
        for (bundleID, most) in [(ServiceRig.bundleID, 1), (ServiceRig.otherBundleID, 2)] {
            let key = try await rig.keys.create(name: "k", scopes: [.eventsRead], bundleID: bundleID).secret
            let events = try await rig.send("GET", "/v1/events?limit=1000", key: key).json
            guard case .array(let items) = events["items"] else {
                Issue.record("no list: \(events)")
                continue
            }
            let reports = items.filter { $0["type"] == .string("drift") }
            #expect(reports.count == most && reports.allSatisfy { $0["facts"]?["bundle_id"] == .string(bundleID) })
        }
        try await rig.expectSameDriftAnew(pageEvents: 1)
    }

    @Test("however much is known of other products, this one is compared; what is not is counted and named")
    func largeHistories() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(HeldTransaction(id: "801", token: Self.customer), uuid: "n1")
        try await Self.fill(rig, count: DeviceDrift.historyLimit + 1, product: "com.example.coins", first: 10_000)
        let revoked = HeldTransaction(id: "801", signed: 310, token: Self.customer, revoked: 310)
        try await rig.notify(revoked, type: "REFUND", uuid: "n2")
        _ = try await rig.answer(Self.customer, Self.claim(365))
        #expect(try await rig.differences() == ["stale_device device_ledger open"])
        #expect(try await rig.drift().notCompared == 0)
        try await rig.expectSameDriftAnew(pageEvents: 500)

        let other = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        try await Self.fill(
            rig, count: DeviceDrift.historyLimit + 1, product: Self.pro, first: 20_000, of: other)
        _ = try await rig.answer(other, Self.claim(366))
        try await rig.tellApart()
        let list = try await rig.drift("resolved=false")
        #expect(list.unexplained == 1 && list.notCompared == 1)
        #expect(list.items.last?.customerID == other)
        #expect(list.items.last?.explanation == DriftCause.tooMuchKnown.sentence)
        let watch = DriftWatch(
            projector: DriftProjector(pool: rig.pool), register: DriftRegister(pool: rig.pool),
            metrics: rig.context.metrics, watch: nil)
        try await watch.look()
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_drift_not_compared{environment="production"} 1"#))
        #expect(metrics.contains(#"rightful_drift_not_compared{environment="sandbox"} 0"#))
        // A device that agrees again resolves it.
        let answer = try #require(try await rig.entitlements(other).first { $0.productID == Self.pro })
        _ = try await rig.answer(
            other, Posted(claims: [.init(productID: Self.pro, state: answer.state, until: answer.until)]))
        try await rig.tellApart()
        #expect(try await rig.drift().notCompared == 0)
        try await watch.look()
        #expect(try await rig.get("/metrics").text.contains(#"not_compared{environment="production"} 0"#))
    }

    /// Records many purchases of the customer, each an original transaction of its own.
    private static func fill(
        _ rig: ServiceRig, count: Int, product: String, first: Int, of customer: String = Self.customer
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in first..<first + count {
                if number >= first + 100 { try await group.next() }
                let fact = TransactionFact(
                    payloadHash: rig.context.sha256(Array("\(number)".utf8)), signedDate: day(1),
                    transactionID: "\(number)", originalTransactionID: "\(number)", productID: product,
                    bundleID: ServiceRig.bundleID, kind: .known(.nonConsumable), purchaseDate: day(1),
                    accountToken: IdentityRef(0))
                let notification = NotificationFact(
                    type: "ONE_TIME_CHARGE", subtype: nil, uuid: "fill-\(number)", signedDate: day(1),
                    payloadHash: rig.context.sha256(Array("n\(number)".utf8)), bundleID: ServiceRig.bundleID,
                    transaction: fact, renewal: nil, remarks: [])
                group.addTask {
                    _ = try await rig.ledger.writer.append(
                        EventDraft(
                            environment: .production, source: .notification, type: "purchased", occurredAt: day(1),
                            fact: .notification(notification), identities: [customer],
                            deduplication: .statement(
                                id: "notification:fill-\(number)", payloadHash: notification.payloadHash),
                            evidence: nil))
                }
            }
            try await group.waitForAll()
        }
    }
}
