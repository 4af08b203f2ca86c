import OutgoingHTTP
import Testing

@testable import Service

@Suite("Outages that are waited out")
struct OutageTests {
    private static let start = ContinuousClock.now
    private static let backoff = Backoff(first: .seconds(5), longest: .seconds(30))

    @Test("pauses grow to a limit, until patience is over since the first failure")
    func growing() {
        var outage = Outage(patience: .seconds(100), Self.backoff)
        let instants = [0, 5, 15, 35, 65, 99]
        let pauses = instants.map { outage.pause(at: Self.start + .seconds($0)) }
        #expect(pauses == [5, 10, 20, 30, 30, 30].map { Duration.seconds($0) })
        #expect(outage.pause(at: Self.start + .seconds(100)) == nil)
        #expect(outage.pause(at: Self.start + .seconds(1000)) == nil)
    }

    @Test("a server that says when it wants to be asked is left alone until then, and patience begins anew")
    func wish() {
        var outage = Outage(patience: .seconds(100), Self.backoff)
        #expect(outage.pause(at: Self.start) == .seconds(5))
        #expect(outage.pause(at: Self.start + .seconds(90), wish: .seconds(600)) == .seconds(600))
        #expect(outage.pause(at: Self.start + .seconds(690)) == .seconds(20))
        #expect(outage.pause(at: Self.start + .seconds(789)) == .seconds(30))
        #expect(outage.pause(at: Self.start + .seconds(790)) == nil)
    }

    @Test("a wish that is shorter than the pause counts for nothing, and one of days for an hour")
    func oddWishes() {
        var outage = Outage(patience: .seconds(100), Self.backoff)
        #expect(outage.pause(at: Self.start, wish: .seconds(1)) == .seconds(5))
        #expect(outage.pause(at: Self.start, wish: .seconds(-60)) == .seconds(10))
        #expect(outage.pause(at: Self.start, wish: .seconds(86_400)) == .seconds(3600))
    }
}
