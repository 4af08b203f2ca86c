import EntitlementCore
import Ledger
import Synchronization
import Testing

@testable import Service

@Suite("Clocks that were wrong", .timeLimit(.minutes(1)))
struct ClockWatchTests {
    private static let now = Timestamp(milliseconds: Int64(1_800_000_000_000))

    /// What a service says of a log whose last event is dated so many milliseconds after the present.
    private func said(ofAhead ahead: Int64) async throws -> (log: [String], metrics: String) {
        let (log, metrics) = (LogKeeper(), Metrics(version: "1", foldVersion: 1))
        let (asked, asking) = AsyncStream<Void>.makeStream()
        let watch = ClockWatch(
            LedgerClock({ Self.now }, elapsed: { 0 }), metrics: metrics,
            logger: Logger(level: .info, now: { Self.now }, sink: { log.keep($0) })
        ) {
            asking.yield()
            return Self.now.adding(milliseconds: ahead)
        } compare: {
        }
        let task = Task { await watch.run() }
        // A round that is under way is brought to its end.
        for await _ in asked { break }
        task.cancel()
        await task.value
        return (log.lines, metrics.text(isDatabaseUp: true))
    }

    @Test("a clock that is set is compared at once, and not only when it is due")
    func clockSet() async {
        let step = Atomic<Int64>(0)
        let clock = LedgerClock(
            { Self.now.adding(milliseconds: step.load(ordering: .relaxed)) }, elapsed: { 0 })
        let (compared, comparing) = AsyncStream<Void>.makeStream()
        let watch = ClockWatch(
            clock, metrics: Metrics(version: "1", foldVersion: 1),
            logger: Logger(level: .info, now: { Self.now }, sink: { _ in })
        ) {
            Self.now
        } compare: {
            comparing.yield()
        }
        let start = ContinuousClock.now
        let task = Task { await watch.run() }
        var comparisons = compared.makeAsyncIterator()
        for _ in 0..<4 {
            _ = await comparisons.next()
            step.add(-3_600_000, ordering: .relaxed)
        }
        // Three regular pauses would be half a minute.
        #expect(start.duration(to: .now) < .seconds(25))
        task.cancel()
        await task.value
    }

    @Test("a log whose last event is dated ahead of the clock is an error and a figure; up to 5 s it is neither")
    func logAhead() async throws {
        let hour = try await said(ofAhead: 3_600_000)
        #expect(hour.log.count == 1, "\(hour.log)")
        #expect(hour.log.first?.contains("dated after the clock") == true && hour.log.first?.contains("3600") == true)
        #expect(hour.metrics.contains("\nrightful_log_ahead_seconds 3600.0\n"), "\(hour.metrics)")
        for none in [5_000, 0, -3_600_000] as [Int64] {
            let usual = try await said(ofAhead: none)
            #expect(usual.log.isEmpty, "\(usual.log)")
            #expect(usual.metrics.contains("\nrightful_log_ahead_seconds 0.0\n"), "\(usual.metrics)")
        }
    }
}
