import Glibc
import PostgresClient
import Synchronization
import Testing

/// What happens when the server says nothing any more: its process is stopped, as by a failing disk or a frozen machine.
@Suite("A server that is frozen, or cannot write", .serialized, .timeLimit(.minutes(2)))
struct FrozenServerTests {
    /// The server may be silent for 0.4 s.
    private static let options = ConnectionOptions(statementTimeoutMilliseconds: 200, graceMilliseconds: 200)

    /// What freezes in which call.
    enum Call: String, CaseIterable, Sendable {
        case query, script, pipeline, copy, commit
    }

    @Test("every call gives up, over a Unix socket too, and the connection is not used again", arguments: Call.allCases)
    func frozen(call: Call) async throws {
        let pool = PostgresPool(
            try TestDatabase.conninfo(), options: Self.options, limits: PostgresPool.Limits(connections: 1))
        let process = Process()
        defer { process.thaw() }
        let start = ContinuousClock.now
        let error = await #expect(throws: PostgresError.self) {
            try await pool.withConnection { connection in
                try connection.execute(script: "CREATE TEMPORARY TABLE item (number bigint)")
                let freeze = { process.freeze(connection.serverProcessID) }
                switch call {
                case .query:
                    freeze()
                    _ = try connection.query("SELECT 1")
                case .script:
                    freeze()
                    try connection.execute(script: "SELECT 1")
                case .pipeline:
                    freeze()
                    _ = try connection.pipeline([PostgresStatement("SELECT 1"), PostgresStatement("SELECT 2")])
                case .copy:
                    var rows = connection.makeRows(columns: 1)
                    for number in 0..<2_000_000 {
                        rows.beginRow()
                        rows.int8(Int64(number))
                    }
                    freeze()
                    try connection.copy(into: "item (number)", rows)
                case .commit:
                    try connection.transaction { connection in
                        _ = try connection.query("INSERT INTO item VALUES (1)")
                        process.freeze(connection.serverProcessID)
                    }
                }
            }
        }
        #expect(error?.kind == .connection, "\(String(describing: error))")
        #expect(start.duration(to: .now) < .seconds(10))
        let one = try await pool.withConnection { try $0.query("SELECT 1").row(0).int(0) }
        #expect(one == 1, "the next user has another connection")
        await pool.close()
    }

    @Test("whoever gets a session that froze while it was idle is told so, also by what goes on after the first error")
    func frozenWhileIdle() async throws {
        let pool = PostgresPool(
            try TestDatabase.conninfo(), options: Self.options, limits: PostgresPool.Limits(connections: 1))
        let process = Process()
        defer { process.thaw() }
        try await pool.withConnection { process.freeze($0.serverProcessID) }
        // Until then the pool would not look at the session's plans before it lends it.
        try await Task.sleep(for: .milliseconds(1100))
        var error = await #expect(throws: PostgresError.self) {
            try await pool.withConnection { _ = try $0.query("SELECT 1") }
        }
        #expect(error?.message.contains("has said nothing") == true, "\(String(describing: error))")

        error = await #expect(throws: PostgresError.self) {
            try await pool.withConnection { connection in
                process.freeze(connection.serverProcessID)
                _ = try? connection.query("SELECT 1")
                _ = try connection.query("SELECT 2")
            }
        }
        #expect(error?.message.contains("has said nothing") == true, "\(String(describing: error))")
        await pool.close()
    }

    @Test("who stops waits for a server that says nothing once in all, whatever is asked of it one after the other")
    func lastWait() async throws {
        let lastWait = LastWait()
        var options = ConnectionOptions(statementTimeoutMilliseconds: 60_000)
        options.lastWait = lastWait
        let pool = PostgresPool(
            try TestDatabase.conninfo(), options: options, limits: PostgresPool.Limits(connections: 3))
        let process = Process()
        defer { process.thaw() }
        lastWait.begin(.seconds(2))
        lastWait.begin(.seconds(60))
        let start = ContinuousClock.now
        for _ in 0..<3 {
            await #expect(throws: PostgresError.self) {
                try await pool.withConnection { connection in
                    process.freeze(connection.serverProcessID)
                    _ = try connection.query("SELECT 1")
                }
            }
        }
        let elapsed = start.duration(to: .now)
        #expect(elapsed > .seconds(1.5) && elapsed < .seconds(10), "\(elapsed)")
        let one = try await pool.withConnection { try $0.query("SELECT 1").row(0).int(0) }
        #expect(one == 1, "a server that lives still answers")
        await pool.close()
    }

    @Test("a statement that runs long while its server lives is not taken for frozen")
    func slow() async throws {
        let connection = try await TestDatabase.connect(
            ConnectionOptions(statementTimeoutMilliseconds: 3_000, graceMilliseconds: 15_000))
        _ = try await connection.run { try $0.query("SELECT pg_sleep(2.5)") }
        let error = await #expect(throws: PostgresError.self) {
            _ = try await connection.run { try $0.query("SELECT pg_sleep(60)") }
        }
        #expect(error?.kind == .statementTimeout)
        #expect(await !connection.isBroken)
    }

    @Test(
        "a full disk, failing input or output, and a server that only reads are told apart from what is wrong with a query"
    )
    func outOfService() async throws {
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: PostgresPool.Limits(connections: 1))
        for state in ["53100", "53200", "58030", "25006"] {
            let error = await #expect(throws: PostgresError.self) {
                try await pool.withConnection {
                    try $0.execute(script: "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '\(state)'; END $$")
                }
            }
            #expect(error?.kind == .outOfService, "\(state)")
            #expect(error?.isRetryable == false)
        }
        // Timeouts by which the server ends a session.
        for state in ["25P03", "25P04", "57P05"] {
            let error = await #expect(throws: PostgresError.self) {
                try await pool.withConnection {
                    try $0.execute(script: "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '\(state)'; END $$")
                }
            }
            #expect(error?.kind == .connection, "\(state)")
        }
        let first = try await pool.withConnection { try $0.query("SELECT pg_backend_pid()").row(0).int(0) }
        let error = await #expect(throws: PostgresError.self) {
            try await pool.withConnection {
                try $0.execute(script: "BEGIN READ ONLY; CREATE TABLE never (number bigint)")
            }
        }
        #expect(error?.sqlState == "25006")
        let second = try await pool.withConnection { try $0.query("SELECT pg_backend_pid()").row(0).int(0) }
        #expect(first != second, "after a failover the same session would never write again")
        await pool.close()
    }
}

/// Server processes, stopped for a while.
private final class Process: Sendable {
    private let stopped = Mutex<[pid_t]>([])

    func freeze(_ id: Int) {
        stopped.withLock { $0.append(pid_t(id)) }
        kill(pid_t(id), SIGSTOP)
    }

    func thaw() {
        for id in stopped.withLock({ $0 }) { kill(id, SIGCONT) }
    }
}
