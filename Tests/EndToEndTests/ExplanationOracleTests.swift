import AppStorePayloads
import EntitlementCore
import OpenSSLCrypto
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// Explanations of simulated lives: that they decide as the store recorded, and that what they cite suffices.
@Suite("Explanations against the simulator's record", .timeLimit(.minutes(20)))
struct ExplanationOracleTests {
    @Test("random lives: at every boundary the cited events alone give the same decision, and none can be left out")
    func randomLives() throws {
        for seed in 1...UInt64(Campaign.factor * 12) {
            var random = SplitMix64(seed: seed)
            let world = StoreWorld.standard.with { policy in
                policy.graceGivesAccess = random.next() % 4 != 0
                policy.billingRetryGivesAccess = random.next() % 4 == 0
                policy.leewaySeconds = random.next() % 3 == 0 ? 86_400 : 0
            }
            let life = StoreLife.random(seed: seed, world: world, customers: 2)
            let style = DeliveryStyle.allCases[Int(seed) % DeliveryStyle.allCases.count]
            var log = try ToldLog(catalog: try Catalog(world))
            for arrival in Delivery.plan(life.notifications, style, seed: seed) {
                try log.receive(life.notifications[arrival.index])
            }
            for customer in life.record.customers {
                let record = life.record.customer(customer)
                for instant in record.boundaryInstants {
                    // What was lost on the way cannot be known.
                    let expected = style == .lossy ? nil : record.answer(at: instant)
                    try expectExplanations(
                        of: log.history(of: customer), expected, Timestamp(milliseconds: instant),
                        "seed \(seed) \(style) \(customer)")
                }
            }
        }
    }

    private func expectExplanations(
        of history: CustomerHistory, _ expected: [RecordAnswer]?, _ instant: Timestamp, _ context: String
    ) throws {
        let explanations = Explainer(history, at: instant).explanations()
        let answers = explanations.compactMap(\.answer).compactMap { RecordAnswer($0) }
        try #require(expected.map { $0 == answers } ?? true, "\(context) at \(instant): \(answers)")
        for explanation in explanations {
            let decision = explanation.decision
            let context = "\(context) at \(instant): \(decision)"
            #expect(decision.sentence.hasSuffix(".") && !decision.sentence.contains("apple:"), "\(context)")
            func decide(_ events: [HistoryEvent]) -> Decision {
                let part = CustomerHistory(
                    of: history.customer, environment: history.environment, position: history.position,
                    events: events)
                return Explainer(part, at: instant).explanation(of: decision.entitlementID).decision
            }
            let refolded = decide(explanation.events)
            try #require(
                refolded.givesAccess == decision.givesAccess && refolded.state == decision.state, "\(context)")
            if explanation.events.isEmpty { continue }
            try #require(refolded == decision, "\(context)")
            for left in explanation.events {
                try #require(decide(explanation.events.filter { $0 != left }) != decision, "\(context)")
            }
        }
    }
}

/// A log in memory: the catalog first, and one event for each notification that was not told before.
struct ToldLog {
    private var identities = IdentityList()
    private var events: [HistoryEvent]
    private var told: Set<String> = []

    init(catalog: Catalog) throws {
        events = [
            HistoryEvent(
                position: 1, recordedAt: .earliest, environment: nil, source: "operator",
                statementSource: .notification, type: "catalog_applied", occurredAt: nil, fact: .catalog(catalog))
        ]
    }

    mutating func receive(_ notification: StoreNotification) throws {
        guard told.insert(notification.uuid).inserted else { return }
        let payload = try NotificationPayload(JSONObject(parsing: PayloadValue.object(notification.payload).encoded()))
        var transaction: TransactionFact?
        var renewal: RenewalFact?
        if let object = notification.transaction {
            let bytes = try PayloadValue.object(object).encoded()
            transaction = try TransactionPayload(parsing: bytes).fact(
                payloadHash: Digest(SHA256.hash(bytes)) ?? .zero, fallbackSignedDate: payload.signedDate,
                identities: &identities)
        }
        if let object = notification.renewal {
            let bytes = try PayloadValue.object(object).encoded()
            renewal = try RenewalPayload(parsing: bytes).fact(
                payloadHash: Digest(SHA256.hash(bytes)) ?? .zero, fallbackSignedDate: payload.signedDate,
                isGraceNotification: payload.isGraceNotification)
        }
        let position = Int64(events.count + 1)
        events.append(
            HistoryEvent(
                position: position, recordedAt: Timestamp(milliseconds: position),
                environment: notification.environment == .sandbox ? .sandbox : .production,
                source: "app_store_notification", statementSource: .notification, type: "told",
                occurredAt: payload.signedDate,
                fact: .notification(
                    NotificationFact(
                        type: "TOLD", subtype: nil, uuid: notification.uuid, signedDate: payload.signedDate,
                        payloadHash: .zero, bundleID: "", transaction: transaction, renewal: renewal, remarks: []))))
    }

    mutating func history(of customer: CustomerKey) -> CustomerHistory {
        CustomerHistory(
            of: identities.reference(customerID: customer.customerID),
            environment: customer.environment == .sandbox ? .sandbox : .production, position: Int64(events.count),
            events: events)
    }
}
