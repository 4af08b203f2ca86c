import EntitlementAPI
import EntitlementCore
import Foundation
import Synchronization
import Testing

@testable import EntitlementKit

@Suite("Kit: claims to the server, delegate and listeners", .timeLimit(.minutes(1)))
struct TellingTests {
    @Test("claims name each product that the device holds, so that the server finds drift")
    func claims() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        _ = await rig.store.refresh()
        let claims = rig.server.received.last?.request.claims
        #expect(
            claims == [
                ReconcileRequest.Claim(
                    productID: "monthly", state: .active, until: Timestamp(milliseconds: Statements.instant(30)))
            ])
    }

    @Test("renewal information goes with a transaction of its subscription, once")
    func renewals() async {
        let rig = KitRig {
            $0.subscriptions = [
                SubscriptionStatement(
                    transaction: Statements.transaction("1"),
                    renewal: Statements.renewal(original: "1", signed: 1, autoRenews: false))
            ]
        }
        await rig.launch()
        _ = await rig.store.refresh()
        // What was sent before the app's own purchase was there is sent again with it, since it proves more.
        let posted = rig.server.received.filter {
            !$0.request.signedRenewalInfos.isEmpty && $0.request.appTransaction != nil
        }
        #expect(posted.count == 1)
        #expect(posted.first?.request.signedTransactions.count == 1)
        #expect(await rig.store.current["premium"]?.willRenew == false)
    }

    @Test("renewal information of somebody else's subscription is not believed beside a transaction")
    func foreignRenewal() async {
        let rig = KitRig {
            $0.subscriptions = [
                SubscriptionStatement(
                    transaction: Statements.transaction("1"),
                    renewal: Statements.renewal(original: "2", signed: 1, autoRenews: false))
            ]
        }
        await rig.launch()
        #expect(rig.server.received.allSatisfy { $0.request.signedRenewalInfos.isEmpty })
        #expect(await rig.gives())
    }

    @Test("a delegate is told of success, failure and rest")
    func delegate() async {
        let listener = Listener()
        let rig = KitRig()
        await rig.launch()
        await rig.store.setSyncDelegate(listener)
        rig.device.push(Statements.transaction("1"))
        await eventually("success") { listener.kinds.contains(.succeeded) }
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await eventually("failure") { listener.kinds.contains(.failed) }
        for delay in [1, 5, 30, 300] {
            await eventually("a retry in \(delay) s") { rig.clock.alarms.contains(.seconds(delay)) }
            rig.clock.advance(.seconds(delay))
        }
        await eventually("rest") { listener.kinds.contains(.resting) }
    }

    @Test("every listener gets the current state first, then each change")
    func listeners() async {
        let rig = KitRig()
        await rig.launch()
        var streams = (0..<3).map { _ in rig.store.states.makeAsyncIterator() }
        for index in streams.indices {
            let first = await streams[index].next()
            #expect(first?.isLive == true && first?.all.isEmpty == true)
        }
        rig.device.push(Statements.transaction("1"))
        for index in streams.indices {
            var state = await streams[index].next()
            while state?.givesAccess(to: "premium") == false { state = await streams[index].next() }
            #expect(state?.givesAccess(to: "premium") == true)
        }
    }
}

private final class Listener: EntitlementSyncDelegate {
    private let heard = Mutex<[SyncEvent]>([])

    var kinds: [SyncEvent.Kind] { heard.withLock { $0.map(\.kind) } }

    func entitlementStore(didReport event: SyncEvent) { heard.withLock { $0.append(event) } }
}
