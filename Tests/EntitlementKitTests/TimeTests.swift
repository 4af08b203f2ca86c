import EntitlementCore
import Foundation
import Synchronization
import Testing

@testable import EntitlementKit

@Suite("Kit: expiry, the offline bound and retries as time passes", .timeLimit(.minutes(1)))
struct TimeTests {
    @Test("access ends at its expiry without a call, and the server is asked whether it was renewed")
    func expiry() async {
        let rig = KitRig(bound: .seconds(90 * 86_400)) { $0.all = [Statements.transaction("1")] }
        await rig.launch()
        let asked = rig.server.received.count
        await eventually("the alarm") { !rig.clock.alarms.isEmpty }
        // Fewer, longer steps at first: hundreds of them are a minute's work for a busy machine.
        let steps = Array(repeating: Duration.seconds(86_400), count: 28) + Array(repeating: .seconds(3600), count: 24)
        for step in steps where await rig.gives() {
            await eventually("the alarm") { !rig.clock.alarms.isEmpty }
            rig.clock.advance(step)
            await rig.store.settled()
        }
        await rig.waitUntilGives(false)
        #expect(await rig.store.current["premium"]?.state == .expired)
        await eventually("asked") { rig.server.received.count > asked }
    }

    @Test("time that passes while an alarm is being set does not put it off")
    func alarmBeingSet() async {
        // What the server says the time is would be an hour old, were the app suspended while its answer is read.
        let rig = KitRig(day: 29.99, bound: .seconds(90 * 86_400)) {
            $0.all = [Statements.transaction("1")]
        } server: {
            $0.mood = .unreachable
        }
        // As for an app that is suspended right then, and goes on after the subscription has ended, 864 s from now.
        let wasSuspended = Mutex(false)
        rig.clock.setBeforeSleep { [clock = rig.clock] uptime in
            guard uptime > .seconds(700), uptime < .seconds(900) else { return }
            let isFirst = wasSuspended.withLock { suspended in
                defer { suspended = true }
                return !suspended
            }
            if isFirst { clock.advance(.seconds(3600)) }
        }
        await rig.launch()
        await rig.waitUntilGives(false)
        #expect(wasSuspended.withLock { $0 })
    }

    @Test("a billing problem in grace keeps access offline, and only as long")
    func grace() async {
        let rig = KitRig(day: 31, bound: .seconds(90 * 86_400)) {
            $0.subscriptions = [
                SubscriptionStatement(
                    transaction: Statements.transaction("1"),
                    renewal: Statements.renewal(original: "1", signed: 30.5, retry: true, graceUntil: 46))
            ]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        #expect(await rig.store.current["premium"]?.state == .inGracePeriod)
        rig.clock.advance(days: 15)
        await rig.waitUntilGives(false)
        #expect(await rig.store.current["premium"]?.state == .inBillingRetry)
    }

    @Test("a clock set back offline does not give back what ran out, also after a restart")
    func clockSetBack() async {
        var rig = KitRig(day: 29) {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        #expect(await rig.gives())
        rig.device.edit { $0.current = [] }
        rig.clock.advance(days: 2)
        await rig.waitUntilGives(false)
        // The store goes by the same clock.
        rig.clock.set(day: 5)
        rig.device.edit { $0.current = [Statements.transaction("1")] }
        await rig.store.applicationWillEnterForeground()
        #expect(!(await rig.gives()))
        await rig.store.settled()
        rig = await rig.relaunched(clock: ManualClock(day: 5))
        await rig.launch()
        #expect(!(await rig.gives()))
    }

    @Test("unconfirmed access ends at the offline bound, and returns when store or server confirm it")
    func bound() async {
        let statement = Statements.transaction("1", product: "lifetime", until: nil)
        let rig = KitRig { $0.current = [statement] }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        rig.device.edit { $0.current = [] }
        rig.clock.advance(days: 7)
        await rig.store.applicationWillEnterForeground()
        #expect(await rig.gives("forever"))
        rig.clock.advance(days: 0.1)
        await rig.waitUntilGives(false, "forever")
        #expect(await rig.store.current["forever"]?.state == .unconfirmed)
        rig.device.edit { $0.current = [statement] }
        await rig.store.applicationWillEnterForeground()
        #expect(await rig.gives("forever"))
        rig.device.edit { $0.current = [] }
        rig.clock.advance(days: 8)
        await rig.waitUntilGives(false, "forever")
        rig.server.edit { $0.mood = .answers }
        _ = await rig.store.refresh()
        #expect(await rig.gives("forever"))
    }

    @Test("a grant that only the server knows is held to the bound, too")
    func grant() async {
        let rig = KitRig(server: {
            $0.numbers["apple:A"] = 1
            $0.grants = [
                GrantState(
                    fact: GrantFact(
                        grantID: "g", customer: IdentityRef(1), entitlementID: "gift", until: nil, reason: ""),
                    position: 1, recordedAt: Timestamp(milliseconds: Statements.start))
            ]
        })
        await rig.launch()
        #expect(await rig.store.current["gift"]?.source == .grant)
        #expect(await rig.gives("gift"))
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 6.9)
        await rig.store.networkDidReturn()
        #expect(await rig.gives("gift"))
        rig.clock.advance(days: 0.2)
        await rig.waitUntilGives(false, "gift")
    }

    @Test("a stuck transaction rests after five attempts, blocks no other, and goes on when the network returns")
    func stuck() async {
        let rig = KitRig(server: { $0.refused = ["1"] })
        await rig.launch()
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        for delay in [1, 5, 30, 300] {
            await eventually("a retry in \(delay) s") { rig.clock.alarms.contains(.seconds(delay)) }
            rig.clock.advance(.seconds(delay))
        }
        await eventually("five attempts") { rig.server.posts.filter { $0 == ["1"] }.count == 5 }
        await eventually("rest") { await events.kinds.contains(.resting) }
        #expect(await events.kinds.filter { $0 == .failed }.count == 4)
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await eventually("the other is finished") { rig.device.state.finished == ["2"] }
        rig.server.edit { $0.refused = [] }
        await rig.store.networkDidReturn()
        await eventually("both are finished") { rig.device.state.finished == ["2", "1"] }
    }

    @Test("a failed launch is repeated without a call of the app")
    func retriesAsking() async {
        let rig = KitRig(server: { $0.mood = .status(503, retryAfter: 20) })
        await rig.launch()
        rig.server.edit { $0.mood = .answers }
        // A little later than it was told, so that not all devices come back at once.
        await eventually("patience") { rig.clock.alarms.contains { (.seconds(20)...(.seconds(22))).contains($0) } }
        rig.clock.advance(.seconds(22))
        await eventually("live") { await rig.store.current.isLive }
    }
}

/// Everything a stream of events has told so far.
actor Collected<Value: Sendable> {
    private(set) var values: [Value] = []

    init(_ stream: AsyncStream<Value>) {
        Task { for await value in stream { await append(value) } }
    }

    private func append(_ value: Value) { values.append(value) }
}

extension Collected<SyncEvent> {
    var events: [SyncEvent] { values }

    var kinds: [SyncEvent.Kind] { values.map(\.kind) }
}

extension EntitlementStore {
    var syncListenerCount: Int { syncListeners.count }
}
