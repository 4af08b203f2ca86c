import AppStorePayloads
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

    @Test(
        "a refund of an earlier period takes nothing of the present one, one of the present period ends it at once",
        arguments: [true, false], [true, false])
    func refund(_ isOfPresent: Bool, _ isLoggedIn: Bool) async throws {
        let first = Statements.transaction("1")
        let second = Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true)
        let rig = KitRig(day: 35) {
            $0.all = isLoggedIn ? [first, second] : [first]
        } server: { script in
            script.tellsFacts = false
            // From another device, or the App Store.
            for statement in [first, second] {
                guard let transaction = try? DeviceTransaction(statement) else { continue }
                script.hold(transaction, source: .notification)
            }
            let (ann, device) = (script.number(of: "ann"), script.number(of: "apple:A"))
            guard isLoggedIn else { return }
            script.ownership.apply(
                .link(LinkFact(identity: device, customer: ann, cause: .login)), position: 2,
                recordedAt: Timestamp(milliseconds: Statements.start))
        }
        await rig.launch()
        if isLoggedIn { await rig.store.identify(customerID: "ann", token: "t") }
        await rig.store.refresh()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        let refunded = Statements.transaction(
            "2", original: "1", from: 30, until: 60, revoked: 34, signed: 36, renewal: true)
        rig.device.push(isOfPresent ? refunded : Statements.transaction("1", revoked: 20, signed: 36))
        await eventually("known") {
            await rig.store.ledger.book.transactions.values.contains { $0.payload.revocation != nil }
        }
        await rig.store.refresh()
        #expect(await rig.gives() != isOfPresent)
        #expect(await rig.store.current["premium"]?.state == (isOfPresent ? .revoked : .active))
    }

    @Test("a refund of the period before a grace ends the grace")
    func refundInGrace() async throws {
        let statement = Statements.transaction("1")
        let rig = KitRig(day: 31, device: { $0.all = [statement] }, server: { $0.tellsFacts = false })
        let renewal = try DeviceRenewal(Statements.renewal(original: "1", signed: 30.1, retry: true, graceUntil: 40))
        rig.server.edit {
            $0.states["1", default: OriginalState()].join(renewal.fact, source: .notification, position: 9)
        }
        await rig.launch()
        await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.state == .inGracePeriod)
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Statements.transaction("1", revoked: 31, signed: 31))
        await rig.waitUntilGives(false)
    }
}
