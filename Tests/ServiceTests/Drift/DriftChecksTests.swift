import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Ledger
import PostgresClient
import StoreSimulator
import Testing

@testable import Service

/// Asking the store about what nothing explains, while it cannot be asked about some of it, or about anything.
@Suite("Asking about differences when the store fails", .serialized, .timeLimit(.minutes(5)))
struct DriftChecksTests {
    private static let count = 12

    /// So many customers, of each of whom something is unexplained, and a store that knows their purchases.
    private static func stage() async throws -> (healing: HealingRig, store: SimulatedStoreAPI) {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        for number in 0..<count {
            let person = "0a000000-0000-4000-8000-0000000000\(10 + number)"
            let held = HeldTransaction(
                id: "70\(10 + number)", product: "com.example.pro.monthly", from: 300, until: 330, signed: 300,
                token: person)
            try await rig.notify(held, uuid: "n\(number)")
            try store.remember(held.members)
            _ = try await rig.answer(
                person,
                Posted(claims: [.init(productID: "com.example.pro.monthly", state: .active, until: day(350))]))
        }
        try await rig.tellApart()
        #expect(try await rig.drift().unexplained == count)
        return (healing, store)
    }

    private static func passAnHour(_ rig: ServiceRig) async throws {
        try await rig.pool.withConnection { connection in
            _ = try connection.query("UPDATE drift SET asked_at = asked_at - interval '61 minutes'")
        }
    }

    @Test("however many fail for ever, the others are asked about, and those again only behind them")
    func starvation() async throws {
        let (healing, store) = try await Self.stage()
        // All but the newest, and more than are taken for an outage.
        for number in 0..<Self.count - 1 { store.failAlways(.status(500, code: 5_000_000), about: "70\(10 + number)") }
        var asked = 0
        // Before each round the last round's have their turn again.
        for _ in 0..<3 {
            let round = try await healing.driftChecks.askAll()
            asked += round.asked
            #expect(round.failed <= DriftChecks.mostInARow + 1, "\(round)")
            try await Self.passAnHour(healing.rig)
        }
        #expect(asked == 1, "the newest one's turn has come")
        try await healing.rig.tellApart()
        #expect(try await healing.rig.drift().unexplained == Self.count - 1)
        store.forgiveAll()
        #expect(try await healing.driftChecks.askAll().asked == Self.count - 1)
        try await healing.rig.tellApart()
        #expect(try await healing.rig.drift().unexplained == 0)
    }

    @Test("an outage costs one question, wrong credentials cost none its turn, and afterwards all the others go on")
    func outage() async throws {
        let (healing, store) = try await Self.stage()
        store.failAlways(.status(503))
        let away = try await healing.driftChecks.askAll()
        #expect(away.asked == 0 && away.failed == 1 && away.outage?.kind == .unavailable, "\(away)")
        store.failAlways(.status(401))
        for _ in 0..<3 {
            let refused = try await healing.driftChecks.askAll()
            #expect(refused.failed == 1 && refused.outage?.kind == .unauthorized, "\(refused)")
        }
        store.forgiveAll()
        let round = try await healing.driftChecks.askAll()
        #expect(round.asked == Self.count - 1 && round.outage == nil, "all but the one that met the outage")
        try await Self.passAnHour(healing.rig)
        #expect(try await healing.driftChecks.askAll().asked == 1)
    }
}
