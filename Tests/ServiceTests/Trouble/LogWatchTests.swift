import EntitlementCore
import Ledger
import Testing

@testable import Service

@Suite("A log without its end", .timeLimit(.minutes(1)))
struct LogWatchTests {
    @Test("what the log has lost is an error and a count; as long as it has lost nothing the count is shown as 0")
    func said() async throws {
        for lost in [nil, LostEnd(known: EventMark(position: 445, hash: .zero), head: .none)] {
            let (log, metrics) = (LogKeeper(), Metrics(version: "1", foldVersion: 1))
            let (asked, asking) = AsyncStream<Void>.makeStream()
            let watch = LogWatch(
                metrics: metrics,
                logger: Logger(level: .info, now: { Timestamp.earliest }, sink: { log.keep($0) })
            ) {
                asking.yield()
                return lost
            }
            let task = Task { await watch.run() }
            // A round that is under way is brought to its end.
            for await _ in asked { break }
            task.cancel()
            await task.value
            #expect(log.lines.count == (lost == nil ? 0 : 1), "\(log.lines)")
            #expect(log.lines.allSatisfy { $0.contains(#""known_position":445"#) }, "\(log.lines)")
            let count = metrics.text(isDatabaseUp: true).contains(
                "\nrightful_log_lost_ends_total \(lost == nil ? 0 : 1)\n")
            #expect(count)
        }
    }
}
