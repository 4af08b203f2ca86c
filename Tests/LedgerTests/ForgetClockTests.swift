import EntitlementCore
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Ledger

@Suite("When somebody was forgotten", .timeLimit(.minutes(1)))
struct ForgetClockTests {
    @Test("forgetting is dated when it is the log's turn, and not when it began to wait for it")
    func waiting() async throws {
        let begin = Timestamp(milliseconds: Int64(1_800_000_000_000))
        let clock = Mutex(begin)
        let ledger = try await TestLedger(now: { clock.withLock { $0 } })
        _ = try await ledger.writer.append(.grant("first", of: "pro", to: "ann"))
        let ann = try #require(CustomerID("ann"))
        let forgetter = Forgetter(
            pool: PostgresPool(ledger.database.ownerConninfo), now: { clock.withLock { $0 } })
        let forgetting = try await ledger.database.owner().run { connection in
            try connection.transaction { connection in
                _ = try connection.query("SELECT FROM ledger_head FOR UPDATE")
                let forgetting = Task { try await forgetter.forget(ann) }
                var isWaiting = false
                while !isWaiting {
                    _ = try connection.query("SELECT pg_sleep(0.01)")
                    isWaiting = try connection.query("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
                        .row(0).bool(0)
                }
                clock.withLock { $0 = begin.adding(milliseconds: 60_000) }
                return forgetting
            }
        }
        let position = try #require(try await forgetting.value?.positions.first)
        let event = try #require(try await ledger.reader.event(at: position)).event
        #expect(event.record.recordedAt == begin.adding(milliseconds: 60_000))
    }
}
