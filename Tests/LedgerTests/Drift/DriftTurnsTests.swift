import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Differences, while another process is at them", .timeLimit(.minutes(2)))
struct DriftTurnsTests {
    @Test("who has patience waits for the other, who has none returns at once")
    func patience() async throws {
        let ledger = try await TestLedger()
        let drafts = RandomDrafts(seed: 3, originals: 3).drafts(10)
        let projector = DriftProjector(pool: ledger.pool)
        func readTo() async throws -> Int64 {
            try await DriftRegister(pool: ledger.pool).page(DriftQuery(.production)).readTo
        }
        for draft in drafts.prefix(5) { _ = try await ledger.writer.append(draft) }
        try await projector.catchUp()
        let begun = try await readTo()
        for draft in drafts.dropFirst(5) { _ = try await ledger.writer.append(draft) }
        let head = try await ledger.reader.status().position
        let other = try await Self.atIt(ledger.database)
        try await projector.catchUp(isHurried: true)
        #expect(try await readTo() == begun && begun < head)
        async let waited: Void = projector.catchUp(isHurried: true, patience: .seconds(60))
        try await Task.sleep(for: .milliseconds(50))
        try await other.execute(script: "COMMIT")
        try await waited
        #expect(try await readTo() == head)
    }

    @Test("who begins anew waits until the other's page is written, and deletes that too")
    func reset() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(RandomDrafts(seed: 3, originals: 3).drafts(1)[0])
        let projector = DriftProjector(pool: ledger.pool)
        try await projector.catchUp()
        let other = try await Self.atIt(ledger.database)
        async let resetting: Void = projector.reset()
        try await ledger.database.untilASessionWaits()
        try await other.execute(
            script: """
                INSERT INTO drift_stream (ledger_id, app, environment, since) VALUES (1, 'com.example', 1, now());
                COMMIT
                """)
        try await resetting
        #expect(try await ledger.database.owner().query("SELECT FROM drift_stream").isEmpty)
    }

    /// Another process in the midst of a page.
    private static func atIt(_ database: TestDatabase) async throws -> PostgresConnection {
        let other = try await database.owner()
        try await other.execute(script: "BEGIN; SELECT FROM projection WHERE name = 'drift' FOR UPDATE")
        return other
    }
}
