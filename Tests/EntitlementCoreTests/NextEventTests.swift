import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("What the store has to say next")
struct NextEventTests {
    private let bought = subscription("1", from: 0, to: 30)

    private func next(_ statements: Statement...) -> NextEvent? { OriginalState(statements).nextEvent }

    @Test("a period's end is expected, renewed or not, until the store has spoken after it")
    func periodEnd() {
        #expect(next(bought) == NextEvent(.periodEnd, at: day(30)))
        #expect(next(bought, renewalInfo(signed: 3, renews: false)) == NextEvent(.periodEnd, at: day(30)))
        #expect(
            next(bought, subscription("2", from: 30, to: 60, .renewal)) == NextEvent(.periodEnd, at: day(60)))
        #expect(next(bought, renewalInfo(signed: 30, renews: false)) == nil, "it was said to have expired")
        #expect(next(bought, renewalInfo(signed: 29.9, renews: false)) == NextEvent(.periodEnd, at: day(30)))
        // What was said of an earlier period says nothing of this one.
        #expect(
            next(bought, renewalInfo(signed: 29, retry: true), subscription("2", from: 32, to: 62, .renewal))
                == NextEvent(.periodEnd, at: day(62)))
    }

    @Test("a renewal that nobody told is expected on, where the store says after the end that it renews")
    func saidToRenew() {
        let late = renewalInfo(signed: 33, renews: true)
        #expect(next(bought, late) == NextEvent(.periodEnd, at: day(30)))
        #expect(next(bought, renewalInfo(signed: 31, retry: true), late) == NextEvent(.periodEnd, at: day(30)))
        #expect(
            next(bought, late, subscription("2", from: 31, to: 61, .renewal)) == NextEvent(.periodEnd, at: day(61)))
        #expect(next(bought, late, renewalInfo(signed: 34, renews: false)) == nil)
        #expect(next(bought, renewalInfo(signed: 33, renews: true, intent: 2)) == nil, "what has ended says why")
    }

    @Test("after a failed charge the end of grace is expected, and then of the sixty days")
    func billing() {
        #expect(next(bought, renewalInfo(signed: 30, graceEnd: 46)) == NextEvent(.graceEnd, at: day(46)))
        #expect(
            next(bought, renewalInfo(signed: 30, graceEnd: 46, retry: true), renewalInfo(signed: 46, retry: true))
                == NextEvent(.retryEnd, at: day(90)))
        #expect(next(bought, renewalInfo(signed: 31, retry: true)) == NextEvent(.retryEnd, at: day(90)))
        #expect(next(bought, renewalInfo(signed: 31, retry: true), renewalInfo(signed: 90)) == nil)
        #expect(next(bought, renewalInfo(signed: 31, retry: true), renewalInfo(signed: 50)) == nil, "given up")
    }

    @Test("what was taken back is expected to be renewed at its end where the store has said so since, once")
    func takenBack() {
        let refunded = subscription("1", from: 0, to: 30, signed: 10, revoked: 10)
        let on = renewalInfo(signed: 10, renews: true)
        #expect(next(refunded, on) == NextEvent(.periodEnd, at: day(30)))
        #expect(next(refunded, renewalInfo(signed: 9, renews: true)) == nil, "said before")
        #expect(next(refunded, on, renewalInfo(signed: 11, renews: false)) == nil)
        #expect(next(refunded, on, renewalInfo(signed: 31, renews: true)) == nil)
    }

    @Test("nothing is expected of what was taken back and not said to renew, or does not run out")
    func nothing() {
        #expect(next(subscription("1", from: 0, to: 30, signed: 10, revoked: 10)) == nil)
        #expect(next(oneTime("1", "life", .nonConsumable, at: 0)) == nil)
        #expect(next(oneTime("1", "coins", .consumable, at: 0)) == nil)
        #expect(next(oneTime("1", "season", .nonRenewing, at: 0)) == nil)
        #expect(OriginalState().nextEvent == nil)
    }

    @Test("an upgrade that is announced is expected at once")
    func upgrade() {
        #expect(
            next(subscription("1", from: 0, to: 30, signed: 12, upgraded: true)) == NextEvent(.periodEnd, at: day(12)))
    }

    @Test("that a device told first does not excuse the store; what only devices told is predicted from them")
    func devices() {
        let renewed = subscription("2", from: 30, to: 60, .renewal)
        #expect(next(bought, renewed.fromDevice) == NextEvent(.periodEnd, at: day(30)))
        #expect(next(bought.fromDevice, renewed.fromDevice) == NextEvent(.periodEnd, at: day(60)))
        #expect(next(bought, renewalInfo(signed: 31).fromDevice) == NextEvent(.periodEnd, at: day(30)))
    }

    @Test("the sandbox's clocks are its own")
    func tolerance() {
        let event = NextEvent(.periodEnd, at: day(30))
        #expect(event.overdueAt(in: .production) == day(30.25))
        #expect(event.overdueAt(in: .sandbox) == day(30 + 1.0 / 24))
        #expect(NextEvent(.retryEnd, at: day(30)).overdueAt(in: .production) == day(33))
    }

    @Test("the store is to be asked where a device disputes a revocation, or a grace period came without its end")
    func reasons() {
        func reason(_ statements: Statement...) -> CheckReason? { OriginalState(statements).checkReason }
        let refunded = subscription("1", from: 0, to: 30, signed: 10, revoked: 10)
        let held = subscription("1", from: 0, to: 30, signed: 12).fromDevice
        #expect(reason(refunded) == nil)
        #expect(reason(refunded, held) == .disputed)
        #expect(reason(refunded, held, subscription("1", from: 0, to: 30, signed: 13)) == nil)
        #expect(reason(bought, renewalInfo(signed: 30, labelledGrace: true)) == .graceWithoutEnd)
        #expect(reason(bought, renewalInfo(signed: 30, graceEnd: 40, labelledGrace: true)) == nil)
        #expect(
            reason(bought, renewalInfo(signed: 30, labelledGrace: true), renewalInfo(signed: 31, graceEnd: 40)) == nil)
        #expect(
            reason(
                bought, renewalInfo(signed: 30, labelledGrace: true), subscription("2", from: 31, to: 61, .renewal))
                == nil)
    }

    @Test("the order in which statements come changes nothing")
    func order() {
        for seed: UInt64 in 0..<200 {
            var random = SplitMix64(seed: seed)
            let statements: [Statement] = [
                bought, bought.fromDevice, subscription("2", from: 30, to: 60, .renewal),
                subscription("2", from: 30, to: 60, signed: 44, .renewal, revoked: 40),
                subscription("2", from: 30, to: 60, signed: 45, .renewal).fromDevice,
                renewalInfo(signed: 29, retry: true),
                renewalInfo(signed: 31, labelledGrace: true), renewalInfo(signed: 61, graceEnd: 70),
                renewalInfo(signed: 90, renews: false).fromDevice,
            ].filter { _ in random.chance(60) }
            let states = [statements, statements.shuffled(using: &random), statements + statements.reversed()]
                .map { OriginalState($0) }
            #expect(
                Set(states.map(\.nextEvent)).count == 1 && Set(states.map(\.checkReason)).count == 1, "seed \(seed)")
        }
    }
}

