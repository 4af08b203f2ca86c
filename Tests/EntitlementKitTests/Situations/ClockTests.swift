import EntitlementAPI
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: clocks that people set", .timeLimit(.minutes(1)))
struct ClockTests {
    private func rig(sync: Bool) async -> KitRig {
        let rig = KitRig(day: 5, sync: sync, bound: .seconds(7 * 86_400)) {
            $0.all = [Statements.transaction("1"), Statements.transaction("2", product: "lifetime", until: nil)]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        #expect(await rig.gives())
        return rig
    }

    /// The next process of one whose clock was set far forward, at the right time again, before the store has said anything new.
    private func relaunchedAfterSettingForward(sync: Bool, day: Double) async -> KitRig {
        var rig = await rig(sync: sync)
        rig.clock.set(day: 400)
        _ = await rig.store.refresh()
        await rig.store.settled()
        rig = await rig.relaunched(clock: ManualClock(day: day))
        await rig.launch()
        #expect(await !rig.gives())
        return rig
    }

    @Test("a clock set forward and back heals while the app runs, with sync on and off", arguments: [true, false])
    func forwardAndBack(_ sync: Bool) async {
        let rig = await rig(sync: sync)
        rig.clock.set(day: 400)
        _ = await rig.store.refresh()
        #expect(await !rig.gives())
        rig.clock.set(day: 5)
        _ = await rig.store.refresh()
        #expect(await rig.gives())
        // What was confirmed by the wrong clock is confirmed no longer than by the right one.
        rig.device.edit { $0.all = [] }
        rig.clock.advance(days: 8)
        if sync { await rig.waitUntilGives(false, "forever") }
    }

    @Test(
        "a clock that was right again before a launch heals with what the store signs next", arguments: [true, false])
    func healsAfterLaunch(_ sync: Bool) async {
        let rig = await relaunchedAfterSettingForward(sync: sync, day: 29)
        let renewal = Statements.transaction("3", original: "1", from: 29, until: 59, signed: 29, renewal: true)
        rig.device.push(renewal)
        await rig.waitUntilGives()
        #expect(await rig.store.current["premium"]?.until == Statements.date(59))
    }

    @Test("so does one with what the store says anew of the renewal, or of the app itself", arguments: [true, false])
    func healsWithOtherStatements(_ saysRenewal: Bool) async {
        var rig = await relaunchedAfterSettingForward(sync: false, day: 12)
        rig.device.edit { script in
            if saysRenewal {
                script.subscriptions = [
                    SubscriptionStatement(
                        transaction: Statements.transaction("1"), renewal: Statements.renewal(original: "1", signed: 12)
                    )
                ]
            } else {
                script.appTransaction = Statements.appTransaction(signed: 12)
            }
        }
        if saysRenewal {
            _ = await rig.store.refresh()
        } else {
            rig = await rig.relaunched(clock: ManualClock(day: 12))
            await rig.launch()
        }
        await rig.waitUntilGives()
    }

    @Test("behind a clock that was set back, time that passes ends what it ends, before the server has spoken")
    func passesBehindASetBackClock() async {
        var rig = KitRig(day: 29, sync: false) { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        #expect(await rig.gives())
        await rig.store.settled()
        rig.device.edit { $0.current = [] }
        rig = await rig.relaunched(clock: ManualClock(day: 5))
        await rig.launch()
        #expect(await rig.gives())
        rig.clock.advance(days: 0.9)
        await rig.store.settled()
        #expect(await rig.gives())
        rig.clock.advance(days: 0.2)
        await rig.waitUntilGives(false)
    }

    @Test(
        "a clock that was behind at the launch gives nothing back that ran out when it is set forward and back again",
        arguments: [true, false])
    func behindForwardAndBack(_ sync: Bool) async {
        var rig = KitRig(day: 29, sync: sync) {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        #expect(await rig.gives())
        rig.device.edit { $0.current = [] }
        rig.clock.advance(days: 10)
        await rig.waitUntilGives(false)
        await rig.store.settled()
        rig = await rig.relaunched(clock: ManualClock(day: 21))
        await rig.launch()
        #expect(await !rig.gives())
        for day in [45.0, 21] {
            rig.clock.set(day: day)
            await rig.store.refresh()
        }
        await rig.store.settled()
        #expect(await !rig.gives())
        rig = await rig.relaunched(clock: ManualClock(day: 21))
        await rig.launch()
        #expect(await !rig.gives())
    }

    @Test("what was confirmed behind a clock that was lost counts at the next launch, too")
    func confirmedBehindALostClock() async {
        var rig = KitRig(day: 5) {
            $0.current = [Statements.transaction("1", product: "lifetime", until: nil)]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        rig = await rig.relaunched(clock: ManualClock(day: -20_000))
        await rig.launch()
        // The time is kept on disk by the minute, the confirmation by the hour.
        for seconds in [3590, 40] {
            rig.clock.advance(.seconds(seconds))
            await rig.store.refresh()
        }
        await rig.store.settled()
        rig.device.edit { $0.current = [] }
        rig = await rig.relaunched(clock: ManualClock(day: -20_000))
        await rig.launch()
        #expect(await rig.store.refresh().givesAccess(to: "forever"))
    }

    @Test("a clock set forward heals when the server answers, whatever it was set to")
    func healsWithTheServer() async {
        let rig = await rig(sync: true)
        rig.clock.set(day: 400)
        _ = await rig.store.refresh()
        #expect(await !rig.gives())
        rig.server.edit { $0.mood = .answers }
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test("a refresh whose answer says that it is later than the clock does shows what holds at that later time")
    func refreshThatLearnsTheTime() async {
        let world = KitRig(day: 40) {
            $0.all = [Statements.transaction("1")]
        } server: {
            $0.mood = .unreachable
        }
        let rig = world.another(clock: ManualClock(day: 5))
        await rig.launch()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .answers }
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
    }

    /// What a server says whose clock is a year ahead.
    private static func ahead(_ answer: WireValue) -> WireValue {
        guard case .object(var members) = answer else { return answer }
        members["at"] = .string("2027-02-05T00:00:00.000Z")
        return .object(members)
    }

    @Test("a server whose clock was ahead for a while locks nobody out once it is right again, also after a launch")
    func serverAhead() async {
        var rig = KitRig { $0.current = [Statements.transaction("1", until: 60)] }
        rig.server.edit { $0.translate = Self.ahead }
        await rig.launch()
        await rig.waitUntilGives(false)
        rig.server.edit { $0.translate = nil }
        rig = await rig.relaunched()
        await rig.launch()
        await rig.waitUntilGives()
        #expect(await rig.store.current.at < Statements.date(10))
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        await rig.launch()
        await rig.waitUntilGives()
    }

    @Test(
        "what a server whose clock was ahead said of one customer locks out nobody who has logged in since",
        arguments: [true, false])
    func serverAheadOfLogin(_ isPinned: Bool) async throws {
        let (ann, signer) = (UUID(), try PassSigner())
        let (keys, es256) = (isPinned ? try signer.keySet() : nil, signer.es256())
        var rig = KitRig {
            $0.current = [Statements.transaction("1", until: 60, token: ann)]
        } server: {
            $0.translate = { signer.signing(Self.ahead($0)) }
        } configuration: {
            ($0.passKeys, $0.es256) = (keys, es256)
        }
        await rig.launch()
        await rig.store.settled()
        rig.server.edit { $0.translate = { signer.signing($0) } }
        await rig.store.identify(customerID: ann.uuidString, token: "t")
        await rig.store.settled()
        await rig.store.refresh()
        #expect(await rig.gives())
        await rig.store.settled()
        let widget = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        #expect(await widget.current().givesAccess(to: "premium"))
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test("nor does it lock out whom it answers about since without a proof of whose device this is")
    func serverAheadWithoutProof() async {
        var rig = KitRig {
            $0.current = [Statements.transaction("1", until: 60)]
        } server: {
            $0.translate = Self.ahead
        }
        await rig.launch()
        await rig.store.settled()
        rig.server.edit {
            $0.translate = nil
            $0.proof = .none
        }
        await rig.store.refresh()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test(
        "a clock that was right again before a launch heals with what was signed in the night before",
        arguments: [0.4, 2])
    func healsWithTheNight(_ age: Double) async {
        var rig = await relaunchedAfterSettingForward(sync: false, day: 29)
        await rig.store.settled()
        let renewal = Statements.transaction("3", original: "1", from: 30, until: 60, signed: 29.5, renewal: true)
        rig = await rig.relaunched(
            device: ScriptedStore { $0.current = [renewal] }, clock: ManualClock(day: 29.5 + age))
        await rig.launch()
        await rig.waitUntilGives()
    }
}
