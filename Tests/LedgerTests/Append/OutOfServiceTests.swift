import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What a database does to appends that cannot write for a while.
@Suite("Appends to a database that is out of service", .serialized, .timeLimit(.minutes(2)))
struct OutOfServiceTests {
    /// Makes every insert into the log fail, as a full disk does, and counts them.
    private static func fill(_ owner: PostgresConnection, sqlState: String) async throws {
        try await owner.execute(
            script: """
                CREATE SEQUENCE IF NOT EXISTS attempt;
                CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
                BEGIN
                    PERFORM nextval('attempt');
                    RAISE EXCEPTION 'could not extend the file' USING ERRCODE = '\(sqlState)';
                END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse();
                """)
    }

    @Test(
        "a full disk, failing input or output and a failover refuse a whole batch at once, and nothing is lost after",
        arguments: ["53100", "58030", "25006"])
    func refused(sqlState: String) async throws {
        let database = try await TestDatabase.make()
        let owner = try await database.owner()
        try await Self.fill(owner, sqlState: sqlState)
        let writer = LedgerWriter(pool: database.pool(), now: { .earliest })
        let drafts = RandomDrafts(seed: 5, originals: 40).drafts(256)
        let codes = await withTaskGroup(of: LedgerError.Code?.self) { group in
            for draft in drafts {
                group.addTask {
                    do {
                        _ = try await writer.append(draft)
                        return nil
                    } catch {
                        return (error as? LedgerError)?.code
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(codes == Array(repeating: .unavailable, count: 256))
        let attempts = try await owner.run { try $0.query("SELECT last_value FROM attempt").row(0).int(0) }
        #expect(attempts < 64, "they were tried in batches, and not again one by one")
        let obstacle = try await writer.lookForObstacle()
        let words = sqlState == "25006" ? "only reads" : "(SQLSTATE \(sqlState))"
        #expect(obstacle?.description.contains(words) == true, "\(String(describing: obstacle))")
        #expect(writer.holder == nil)

        try await owner.execute(script: "DROP TRIGGER refuse ON event")
        #expect(try await writer.lookForObstacle() == obstacle, "nobody has appended since")
        let another = LedgerWriter(pool: database.pool(), now: { .earliest })
        _ = try await another.append(drafts[3])
        #expect(try await writer.lookForObstacle() == nil, "another instance has")
        for draft in drafts.prefix(3) { _ = try await writer.append(draft) }
        #expect(try await writer.lookForObstacle() == nil)
        #expect(try await LedgerReader(pool: database.pool(), now: { .latest }).status().position > 0)
    }

    @Test("once the service is to stop, what fails as the connection is lost is not tried again")
    func ending() async throws {
        var limits = LedgerWriter.Limits()
        // With their pauses they would take longer than this test may.
        limits.attempts = 60
        // Nobody listens on port 1.
        let writer = LedgerWriter(
            pool: PostgresPool("postgresql://u@127.0.0.1:1/d"), limits: limits, now: { .earliest })
        let draft = RandomDrafts(seed: 5, originals: 1).drafts(1)[0]
        let begun = Task { try await writer.append(draft) }
        writer.beginEnding()
        await #expect(throws: LedgerError.self) { try await writer.append(draft) }
        await #expect(throws: LedgerError.self) { try await begun.value }
        await writer.drain()
    }
}