@Suite("What the store's own answers add")
struct StoreNewsTests {
    private func state(_ statements: Statement...) -> OriginalState { OriginalState(statements) }

    private func learns(_ state: OriginalState, _ statement: Statement) -> Bool {
        switch statement {
        case .transaction(let fact, _): state.learns(fromStore: fact)
        case .renewal(let fact, _): state.learns(fromStore: fact)
        }
    }

    private let bought = subscription("1", from: 0, to: 30)

    @Test("the same content signed anew is no news, any change is")
    func transactions() {
        let known = state(bought)
        #expect(!learns(known, bought))
        #expect(!learns(known, subscription("1", from: 0, to: 30, signed: 20)))
        #expect(learns(known, subscription("1", from: 0, to: 37, signed: 20)), "it was extended")
        #expect(learns(known, subscription("1", from: 0, to: 30, signed: 20, revoked: 19)))
        #expect(learns(known, subscription("2", from: 30, to: 60, .renewal)))
        #expect(!learns(known, subscription("1", from: 0, to: 37, signed: -1)), "it lost already")
    }

    @Test("where a device spoke last, the store's own word settles it, whatever it says")
    func deviceSpokeLast() {
        let disputed = state(
            subscription("1", from: 0, to: 30, signed: 10, revoked: 10),
            subscription("1", from: 0, to: 30, signed: 12).fromDevice)
        #expect(learns(disputed, subscription("1", from: 0, to: 30, signed: 20, revoked: 10)))
        #expect(learns(disputed, subscription("1", from: 0, to: 30, signed: 20)))
    }

    @Test("renewal information is news where it differs from what was said before it, or settles what was expected")
    func renewals() {
        let known = state(
            bought, renewalInfo(signed: 1, renews: true), renewalInfo(signed: 1.2, renews: false))
        #expect(!learns(known, renewalInfo(signed: 2, renews: false)))
        #expect(learns(known, renewalInfo(signed: 1.3, renews: true)), "switched on again, on the same day")
        #expect(learns(known, renewalInfo(signed: 31, renews: false)), "now it is known to have expired")
        let on = state(bought, renewalInfo(signed: 1, renews: true))
        #expect(!learns(on, renewalInfo(signed: 31, renews: true)), "the renewal is still to be told")
        let settled = state(bought, renewalInfo(signed: 31, renews: false))
        #expect(!learns(settled, renewalInfo(signed: 32, renews: false)))
        // It would read as given up, and was said to be in grace.
        let halfTold = state(bought, renewalInfo(signed: 30, labelledGrace: true))
        #expect(!learns(halfTold, renewalInfo(signed: 31)))
        #expect(
            learns(halfTold, renewalInfo(signed: 31, graceEnd: 46))
                && learns(halfTold, renewalInfo(signed: 31, retry: true)))
    }
}
