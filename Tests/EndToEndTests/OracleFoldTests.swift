import AppStorePayloads
import EntitlementCore
import OpenSSLCrypto
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// The fold against the simulator's record, without signatures or a database: fast enough for many lives.
@Suite("The fold against the simulator's record")
struct OracleFoldTests {
    @Test("every scenario reads as the store recorded it", arguments: Scenario.all.map(\.name))
    func scenarios(name: String) throws {
        let scenario = try #require(Scenario.named(name))
        for style in [DeliveryStyle.inOrder, .shuffled, .duplicated] {
            try expectRecord(scenario.life(), style: style, seed: 1, name)
        }
    }

    @Test("random lives read as the store recorded them, however they are delivered")
    func randomLives() throws {
        for seed in 1...UInt64(Campaign.factor * 100) {
            var policy = SplitMix64(seed: seed)
            let world = StoreWorld.standard.with { policyValue in
                policyValue.graceGivesAccess = policy.next() % 4 != 0
                policyValue.billingRetryGivesAccess = policy.next() % 4 == 0
                policyValue.leewaySeconds = policy.next() % 3 == 0 ? 86_400 : 0
                policyValue.proratedRefund = policy.next() % 2 == 0 ? .endsAccess : .keepsAccess
            }
            let life = StoreLife.random(seed: seed, world: world, customers: 2)
            for style in [DeliveryStyle.shuffled, .duplicated, .delayed] {
                try expectRecord(life, style: style, seed: seed, "random")
            }
        }
    }

    private func expectRecord(_ life: StoreLife, style: DeliveryStyle, seed: UInt64, _ name: String) throws {
        var ledger = FoldedLedger(catalog: try Catalog(life.world))
        for arrival in Delivery.plan(life.notifications, style, seed: seed) {
            try ledger.receive(life.notifications[arrival.index])
        }
        for customer in life.record.customers {
            let record = life.record.customer(customer)
            let facts = ledger.facts(of: customer)
            let timelines = Dictionary(uniqueKeysWithValues: facts.timelines().map { ($0.entitlementID, $0.intervals) })
            let context = "\(name) seed \(seed) \(style) \(customer)"
            #expect(Set(timelines.keys) == Set(record.timelines.keys), "\(context)")
            for (entitlement, expected) in record.timelines {
                let actual = (timelines[entitlement] ?? []).map { RecordInterval($0, policy: facts.catalog.policy) }
                #expect(actual == expected, "\(context) \(entitlement)")
            }
            for instant in record.boundaryInstants {
                let answers = facts.answers(at: Timestamp(milliseconds: instant)).compactMap { RecordAnswer($0) }
                #expect(answers == record.answer(at: instant), "\(context) at \(instant)")
            }
        }
    }
}

/// The facts of many notifications, joined in memory.
struct FoldedLedger {
    let catalog: Catalog
    private var identities = IdentityList()
    private(set) var states: [SimulatedOriginalKey: OriginalState] = [:]
    private var position: Int64 = 0

    init(catalog: Catalog) { self.catalog = catalog }

    mutating func receive(_ notification: StoreNotification) throws {
        position += 1
        let payload = try NotificationPayload(JSONObject(parsing: PayloadValue.object(notification.payload).encoded()))
        let environment = notification.environment
        if let object = notification.transaction {
            let bytes = try PayloadValue.object(object).encoded()
            let transaction = try TransactionPayload(parsing: bytes)
            let fact = transaction.fact(
                payloadHash: Digest(SHA256.hash(bytes)) ?? .zero, fallbackSignedDate: payload.signedDate,
                identities: &identities)
            states[SimulatedOriginalKey(environment, fact.originalTransactionID), default: OriginalState()]
                .join(fact, source: .notification, position: position)
        }
        if let object = notification.renewal {
            let bytes = try PayloadValue.object(object).encoded()
            let fact = try RenewalPayload(parsing: bytes).fact(
                payloadHash: Digest(SHA256.hash(bytes)) ?? .zero, fallbackSignedDate: payload.signedDate,
                isGraceNotification: payload.isGraceNotification)
            states[SimulatedOriginalKey(environment, fact.originalTransactionID), default: OriginalState()]
                .join(fact, source: .notification, position: position)
        }
    }

    mutating func facts(of customer: CustomerKey) -> CustomerFacts {
        let mine = states.filter { $0.key.environment == customer.environment }
        return CustomerFacts(
            customer: identities.reference(customerID: customer.customerID),
            originals: Dictionary(uniqueKeysWithValues: mine.map { ($0.key.originalTransactionID, $0.value) }),
            catalog: catalog)
    }
}
