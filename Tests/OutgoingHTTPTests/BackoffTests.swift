import Testing

@testable import OutgoingHTTP

@Suite("Pauses between attempts")
struct BackoffTests {
    private static let backoff = Backoff(first: .milliseconds(500), longest: .seconds(30))

    @Test("they double, up to the longest, however often it failed")
    func doubled() {
        let pauses = (1...8).map { Self.backoff.pause(after: $0) }
        #expect(pauses == [0.5, 1, 2, 4, 8, 16, 30, 30].map { Duration.seconds($0) })
        #expect(Self.backoff.pause(after: .max) == .seconds(30))
        #expect(Self.backoff.pause(after: 0) == .milliseconds(500))
    }

    @Test("by chance up to half of one is left out")
    func chance() {
        #expect(Self.backoff.pause(after: 2, fraction: 0) == .milliseconds(500))
        #expect(Self.backoff.pause(after: 2, fraction: 0.5) == .milliseconds(750))
        #expect(Self.backoff.pause(after: 2, fraction: 1) == .seconds(1))
    }
}
