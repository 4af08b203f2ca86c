import Testing

@testable import rightful

@Suite("Signals")
struct FirstSignalTests {
    @Test("what comes right after the first is the same wish, and what comes later another")
    func distance() {
        let (first, start) = (FirstSignal(), ContinuousClock.now)
        #expect(!first.isLongAgo(at: start))
        #expect(!first.isLongAgo(at: start + .milliseconds(20)))
        #expect(!first.isLongAgo(at: start + FirstSignal.leastDistance - .milliseconds(1)))
        #expect(first.isLongAgo(at: start + FirstSignal.leastDistance))
    }
}
