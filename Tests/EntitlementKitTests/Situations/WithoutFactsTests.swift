import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

/// So it is where nothing proves whose device it is, and where the app is older than what the server folds.
@Suite("Kit, situations: answers of the server without facts", .timeLimit(.minutes(1)))
struct WithoutFactsTests {
    @Test("what the store lists is confirmed by it, however long the server is away", arguments: [true, false])
    func storeConfirms(_ tellsFacts: Bool) async {
        let statement = Statements.transaction("1", product: "lifetime", until: nil)
        let rig = KitRig {
            ($0.current, $0.all) = ([statement], [statement])
        } server: {
            $0.tellsFacts = tellsFacts
        }
        await rig.launch()
        #expect(await rig.gives("forever"))
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 8)
        await rig.store.refresh()
        #expect(await rig.gives("forever"))
        // What nobody lists any more is not.
        rig.device.edit { ($0.current, $0.all) = ([], []) }
        rig.clock.advance(days: 8)
        await rig.store.refresh()
        #expect(await rig.store.current["forever"]?.state == .unconfirmed)
    }

    @Test(
        "so it is over many launches, also for an extension",
        arguments: [ReconciliationDocument.Proof.appTransaction, .none])
    func manyLaunches(_ proof: ReconciliationDocument.Proof) async {
        let statement = Statements.transaction("1", until: 366)
        var rig = KitRig {
            ($0.current, $0.all) = ([statement], [statement])
        } server: {
            $0.proof = proof
        }
        await rig.launch()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .problem(503) }
        for _ in 0..<9 {
            rig.clock.advance(days: 1)
            rig = await rig.relaunched()
            await rig.launch()
            await rig.store.refresh()
        }
        #expect(await rig.gives())
        let reader = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        #expect(await reader.current().givesAccess(to: "premium"))
    }

    @Test("access goes on for the leeway where auto-renewal is on", arguments: [true, false], [0, 3600] as [Int64])
    func leeway(_ tellsFacts: Bool, _ serverLeeway: Int64) async {
        let statement = Statements.transaction("1")
        let rig = KitRig(day: 20) {
            $0.current = [statement]
            $0.subscriptions = [
                .init(transaction: statement, renewal: Statements.renewal(original: "1", signed: 1))
            ]
        } server: {
            $0.tellsFacts = tellsFacts
            var policy = $0.catalog.policy
            policy.leewaySeconds = serverLeeway
            $0.catalog = Catalog(products: $0.catalog.products, policy: policy)
        }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        rig.device.edit { $0.current = [] }
        rig.clock.advance(days: 10.2)
        await rig.store.refresh()
        #expect(await rig.gives())
        rig.clock.advance(days: 1)
        await rig.store.refresh()
        #expect(await !rig.gives())
    }

    @Test("the store's word for grace counts for a day after it was last given", arguments: [true, false])
    func grace(_ tellsFacts: Bool) async {
        let rig = KitRig(day: 29) {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.tellsFacts = tellsFacts
        }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 1.2)
        await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.state == .inGracePeriod)
        #expect(await rig.gives())
    }

    @Test(
        "it does not count against a server that has answered since that the charge failed", arguments: [true, false])
    func serverKnowsBetter(_ tellsFacts: Bool) async throws {
        let rig = KitRig(day: 29) {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.tellsFacts = tellsFacts
        }
        await rig.launch()
        // The App Store has told the server alone, by a notification.
        let renewal = try DeviceRenewal(Statements.renewal(original: "1", signed: 30.1, retry: true))
        rig.server.edit { $0.states["1"]?.join(renewal.fact, source: .notification, position: 9) }
        rig.clock.advance(days: 1.2)
        await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.state == .inBillingRetry)
        #expect(await !rig.gives())
    }

    @Test("the history is whole", arguments: [true, false])
    func history(_ tellsFacts: Bool) async {
        let all = [
            Statements.transaction("1"), Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true),
        ]
        let rig = KitRig(day: 31) {
            ($0.current, $0.all) = ([all[1]], all)
        } server: {
            $0.tellsFacts = tellsFacts
        }
        await rig.launch()
        await rig.store.refresh()
        #expect(await rig.store.history().map(\.transactionID) == ["2", "1"])
    }
}
