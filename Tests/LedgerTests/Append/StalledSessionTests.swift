import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// A machine that vanished, or a program that stopped, with a statement half sent.
@Suite("Sessions that stall with rows locked", .timeLimit(.minutes(2)))
struct StalledSessionTests {
    private static let now = Timestamp(milliseconds: Int64(1_800_000_000_000))

    private static func impatient() -> SkippedRows {
        SkippedRows(patience: .milliseconds(500), stalledFor: .milliseconds(200))
    }

    /// Tries until it succeeds or ten seconds are over.
    private static func succeeds(_ attempt: () async throws -> Bool) async throws -> Bool {
        let start = ContinuousClock.now
        while start.duration(to: .now) < .seconds(10) {
            if try await attempt() { return true }
            try await Task.sleep(for: .milliseconds(50))
        }
        return false
    }

    @Test("a projection that is skipped and does not get on is taken from a session that stalled, and from no other")
    func projection() async throws {
        let ledger = try await TestLedger()
        let projector = WebhookProjector(
            pool: ledger.pool, skipped: Self.impatient(), teller: NoTeller(), showDrift: { _ in [] }, show: { _ in [] })
        _ = try await ledger.writer.append(.grant("first", of: "pro", to: "ann"))
        while try await projector.step(now: { Self.now }).isUnfinished {}
        _ = try await ledger.writer.append(.grant("second", of: "pro", to: "ann"))
        let lock = "SELECT FROM projection WHERE name = 'webhook' FOR UPDATE"
        // It is idle in its transaction, which has a limit of its own.
        let slow = try await PostgresConnection.connect(ledger.database.serveConninfo)
        try await slow.execute(script: "BEGIN; \(lock)")
        for _ in 0..<15 {
            #expect(try await projector.step(now: { Self.now }) == .elsewhere)
            try await Task.sleep(for: .milliseconds(100))
        }
        try await slow.execute(script: "COMMIT")
        let stalled = try RawSession(ledger.database.serveConninfo)
        try stalled.execute(withoutSync: ["BEGIN", lock])
        #expect(try await projector.step(now: { Self.now }) == .elsewhere)
        #expect(try await Self.succeeds { try await projector.step(now: { Self.now }) != .elsewhere })
        #expect(stalled.isEnded(within: 1000))
    }

    @Test("a follower of the log takes its row from a session that stalled")
    func follower() async throws {
        let ledger = try await TestLedger()
        let row = ProjectionRow(name: "example", version: 1)
        let follower = LogFollower(
            row, ledger.pool, doing: "trying", pageEvents: 10, former: .continued, skipped: Self.impatient())
        _ = try await ledger.writer.append(.grant("first", of: "pro", to: "ann"))
        _ = try await follower.page { _, stretch, _ in stretch.end }
        _ = try await ledger.writer.append(.grant("second", of: "pro", to: "ann"))
        let stalled = try RawSession(ledger.database.serveConninfo)
        try stalled.execute(withoutSync: ["BEGIN", "SELECT FROM projection WHERE name = 'example' FOR UPDATE"])
        #expect(try await follower.page { _, stretch, _ in stretch.end } == .elsewhere)
        #expect(try await Self.succeeds { try await follower.page { _, stretch, _ in stretch.end } != .elsewhere })
    }

    @Test("endpoints that are due and skipped are taken from a session that stalled")
    func endpoints() async throws {
        let ledger = try await TestLedger()
        try await DeliveryRegisterTests.addMessage(to: ledger)
        let stalled = try RawSession(ledger.database.serveConninfo)
        try stalled.execute(withoutSync: ["BEGIN", "SELECT FROM webhook_endpoint FOR UPDATE"])
        let register = DeliveryRegister(pool: ledger.pool, skipped: Self.impatient())
        #expect(try await register.take(limit: 1).isEmpty)
        #expect(try await Self.succeeds { try await register.take(limit: 1).count == 1 })
    }

