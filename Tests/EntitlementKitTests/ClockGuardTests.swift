import EntitlementCore
import Testing

@testable import EntitlementKit

@Suite("Kit: ClockGuard")
struct ClockGuardTests {
    private func at(_ minutes: Int64) -> Timestamp {
        Timestamp(milliseconds: Statements.start).adding(milliseconds: minutes * 60_000)
    }

    @Test("a clock set back continues from the latest time it showed, also in the next process")
    func setBack() {
        var clock = ClockGuard()
        let answer1 = clock.remember(wall: at(100), uptime: 0)
        #expect(answer1)
        #expect(clock.now(wall: at(10), uptime: 0) == at(100))
        var next = ClockGuard()
        next.restore(clock, uptime: 0)
        #expect(next.now(wall: at(10), uptime: 0) == at(100))
        #expect(next.now(wall: at(200), uptime: 0) == at(200))
    }

    @Test("behind a clock that was set back time goes on all the same, from what is known to have passed")
    func goesOn() {
        var kept = ClockGuard()
        _ = kept.remember(wall: at(100), uptime: 0)
        let later: Int64 = 10 * 60_000
        var clock = ClockGuard()
        clock.restore(kept, uptime: 60_000)
        #expect(clock.now(wall: at(10), uptime: 60_000 + later) == at(110))
        clock.witness(signed: at(90), told: nil, uptime: 60_000 + later)
        #expect(clock.now(wall: at(10), uptime: 60_000 + later) == at(110))
        clock.witness(signed: at(200), told: nil, uptime: 60_000 + later)
        #expect(clock.now(wall: at(10), uptime: 60_000 + 2 * later) == at(210))
        // As soon as what the clock said is known to have been wrong, nothing follows from it any more.
        var wrong = ClockGuard()
        wrong.restore(kept, uptime: 0)
        wrong.saw(signedDate: at(20), wall: at(20), uptime: later)
        #expect(wrong.now(wall: at(20), uptime: later) == at(20))
        #expect(wrong.now(wall: at(0), uptime: 2 * later) == at(30))
        // Also where the clock has come to what it said then, and time by that is ahead.
        var ahead = ClockGuard()
        ahead.restore(kept, uptime: 0)
        #expect(ahead.now(wall: at(105), uptime: later) == at(110))
        ahead.saw(signedDate: at(105), wall: at(105), uptime: later)
        #expect(ahead.now(wall: at(105), uptime: later) == at(105))
        var returned = ClockGuard()
        _ = returned.remember(wall: at(0), uptime: 0)
        _ = returned.remember(wall: at(60), uptime: 0)
        let isHealed = returned.remember(wall: at(125), uptime: 125 * 60_000)
        #expect(isHealed && returned.now(wall: at(125), uptime: 125 * 60_000) == at(125))
    }

    @Test("behind a clock that was set back, what passes in one process counts in the next")
    func addsUp() {
        var kept = ClockGuard()
        _ = kept.remember(wall: at(100), uptime: 0)
        let later: Int64 = 50 * 60_000
        for _ in 0..<3 {
            var clock = ClockGuard()
            clock.restore(kept, uptime: 0)
            let isWorthKeeping = clock.remember(wall: at(10), uptime: later)
            #expect(isWorthKeeping)
            kept = clock
        }
        #expect(kept.now(wall: at(10), uptime: later) == at(250))
    }

    @Test("behind what the store has signed, the time goes on when the server's clock has come to it")
    func standsStill() {
        var clock = ClockGuard()
        clock.heard(at(100), sent: 0, uptime: 0)
        clock.saw(signedDate: at(110), wall: at(110), uptime: 0)
        #expect(clock.now(wall: at(110), uptime: 60_000) == at(110))
        #expect(clock.wait(until: at(111), wall: at(110), uptime: 60_000) == 10 * 60_000)
    }

    @Test("the time is never before a signed date of the store")
    func signed() {
        var clock = ClockGuard()
        clock.saw(signedDate: at(50), wall: at(10), uptime: 0)
        clock.saw(signedDate: at(40), wall: at(10), uptime: 0)
        #expect(clock.now(wall: at(10), uptime: 0) == at(50))
    }

