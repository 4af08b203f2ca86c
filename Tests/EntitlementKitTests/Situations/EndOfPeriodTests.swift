import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: the end of what was paid for", .timeLimit(.minutes(1)))
struct EndOfPeriodTests {
    /// Every state that a store publishes, in order.
    private actor Seen {
        private(set) var states: [Entitlements] = []

        init(_ stream: AsyncStream<Entitlements>) {
            Task { for await state in stream { await append(state) } }
        }

        private func append(_ state: Entitlements) { states.append(state) }

        var lost: Bool { states.contains { $0.kind != .loading && !$0.givesAccess(to: "premium") } }
    }

    private func rig(day: Double, server edit: (inout ScriptedServer.Script) -> Void = { _ in }) -> KitRig {
        KitRig(
            day: day, bound: .seconds(90 * 86_400), device: { $0.current = [Statements.transaction("1")] }, server: edit
        )
    }

    /// Lets days pass, the end of the first period among them, of whose renewal the store tells when it is read.
    private func expectUnbrokenAccess(_ rig: KitRig, over days: Double) async {
        let seen = Seen(rig.store.states)
        await eventually("access") { await !seen.states.isEmpty }
        let door = Door()
        rig.device.edit {
            $0.doors[.currentEntitlements] = door
            $0.current = [Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true)]
        }
        rig.clock.advance(days: days)
        await eventually("the store is read") { await door.visitors > 0 }
        await door.open()
        await eventually("the renewal") { await rig.store.current["premium"]?.until == Statements.date(60) }
        #expect(await !seen.lost)
    }

    @Test("a renewal that the store knows at the end is shown without a moment of no access")
    func renewedAtTheEnd() async {
        let rig = rig(day: 29.99) { $0.mood = .unreachable }
        await rig.launch()
        await expectUnbrokenAccess(rig, over: 0.02)
    }

    @Test("it is also where the clock was ahead for a while before")
    func renewedAfterAClockAhead() async {
        let rig = rig(day: 5) { $0.mood = .unreachable }
        // Else the store lists it beyond its end.
        rig.device.edit { ($0.all, $0.current) = ($0.current, []) }
        await rig.launch()
        rig.clock.set(day: 400)
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
        await rig.store.settled()
        rig.clock.set(day: 5)
        await rig.store.applicationWillEnterForeground()
        await rig.waitUntilGives()
        await rig.store.settled()
        await expectUnbrokenAccess(rig, over: 25.5)
    }

    @Test("a server whose clock is behind the store's does not have the store asked about an end again and again")
    func serverBehind() async {
        let second = 1.0 / 86_400
        let rig = rig(day: 30 - 20 * second)
        rig.clock.set(day: 30 - 10 * second)
        await rig.launch()
        let door = Door()
        rig.device.edit {
            $0.doors[.currentEntitlements] = door
            $0.current = []
        }
        rig.device.push(
            SubscriptionStatement(
                transaction: Statements.transaction("1"),
                renewal: Statements.renewal(original: "1", signed: 30 + 0.1 * second, autoRenews: false, intent: 1)))
        await eventually("the store is read") { await door.visitors > 0 }
        rig.clock.advance(.seconds(1))
        await door.open()
        await rig.waitUntilGives(false)
        await rig.store.settled()
        #expect(await door.visitors == 1)
    }

    @Test("an app that wakes after the end asks the store before it shows that access has ended")
    func wakesAfterTheEnd() async {
        var rig = rig(day: 29)
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        let door = Door()
        await rig.store.stop()
        rig.clock.advance(days: 2)
        rig = await rig.relaunched(
            device: ScriptedStore {
                $0.doors[.currentEntitlements] = door
                $0.current = [Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true)]
            })
        let seen = Seen(rig.store.states)
        await rig.store.start()
        await eventually("the store is read") { await door.visitors > 0 }
        await door.open()
        await rig.waitUntilGives()
        await rig.store.settled()
        #expect(await !seen.lost)
    }

    @Test("a store that hangs at the end delays the end for two seconds, and no longer")
    func storeHangsAtTheEnd() async {
        let rig = rig(day: 29.99)
        await rig.launch()
        let door = Door()
        rig.device.edit { $0.doors[.currentEntitlements] = door }
        rig.clock.advance(days: 0.02)
        await eventually("the store is read") { await door.visitors > 0 }
        #expect(await rig.gives())
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives(false) }
        await door.open()
    }

    @Test("what the store lists as current after its end is in grace, by the store's own word, for a day at most")
    func graceByTheStoresWord() async {
        let rig = rig(day: 31) { $0.mood = .unreachable }
        await rig.launch()
        #expect(await rig.store.current["premium"]?.state == .inGracePeriod)
        rig.device.edit { $0.current = [] }
        // An empty list says nothing.
        _ = await rig.store.refresh()
        #expect(await rig.gives())
        rig.clock.advance(days: 1.1)
        await rig.waitUntilGives(false)
    }

    @Test(
        "the store's word for grace ends when it lists other things and not this, and when renewal information says so")
    func wordWithdrawn() async {
        let rig = rig(day: 31) { $0.mood = .unreachable }
        await rig.launch()
        let other = Statements.transaction("9", product: "lifetime", until: nil)
        rig.device.edit { $0.current = [other] }
        // Lists have been seen to lack something once.
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
        rig.clock.advance(.seconds(12))
        await rig.waitUntilGives(false)
        rig.device.edit { $0.current = [other, Statements.transaction("1")] }
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
        rig.device.edit {
            $0.subscriptions = [
                .init(
                    transaction: Statements.transaction("1"),
                    renewal: Statements.renewal(original: "1", signed: 30.5, retry: true))
            ]
        }
        let state = await rig.store.refresh()
        #expect(state["premium"]?.state == .inBillingRetry)
    }

    @Test("a list of which nothing can be verified, after one that lacks a subscription in grace, is looked at once")
    func unverifiedList() async throws {
        func own(_ problem: String? = nil) -> SignedStatement {
            Statements.transaction("9", product: "lifetime", until: nil, unverified: problem)
        }
        let rig = KitRig(day: 31, sync: false) { $0.current = [own(), Statements.transaction("1")] }
        await rig.launch()
        rig.device.edit { $0.current = [own()] }
        await rig.store.refresh()
        rig.device.edit { $0.current = [own("no certificate")] }
        let looks = rig.device.count(.currentEntitlements)
        rig.clock.advance(.seconds(12))
        await eventually("another look") { rig.device.count(.currentEntitlements) > looks }
        try await Task.sleep(for: .milliseconds(50))
        #expect(rig.device.count(.currentEntitlements) == looks + 1)
        #expect(await rig.gives())
    }

    @Test("two lists that lack a subscription in grace end it only when they come some time apart")
    func listsAtOnce() async {
        let own = Statements.transaction("9", product: "lifetime", until: nil)
        var rig = KitRig(day: 31, sync: false) { $0.current = [own, Statements.transaction("1")] }
        await rig.launch()
        #expect(await rig.gives())
        // A store that is not ready after a launch lacks it in both.
        rig = await rig.relaunched(device: ScriptedStore { $0.current = [own] })
        await rig.launch()
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
        await eventually("another look") { rig.clock.alarms.contains(.seconds(12)) }
        rig.clock.advance(.seconds(12))
        await rig.waitUntilGives(false)
    }

    @Test(
        "renewal information of after the end that says that it renews takes nothing away; one that has ended does",
        arguments: [true, false])
    func renewsAfterTheEnd(_ isListed: Bool) async {
        func status(_ day: Double, intent: Int? = nil) -> SubscriptionStatement {
            SubscriptionStatement(
                transaction: Statements.transaction("1"),
                renewal: Statements.renewal(original: "1", signed: day, intent: intent))
        }
        let rig = KitRig(day: 30.5, bound: .seconds(90 * 86_400)) {
            if isListed { $0.current = [Statements.transaction("1")] }
            $0.subscriptions = [status(30.4)]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        let state: Entitlement.State = isListed ? .inGracePeriod : .active
        #expect(await rig.store.current["premium"]?.state == state)
        #expect(await rig.gives())
        rig.device.edit { $0.subscriptions = [status(30.45, intent: 2)] }
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test(
        "the period that was bought last counts at the end, also where one before it would have run for longer",
        arguments: [10, nil] as [Double?], [true, false])
    func lastPeriod(_ refunded: Double?, _ isListed: Bool) async {
        // A yearly plan, refunded or replaced by a monthly one of the same subscription.
        let yearly = Statements.transaction(
            "1", product: "yearly", until: 334, revoked: refunded, signed: refunded ?? 0)
        let monthly = Statements.transaction("2", original: "1", from: 20, until: 50)
        let rig = KitRig(day: 49, bound: .seconds(90 * 86_400)) {
            $0.all = [yearly, monthly]
            $0.subscriptions = [
                .init(transaction: monthly, renewal: Statements.renewal(original: "1", signed: 40))
            ]
        }
        await rig.launch()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        if isListed { rig.device.edit { $0.current = [monthly] } }
        rig.clock.advance(days: 1.5)
        let shown = await rig.store.refresh()["premium"]
        let state: Entitlement.State = isListed ? .inGracePeriod : .active
        #expect(shown?.givesAccess == true && shown?.state == state, "\(String(describing: shown))")
        #expect((shown?.until ?? .distantPast) > Statements.date(50.9))
    }

    @Test("offline with auto-renewal on access goes on for the leeway, with it off it ends", arguments: [true, false])
    func leeway(_ autoRenews: Bool) async {
        let rig = KitRig(day: 29, bound: .seconds(90 * 86_400)) {
            $0.subscriptions = [
                .init(
                    transaction: Statements.transaction("1"),
                    renewal: Statements.renewal(original: "1", signed: 20, autoRenews: autoRenews))
            ]
        }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 1.5)
        if !autoRenews { return await rig.waitUntilGives(false) }
        await eventually("the leeway") { await rig.store.current["premium"]?.until == Statements.date(31) }
        #expect(await rig.store.current["premium"]?.state == .active)
        #expect(await rig.gives())
        rig.clock.advance(days: 0.6)
        await rig.waitUntilGives(false)
    }

    @Test(
        "a period of which a part was refunded, and access is kept, has the leeway",
        arguments: [ProratedRefundPolicy.keepsAccess, .endsAccess])
    func leewayAfterPartialRefund(_ refund: ProratedRefundPolicy) async {
        let part = Statements.transaction("1", revoked: 5, signed: 6, offer: ["revocationType": "REFUND_PRORATED"])
        let rig = KitRig(day: 29, bound: .seconds(90 * 86_400)) {
            $0.subscriptions = [
                .init(transaction: part, renewal: Statements.renewal(original: "1", signed: 6))
            ]
        } server: {
            $0.catalog = Catalog(products: $0.catalog.products, policy: AccessPolicy(proratedRefund: refund))
        }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 1.5)
        #expect(await rig.store.refresh().givesAccess(to: "premium") == (refund == .keepsAccess))
        rig.clock.advance(days: 0.6)
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test("the leeway ends as soon as the server says that nothing was renewed")
    func leewayEndsWithTheServer() async {
        let rig = KitRig(day: 29, bound: .seconds(90 * 86_400)) {
            $0.subscriptions = [
                .init(
                    transaction: Statements.transaction("1"), renewal: Statements.renewal(original: "1", signed: 20))
            ]
        }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 1.5)
        await rig.store.settled()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .answers }
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test(
        "renewal information that is new counts at once where the server's facts cannot be read",
        arguments: [true, false])
    func newRenewalInformation(_ tellsFacts: Bool) async {
        let rig = KitRig(day: 29, bound: .seconds(90 * 86_400)) {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.tellsFacts = tellsFacts
        }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        rig.device.edit {
            $0.current = []
            $0.subscriptions = [
                .init(
                    transaction: Statements.transaction("1"),
                    renewal: Statements.renewal(original: "1", signed: 30.1, retry: true, graceUntil: 46))
            ]
        }
        rig.clock.advance(days: 2)
        _ = await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.state == .inGracePeriod)
    }
}