    @Test("whoever waits for a row of any table has the session ended that holds it and stalled")
    func waiting() async throws {
        let ledger = try await TestLedger()
        try await DeliveryRegisterTests.addMessage(to: ledger)
        let stalled = try RawSession(ledger.database.serveConninfo)
        try stalled.execute(withoutSync: ["BEGIN", "UPDATE webhook_endpoint SET is_hurried = true"])
        let pool = PostgresPool(
            ledger.database.serveConninfo, options: ConnectionOptions(lockTimeoutMilliseconds: 400))
        let register = DeliveryRegister(pool: pool)
        let message = (endpoint: "we", number: Int64(1), messageID: "")
        let isDone = try await Self.succeeds {
            do {
                try await register.giveBack([message])
                return true
            } catch let error as LedgerError where error.code == .unavailable {
                return false
            }
        }
        #expect(isDone && stalled.isEnded(within: 1000))
        await pool.close()
    }

    /// Where a writer may be frozen while it copies what it appends.
    enum Freezing: CaseIterable { case firstCopyUnderLock, betweenCopies }

    @Test("whoever appends has the session of a writer ended that was frozen half-way", arguments: Freezing.allCases)
    func frozenWriter(where freezing: Freezing) async throws {
        let ledger = try await TestLedger()
        let first = try await ledger.writer.append(.grant("first", of: "pro", to: "ann")).position
        let frozen = try RawSession(ledger.database.serveConninfo)
        switch freezing {
        case .firstCopyUnderLock:
            try frozen.execute(withoutSync: ["BEGIN", "SELECT FROM ledger_head FOR UPDATE"])
            try frozen.beginCopy("COPY event FROM STDIN (FORMAT binary)")
        case .betweenCopies:
            try frozen.execute(
                withoutSync: [
                    "BEGIN",
                    """
                    INSERT INTO event SELECT (jsonb_populate_record(
                        event, jsonb_build_object('position', position + 1, 'dedup_key', NULL))).*
                    FROM event WHERE position = \(first)
                    """,
                ])
            try frozen.beginCopy("COPY evidence FROM STDIN (FORMAT binary)")
        }
        let pool = PostgresPool(
            ledger.database.serveConninfo, options: ConnectionOptions(lockTimeoutMilliseconds: 400))
        var limits = LedgerWriter.Limits()
        limits.stalledMilliseconds = 200
        let writer = LedgerWriter(pool: pool, limits: limits, now: { Self.now })
        #expect(try await writer.append(.grant("second", of: "pro", to: "ann")).position == first + 1)
        #expect(frozen.isEnded(within: 1000))
        await pool.close()
    }

    @Test("a session that copies is left alone as long as it moves, and one that holds nothing whatever it does")
    func others() async throws {
        let ledger = try await TestLedger()
        let reading = try RawSession(ledger.database.serveConninfo)
        try reading.execute(withoutSync: ["BEGIN", "SELECT FROM event"])
        let holding = try RawSession(ledger.database.serveConninfo)
        try holding.execute(withoutSync: ["BEGIN", "SELECT FROM ledger_head FOR UPDATE"])
        let copying = try RawSession(ledger.database.serveConninfo)
        try copying.beginCopy("COPY webhook_secret (ledger_id, endpoint, hash, value) FROM STDIN")
        func look(_ seen: [String]) async throws -> [String] {
            try await ledger.pool.withConnection { try StalledSessions.end(stalledFor: .zero, orStillAt: seen, on: $0) }
        }
        /// Waits until the server has read so many bytes, and waits for more.
        func isWaiting(after bytes: Int64) async throws -> Bool {
            try await Self.succeeds {
                try await ledger.pool.withConnection { connection in
                    try connection.query(
                        """
                        SELECT EXISTS (
                            SELECT FROM pg_stat_progress_copy JOIN pg_stat_activity USING (pid)
                            WHERE bytes_processed = $1 AND wait_event = 'ClientRead')
                        """, [.int(bytes)]
                    ).row(0).bool(0)
                }
            }
        }
        #expect(try await isWaiting(after: 0))
        var seen = try await look([])
        #expect(holding.isEnded(within: 1000))
        for sent in 1...3 as ClosedRange<Int64> {
            try copying.copy("1")
            #expect(try await isWaiting(after: sent))
            let next = try await look(seen)
            #expect(next.count == 1 && next != seen)
            seen = next
        }
        #expect(!copying.isEnded(within: 0) && !reading.isEnded(within: 0))
        try await ledger.pool.withConnection { try StalledSessions.end(stalledFor: .zero, on: $0) }
        #expect(copying.isEnded(within: 1000) && !reading.isEnded(within: 0))
    }
}