    @Test("after an answer of the server a change of the calendar clock has no effect")
    func anchored() {
        var clock = ClockGuard()
        clock.heard(at(100), sent: 5_000, uptime: 5_000)
        for wall in [at(-1_000_000), at(100), at(1_000_000)] {
            #expect(clock.now(wall: wall, uptime: 5_000 + 60_000) == at(101))
        }
    }

    @Test("an answer of the server corrects a clock that was set forward")
    func setForward() {
        var clock = ClockGuard()
        let answer2 = clock.remember(wall: at(1_000_000), uptime: 0)
        #expect(answer2)
        #expect(clock.now(wall: at(10), uptime: 0) == at(1_000_000))
        clock.heard(at(10), sent: 0, uptime: 0)
        var next = ClockGuard()
        next.restore(clock, uptime: 0)
        #expect(next.now(wall: at(11), uptime: 0) == at(11))
    }

    @Test("a slow answer does not set the time back; a corrected clock of the server does")
    func slowAnswer() {
        var clock = ClockGuard()
        clock.heard(at(100), sent: 0, uptime: 0)
        // An hour under way, as where the device slept meanwhile.
        let hour: Int64 = 3_600_000
        clock.heard(at(101), sent: 0, uptime: hour)
        #expect(clock.now(wall: at(0), uptime: hour) == at(160))
        clock.heard(at(50), sent: hour, uptime: hour)
        #expect(clock.now(wall: at(0), uptime: hour) == at(50))
    }

    @Test(
        "a clock that was set forward and back while the process ran is right again, and one that was set back is not")
    func forwardAndBack() {
        var clock = ClockGuard()
        _ = clock.remember(wall: at(0), uptime: 0)
        _ = clock.remember(wall: at(1_000_000), uptime: 60_000)
        #expect(clock.now(wall: at(1_000_000), uptime: 60_000) == at(1_000_000))
        // Somebody sets it back, and not to where it belongs.
        let isHealed = clock.remember(wall: at(-500), uptime: 120_000)
        #expect(!isHealed && clock.now(wall: at(-500), uptime: 120_000) == at(1_000_001))
        let isWorthKeeping = clock.remember(wall: at(3), uptime: 180_000)
        #expect(isWorthKeeping && clock.now(wall: at(3), uptime: 180_000) == at(3))
    }

    @Test("a clock that was set forward is believed again when it agrees with what the store has signed since")
    func freshSignature() {
        var kept = ClockGuard()
        _ = kept.remember(wall: at(1_000_000), uptime: 0)
        var clock = ClockGuard()
        clock.restore(kept, uptime: 0)
        _ = clock.remember(wall: at(10_000), uptime: 0)
        #expect(clock.now(wall: at(10_000), uptime: 0) == at(1_000_000))
        // What was signed long ago proves nothing, nor does what is known.
        clock.saw(signedDate: at(5_000), wall: at(10_000), uptime: 0)
        clock.saw(signedDate: at(5_000), wall: at(5_001), uptime: 0)
        #expect(clock.now(wall: at(10_000), uptime: 0) == at(1_000_000))
        // What was signed the day before does.
        clock.saw(signedDate: at(8_500), wall: at(10_000), uptime: 0)
        #expect(clock.now(wall: at(10_000), uptime: 0) == at(10_000))
    }

    @Test("time that passes within a process is proven by uptime, and worth keeping only by the minute")
    func remembers() {
        var clock = ClockGuard()
        clock.heard(at(100), sent: 0, uptime: 0)
        let answer3 = clock.remember(wall: at(0), uptime: 59_000)
        #expect(!answer3)
        let answer4 = clock.remember(wall: at(0), uptime: 120_000)
        #expect(answer4)
        var next = ClockGuard()
        next.restore(clock, uptime: 0)
        #expect(next.now(wall: at(0), uptime: 0) == at(102))
    }
}
