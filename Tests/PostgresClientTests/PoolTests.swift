import Dispatch
import PostgresClient
import Testing

@Suite("The pool")
struct PoolTests {
    @Test("64 users share four connections, and each is served")
    func sharing() async throws {
        let pool = PostgresPool(
            try TestDatabase.conninfo(), limits: PostgresPool.Limits(connections: 4, wait: .seconds(60)))
        let sessions = try await withThrowingTaskGroup(of: (Int64, Int64).self) { group in
            for user in 0..<64 {
                group.addTask {
                    try await pool.withConnection { connection in
                        let row = try connection.query("SELECT $1, pg_backend_pid()", [.int(Int64(user))]).row(0)
                        return (try row.int(0), try row.int(1))
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(sessions.map(\.0).sorted() == Array(0..<64))
        #expect(Set(sessions.map(\.1)).count <= 4)
        await pool.close()
    }

    @Test("a session terminated in use is an error; the pool goes on with a new one")
    func terminatedInUse() async throws {
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: PostgresPool.Limits(connections: 1))
        let error = await #expect(throws: PostgresError.self) {
            try await pool.withConnection { _ = try $0.query("SELECT pg_terminate_backend(pg_backend_pid())") }
        }
        #expect(error?.kind == .connection)
        let one = try await pool.withConnection { try $0.query("SELECT 1").row(0).int(0) }
        #expect(one == 1)
        await pool.close()
    }

    @Test("a session terminated while idle is replaced without anyone noticing")
    func terminatedIdle() async throws {
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: PostgresPool.Limits(connections: 1))
        let pid = try await pool.withConnection { try $0.query("SELECT pg_backend_pid()").row(0).int(0) }
        let other = try await TestDatabase.connect()
        // With a timeout, the function returns once the session has ended.
        let ended = try await other.run {
            try $0.query("SELECT pg_terminate_backend($1, 10000)", [.int4(Int32(pid))]).row(0).bool(0)
        }
        #expect(ended)
        let next = try await pool.withConnection { try $0.query("SELECT pg_backend_pid()").row(0).int(0) }
        #expect(next != pid)
        await pool.close()
    }

    @Test("made anew, a pool lends none of its former sessions: neither one that lay idle nor one that was in use")
    func renewed() async throws {
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: PostgresPool.Limits(connections: 2))
        @Sendable func session() async throws -> Int64 {
            try await pool.withConnection { try $0.query("SELECT pg_backend_pid(), pg_sleep(0.3)").row(0).int(0) }
        }
        async let first = session()
        async let second = session()
        let idle = try await [first, second]
        #expect(Set(idle).count == 2)
        async let used = session()
        try await Task.sleep(for: .milliseconds(100))
        await pool.renew()
        let former = try await idle + [used]
        async let third = session()
        async let fourth = session()
        let now = try await [third, fourth]
        #expect(Set(former).isDisjoint(with: now), "\(former) \(now)")
        await pool.close()
    }

    @Test("a transaction left open by hand does not reach the next user")
    func leftOpen() async throws {
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: PostgresPool.Limits(connections: 1))
        try await pool.withConnection { try $0.execute(script: "BEGIN") }
        let inTransaction = try await pool.withConnection { $0.isInTransaction }
        #expect(!inTransaction)
        await pool.close()
    }

    @Test("who waits too long is told that none was free; who was served before is not disturbed")
    func waitLimit() async throws {
        let limits = PostgresPool.Limits(connections: 1, wait: .milliseconds(50))
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: limits)
        let (holder, gate) = try await pool.hold()
        let error = await #expect(throws: PostgresError.self) { try await pool.withConnection { _ in } }
        #expect(error?.kind == .unavailable)
        gate.signal()
        try await holder.value
        try await pool.withConnection { _ in }
        await pool.close()
    }

    @Test("one more than the queue holds is refused at once")
    func queueLimit() async throws {
        let limits = PostgresPool.Limits(connections: 1, waiters: 0, wait: .seconds(60))
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: limits)
        let (holder, gate) = try await pool.hold()
        let error = await #expect(throws: PostgresError.self) { try await pool.withConnection { _ in } }
        #expect(error?.kind == .unavailable)
        gate.signal()
        try await holder.value
        await pool.close()
    }

    @Test("a cancelled waiter leaves the queue, and its turn is not lost")
    func cancellation() async throws {
        let limits = PostgresPool.Limits(connections: 1, wait: .seconds(60))
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: limits)
        let (holder, gate) = try await pool.hold()
        let waiter = Task { try await pool.withConnection { _ in } }
        waiter.cancel()
        await #expect(throws: CancellationError.self) { try await waiter.value }
        gate.signal()
        try await holder.value
        try await pool.withConnection { _ in }
        await pool.close()
    }

    @Test("closing refuses those who wait and those who come")
    func closing() async throws {
        let limits = PostgresPool.Limits(connections: 1, wait: .seconds(60))
        let pool = PostgresPool(try TestDatabase.conninfo(), limits: limits)
        let (holder, gate) = try await pool.hold()
        let waiter = Task { try await pool.withConnection { _ in } }
        await pool.close()
        let waiting = await #expect(throws: PostgresError.self) { try await waiter.value }
        let coming = await #expect(throws: PostgresError.self) { try await pool.withConnection { _ in } }
        #expect(waiting?.kind == .unavailable)
        #expect(coming?.kind == .unavailable)
        gate.signal()
        try await holder.value
    }

    @Test("without a server every user learns so, and quickly")
    func noServer() async throws {
        let pool = PostgresPool("host=/nonexistent dbname=x", limits: PostgresPool.Limits(connections: 2))
        for _ in 0..<20 {
            let error = await #expect(throws: PostgresError.self) { try await pool.withConnection { _ in } }
            #expect(error?.kind == .connection)
        }
    }
}
