import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What a database does to appends that cannot write for a while.
@Suite("Appends to a database that is out of service", .serialized, .timeLimit(.minutes(2)))
struct OutOfServiceTests {
    /// Makes inserts into the log fail, as a full disk does, and counts them.
    ///
    /// - Parameter condition: which rows, in SQL; all, where left out.
    private static func fill(
        _ owner: PostgresConnection, sqlState: String, where condition: String? = nil
    ) async throws {
        let each = condition.map { "FOR EACH ROW WHEN (\($0))" } ?? "FOR EACH STATEMENT"
        try await owner.execute(
            script: """
                CREATE SEQUENCE IF NOT EXISTS attempt;
                CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
                BEGIN
                    PERFORM nextval('attempt');
                    RAISE EXCEPTION 'could not extend the file' USING ERRCODE = '\(sqlState)';
                END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON event \(each) EXECUTE FUNCTION refuse();
                """)
    }

    @Test(
        "a full disk, failing input or output and a failover refuse a whole batch at once, and nothing is lost after",
        arguments: ["53100", "58030", "25006"])
    func refused(sqlState: String) async throws {
        let database = try await TestDatabase.make()
        let owner = try await database.owner()
        try await Self.fill(owner, sqlState: sqlState)
        let writer = Self.writer(database)
        let drafts = RandomDrafts(seed: 5, originals: 40).drafts(256)
        let errors = await withTaskGroup(of: LedgerError?.self) { group in
            for draft in drafts {
                group.addTask {
                    do {
                        _ = try await writer.append(draft)
                        return nil
                    } catch {
                        return error as? LedgerError
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(errors.allSatisfy { $0?.code == .unavailable } && errors.count == 256)
        #expect(errors.allSatisfy { $0?.isOfReadOnlyDatabase == (sqlState == "25006") })
        let attempts = try await owner.run { try $0.query("SELECT last_value FROM attempt").row(0).int(0) }
        #expect(attempts < 64, "they were tried in batches, and not again one by one")
        #expect(writer.obstacle == nil, "nothing but these was refused, as far as is known")
        let obstacle = try await writer.lookForObstacle()
        let words = sqlState == "25006" ? "only reads" : "(SQLSTATE \(sqlState))"
        #expect(obstacle?.description.contains(words) == true, "\(String(describing: obstacle))")
        #expect(writer.obstacle == obstacle)

        try await owner.execute(script: "DROP TRIGGER refuse ON event")
        for draft in drafts.prefix(3) { _ = try await writer.append(draft) }
        #expect(writer.obstacle == nil)
        #expect(try await writer.lookForObstacle() == nil)
        #expect(try await LedgerReader(pool: database.pool(), now: { .latest }).status().position > 0)
    }

    @Test(
        "whatever the database refuses everything for is an obstacle, until an event can be written again; none is added by trying",
        arguments: ["53200", "54000", "XX000", "XX002", "42501", "23514", "P0001"])
    func refusedForAnyReason(sqlState: String) async throws {
        let database = try await TestDatabase.make()
        let owner = try await database.owner()
        let writer = Self.writer(database)
        let drafts = RandomDrafts(seed: 5, originals: 4).drafts(8)
        _ = try await writer.append(drafts[0])
        let before = try await Self.rows(owner)
        try await Self.fill(owner, sqlState: sqlState)
        await #expect(throws: LedgerError.self) { try await writer.append(drafts[1]) }
        let obstacle = try #require(try await writer.lookForObstacle())
        #expect(obstacle.description.contains("(SQLSTATE \(sqlState))"), "\(obstacle)")
        #expect(obstacle.description.contains("nothing can be recorded"), "\(obstacle)")
        let error = await #expect(throws: LedgerError.self) { try await writer.append(drafts[1]) }
        #expect(error?.code == .unavailable || error?.code == .schema, "it will do later: \(String(describing: error))")
        #expect(try await writer.append(drafts[0]).isDuplicate, "what is there needs nothing to be written")
        #expect(writer.obstacle == obstacle, "and so shows nothing")

        try await owner.execute(script: "DROP TRIGGER refuse ON event")
        // By itself, though nobody appends.
        while try await writer.lookForObstacle() != nil { try await Task.sleep(for: .milliseconds(50)) }
        #expect(try await Self.rows(owner) == before)
        #expect(try await !writer.append(drafts[1]).isDuplicate)
    }

    @Test("what is refused because of itself keeps nothing else from being recorded, and is no obstacle")
    func refusedForItself() async throws {
        let database = try await TestDatabase.make()
        let owner = try await database.owner()
        try await Self.fill(owner, sqlState: "22021", where: "NEW.type = 'granted'")
        let writer = Self.writer(database)
        let error = await #expect(throws: LedgerError.self) {
            try await writer.append(.grant("refused", of: "pro", to: "ann"))
        }
        #expect(error?.code == .invalid)
        #expect(try await writer.lookForObstacle() == nil)
        #expect(writer.obstacle == nil)
        _ = try await writer.append(RandomDrafts(seed: 5, originals: 1).drafts(1)[0])
    }

    /// One that is sure at the first trial.
    private static func writer(_ database: TestDatabase) -> LedgerWriter {
        var limits = LedgerWriter.Limits()
        limits.refusalPatience = .zero
        return LedgerWriter(pool: database.pool(), limits: limits, now: { .earliest })
    }

    /// How much the tables hold to which appends add.
    private static func rows(_ owner: PostgresConnection) async throws -> [Int64] {
        try await owner.run { connection in
            try ["event", "event_name", "evidence", "identity", "jws_header", "command_key"].map { table in
                try connection.query("SELECT count(*) FROM \(table)").row(0).int(0)
            } + [try connection.query("SELECT position FROM ledger_head").row(0).int(0)]
        }
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
