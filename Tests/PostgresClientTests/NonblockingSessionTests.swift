import Glibc
import PostgresClient
import Testing

@Suite("Sessions that never wait")
struct NonblockingSessionTests {
    private static func open(_ sql: String, _ parameters: [PostgresValue]) async throws -> NonblockingSession {
        try await PostgresPool(TestDatabase.conninfo())
            .openNonblockingSession(preparing: [PostgresStatement(sql, parameters)])
    }

    /// Waits as an event loop does, for at most 20 s.
    private static func result(of session: NonblockingSession) async throws -> PostgresResult? {
        for _ in 0..<4000 {
            if let result = try session.receive() { return result }
            try await Task.sleep(for: .milliseconds(5))
        }
        return nil
    }

    @Test("a statement is sent again and again, and its result comes when it is there")
    func again() async throws {
        let session = try await Self.open(
            "SELECT $1 + n, pg_sleep(0.02) FROM generate_series(1, $2) AS n", [.int(0), .int(0)])
        for round in 0..<20 as Range<Int64> {
            #expect(!session.isUnderWay)
            try session.send(0, [.int(round), .int(2)])
            #expect(session.isUnderWay)
            let early = try session.receive()
            #expect(early == nil)
            let result = try #require(try await Self.result(of: session))
            #expect(try result.rows.map { try $0.int(0) } == [round + 1, round + 2])
        }
        let idle = try session.receive()
        #expect(idle == nil)
    }

    @Test("of several statements each is sent by its index, and the session tells which was sent last")
    func several() async throws {
        let session = try await PostgresPool(TestDatabase.conninfo()).openNonblockingSession(
            preparing: [
                PostgresStatement("SELECT $1 + 1", [.int(0)]),
                PostgresStatement("SELECT length($1)::bigint", [.text("")]),
            ])
        for _ in 0..<3 {
            try session.send(1, [.text("four")])
            #expect(try await Self.result(of: session)?.first?.int(0) == 4)
            #expect(session.lastSent == 1)
            try session.send(0, [.int(1)])
            #expect(try await Self.result(of: session)?.first?.int(0) == 2)
            #expect(session.lastSent == 0)
        }
    }

    @Test("a statement that cannot be prepared, and one that fails, are errors of their own kind")
    func errors() async throws {
        await #expect(throws: PostgresError.self) { try await Self.open("SELECT nonsense", []) }
        let session = try await Self.open("SELECT 1 / $1", [.int(0)])
        try session.send(0, [.int(0)])
        let error = await #expect(throws: PostgresError.self) { try await Self.result(of: session) }
        #expect(error?.sqlState == "22012")
    }

    @Test(
        "a session that was ended by the server says so, whether a statement is under way or not",
        arguments: [true, false])
    func ended(isUnderWay: Bool) async throws {
        let session = try await Self.open("SELECT pg_backend_pid()::bigint, pg_sleep($1::bigint)", [.int(0)])
        try session.send(0, [.int(0)])
        let process = try #require(try await Self.result(of: session)?.first?.int(0))
        if isUnderWay { try session.send(0, [.int(60)]) }
        let other = try await TestDatabase.connect()
        try await other.run { _ = try $0.query("SELECT pg_terminate_backend($1::integer)", [.int(process)]) }
        await #expect(throws: PostgresError.self) {
            for _ in 0..<4000 {
                _ = try session.receive()
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }
}
