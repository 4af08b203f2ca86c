import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// Random lives, of which part of the deliveries is lost, while devices say what the simulator's record says.
@Suite("Differences in random lives", .serialized, .timeLimit(.minutes(10)))
struct DriftPropertyTests {
    @Test("once the store's history was read, nothing is unexplained", arguments: Campaign.seeds(2))
    func healed(seed: UInt64) async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        var random = SplitMix64(seed: seed)
        var world = StoreWorld.standard
        world.start = rig.clock.now.milliseconds + 86_400_000
        let life = StoreLife.random(seed: 900 + seed, world: world, customers: 12, quirks: Quirks())
        let truth = life.record.byProduct
        // What devices know: a ledger that hears everything at once, and for which each product is an entitlement.
        let devices = try await ServiceRig.withCatalog(asksStore: true)
        #expect(try await devices.put(String(decoding: truth.world.catalogFile.encoded(), as: UTF8.self)).status == 200)
        let share: Int = random.pick([0, 40, 75])
        #expect(try await rig.put(String(decoding: world.catalogFile.encoded(), as: UTF8.self)).status == 200)
        // The ledger has listened since before anything happened.
        try await Self.beginListening(rig)
        var swept = rig.clock.now
        var delayed: [(due: Int64, payload: String)] = []
        var said = 0
        for notification in life.notifications {
            let next = max(rig.clock.now, Timestamp(milliseconds: notification.signedDate + 1000))
            // The sandbox keeps its history for thirty days.
            while swept.adding(milliseconds: 20 * 86_400_000) < next {
                swept = swept.adding(milliseconds: 20 * 86_400_000)
                rig.clock.now = max(rig.clock.now, swept)
                try await healing.sweep()
            }
            rig.clock.now = next
            let environment: StoreEnvironment =
                notification.environment == .production ? .production : .sandbox
            let api = try #require(rig.asked?[ServiceRig.bundleID, environment])
            devices.clock.now = next
            let heard = try #require(devices.asked?[ServiceRig.bundleID, environment]).send(notification)
            _ = try await devices.deliver(heard)
            let payload = try api.send(notification, at: rig.clock.now.milliseconds)
            if random.chance(share) {
                _ = try await rig.deliver(payload)
            } else if random.chance(30) {
                delayed.append((rig.clock.now.milliseconds + random.number(in: 1...20) * 3_600_000, payload))
            }
            for late in delayed where late.due <= rig.clock.now.milliseconds { _ = try await rig.deliver(late.payload) }
            delayed.removeAll { $0.due <= rig.clock.now.milliseconds }
            for key in truth.customers where random.chance(8) {
                said += try await Self.speak(of: key, truth, devices, rig, &random)
            }
            if random.chance(3) { try await rig.tellApart(pageEvents: random.number(in: 1...40)) }
        }
        rig.clock.now = rig.clock.now.adding(milliseconds: 3_600_000)
        try await healing.sweep()
        try await rig.tellApart(pageEvents: random.number(in: 1...100))
        #expect(said > 5, "seed \(seed): devices said something")
        var classes: [String: Int] = [:]
        for environment in ["production", "sandbox"] {
            let list = try await rig.drift("environment=\(environment)")
            #expect(list.unexplained == 0, "seed \(seed), \(share) %")
            for item in list.items {
                classes[item.class.rawValue, default: 0] += 1
                guard item.class == .unexplained, item.resolved == nil else { continue }
                Issue.record("seed \(seed), \(share) % arrived: \(item)")
            }
        }
        #expect(classes["missed_event", default: 0] > 0, "seed \(seed): \(classes)")
        try await rig.expectSameDriftAnew(pageEvents: random.number(in: 1...50), "seed \(seed)")
    }

    private static func beginListening(_ rig: ServiceRig) async throws {
        for environment in ["Production", "Sandbox"] {
            let first = HeldTransaction(id: "1-\(environment)", signed: 323, environment: environment)
            try await rig.notify(first, uuid: "first-\(environment)")
        }
    }

    /// A device of a customer says what the store has told by now, what is true, or what was some time ago; returns of how
    /// many products it spoke.
    private static func speak(
        of customer: CustomerKey, _ truth: Record, _ devices: ServiceRig, _ rig: ServiceRig, _ random: inout SplitMix64
    ) async throws -> Int {
        let now = rig.clock.now.milliseconds
        var claims: [ReconcileRequest.Claim]
        if random.chance(60) {
            let name = customer.environment.rawValue
            claims = try await devices.entitlements(customer.customerID, "?environment=\(name)").map {
                .init(productID: $0.id, state: $0.state, until: $0.until)
            }
        } else {
            let instant = random.chance(30) ? now - random.number(in: 1...20) * 86_400_000 : now
            claims = truth.customer(customer).answer(at: instant).compactMap { answer in
                EntitlementState(rawValue: answer.state.rawValue).map {
                    .init(productID: answer.entitlement, state: $0)
                }
            }
        }
        guard !claims.isEmpty else { return 0 }
        let environment: ReconcileRequest.Environment = customer.environment == .production ? .production : .sandbox
        _ = try await rig.answer(customer.customerID, Posted(environment: environment, claims: claims))
        return claims.count
    }
}

extension Record {
    /// The same, with each product for an entitlement.
    fileprivate var byProduct: Record {
        var record = self
        record.world.mappings = world.products.map { product in
            CatalogMapping(
                product.id, [product.id],
                duration: world.mappings.first { $0.productID == product.id }?.duration)
        }
        return record
    }
}
