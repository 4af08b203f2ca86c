import EntitlementCore
import Ledger
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
            LedgerClock { Self.now }, metrics: metrics,
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
