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

/// Somebody who was forgotten and buys again is a customer like any other; what they bought before stays forgotten.
@Suite("What heals the ledger, and a forgotten person who buys again", .serialized, .timeLimit(.minutes(5)))
struct ForgottenReturnTests {
    private static let token = ConsumptionStage.token
    private static let monthly = "com.example.pro.monthly"

    private static func month(_ id: String, from: Double, until: Double, signed: Double? = nil) -> HeldTransaction {
        HeldTransaction(
            id: id, original: "7", product: monthly, from: from, until: until, signed: signed ?? from, token: token,
            reason: id == "7" ? "PURCHASE" : "RENEWAL")
    }

    @Test("a refund request about the new purchase is answered, one about the old purchase is not")
    func consumption() async throws {
        let stage = try await ConsumptionStage()
        let answerer = try stage.answerer()
        try await stage.forget(Self.token)
        // The question itself names them again.
        try await stage.ask("old")
        try await answerer.look()
        #expect(try await stage.ends() == ["withheld forgotten"])

        stage.pass(hours: 28 * 24)
        let renewed = Self.month("7-1", from: 350, until: 380)
        try await stage.rig.notify(renewed, type: "DID_RENEW", uuid: "renewed")
        try stage.store.remember(renewed.members)
        #expect(try await !stage.rig.entitlements(Self.token).isEmpty)
        for (purchase, uuid) in [(stage.purchase, "old again"), (renewed, "new")] {
            let asked = try stage.store.send(
                "CONSUMPTION_REQUEST", uuid: uuid, purchase.with { $0.signed = 351 }.members)
            #expect(try await stage.rig.deliver(asked).status == 200)
            try await answerer.look()
        }
        #expect(try await stage.ends() == ["withheld forgotten", "withheld forgotten", "accepted"])
        #expect(stage.store.consumption(of: "7-1").count == 1 && stage.told().isEmpty)
    }

    @Test("what is missing of the new purchase is asked for, and what the store says of the old one names nobody again")
    func repair() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let old = Self.month("7", from: 290, until: 320)
        try await rig.notify(old, uuid: "n1")
        try store.remember(old.members)
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: { .earliest })
        #expect(try await forgetter.forget(try #require(CustomerID(Self.token))) != nil)
        try await healing.heal()
        #expect(store.count(of: "subscription_statuses") == 0, "nobody is asked about the old purchase")

        // They go on paying: one renewal is told, and the next one is not.
        let told = Self.month("7-1", from: 320, until: 321)
        let missed = Self.month("7-2", from: 321, until: 351)
        try await rig.notify(told, type: "DID_RENEW", uuid: "n2")
        for held in [told, missed] { try store.remember(held.members) }
        let head = try await rig.head()
        healing.pass(days: 1)
        try await healing.heal()
        let events = try await rig.context.reader.events(after: head, limit: 100).events
        let found = events.flatMap(\.fact.transactions).map(\.transactionID)
        #expect(found == ["7-2"], "the old one is known, and whose it was is not said again")
        #expect(try await rig.entitlements(Self.token).first?.givesAccess == true)
    }
}
