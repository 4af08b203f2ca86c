import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// Whom nothing is told about, and that one question keeps no other waiting.
@Suite("Care with consumption requests", .serialized, .timeLimit(.minutes(5)))
struct ConsumptionCareTests {
    private static let nobodys = HeldTransaction(
        id: "7", product: "com.example.pro.monthly", from: 320, until: 350, signed: 320)

    /// A purchase that names nobody, and is whoever's device posted it.
    private static func claimed(by customer: String) async throws -> ConsumptionStage {
        let stage = try await ConsumptionStage(nobodys)
        _ = try await stage.rig.answer(
            customer, Posted(transactions: [try stage.rig.sign(nobodys)]), key: stage.rig.token(customer))
        return stage
    }

    @Test("nothing is told of a purchase whose owner was forgotten, though it names nobody")
    func forgottenClaimer() async throws {
        let stage = try await Self.claimed(by: "bob-77")
        let answerer = try stage.answerer()
        try await stage.ask("before")
        try await answerer.look()
        #expect(try await stage.ends() == ["accepted"])
        try await stage.forget("bob-77")
        try await stage.ask("after")
        try await answerer.look()
        #expect(try await stage.ends() == ["accepted", "withheld forgotten"] && stage.told().count == 1)
    }

    @Test(
        "nor of one that was transferred, where the new owner was forgotten, or the one before",
        arguments: ["carol", "bob-77"])
    func forgottenReceiver(forgotten: String) async throws {
        let stage = try await Self.claimed(by: "bob-77")
        #expect(try await stage.rig.transfer("7", from: "bob-77", to: "carol").status == 200)
        stage.pass(hours: 1)
        let answerer = try stage.answerer()
        try await stage.ask("before")
        try await answerer.look()
        try await stage.forget(forgotten)
        try await stage.ask("after")
        try await answerer.look()
        #expect(try await stage.ends() == ["accepted", "withheld forgotten"] && stage.told().count == 1)
    }

    @Test("the store is not asked by itself about a purchase whose owner was forgotten, though it names nobody")
    func notRepaired() async throws {
        for isForgotten in [false, true] {
            let healing = try await HealingRig.make()
            let rig = healing.rig
            let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
            // It ran out a while ago, and nothing was heard since.
            let held = HeldTransaction(
                id: "7", product: "com.example.pro.monthly", from: 290, until: 320, signed: 290)
            try await rig.notify(held, uuid: "n1")
            let renewed = HeldTransaction(
                id: "7-1", original: "7", product: "com.example.pro.monthly", from: 320, until: 350, signed: 320,
                reason: "RENEWAL")
            try store.remember(renewed.members)
            _ = try await rig.answer("bob-77", Posted(transactions: [try rig.sign(held)]), key: rig.token("bob-77"))
            if isForgotten {
                try await rig.database.owner().query("DELETE FROM identity WHERE value = 'bob-77'")
            }
            try await healing.heal()
            #expect((store.count(of: "subscription_statuses") == 0) == isForgotten)
        }
    }

    @Test("questions that the store cannot take keep no other waiting, and are tried again until they are answered")
    func starving() async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        for number in 0..<3 { try await stage.ask("stuck \(number)") }
        try await stage.ask("free")
        let free = try await stage.rig.head()
        // Five attempts each; after these the store takes everything.
        for _ in 0..<15 { stage.store.fail(.status(500, code: 5_000_000)) }
        try await answerer.look()
        let settled = try await stage.rig.context.reader.events(after: free, limit: 10).events.compactMap {
            if case .storeRequest(let fact) = $0.fact { fact.settles } else { nil }
        }
        #expect(settled == [free] && stage.told().count == 1)
        try await answerer.look()
        #expect(stage.told().count == 1, "each of them rests for a minute")
        // One that is asked meanwhile comes before those that failed.
        stage.pass(hours: 0.1)
        try await stage.ask("fresh")
        let fresh = try await stage.rig.head()
        try await answerer.look()
        let order = try await stage.rig.context.reader.events(after: fresh, limit: 10).events.compactMap {
            if case .storeRequest(let fact) = $0.fact { fact.settles } else { nil }
        }
        #expect(order == [fresh, free - 3, free - 2, free - 1])
    }
}
