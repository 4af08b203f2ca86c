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
        let (holder, gate) = try await hold(pool)
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
        let (holder, gate) = try await hold(pool)
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
        let (holder, gate) = try await hold(pool)
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
        let (holder, gate) = try await hold(pool)
        let waiter = Task { try await pool.withConnection { _ in } }
        await pool.close()
        let waiting = await #expect(throws: PostgresError.self) { try await waiter.value }
        let coming = await #expect(throws: PostgresError.self) { try await pool.withConnection { _ in } }
        #expect(waiting?.kind == .unavailable)
        #expect(coming?.kind == .unavailable)
        gate.signal()
        try await holder.value
    }

    /// A role of which the server takes so many connections at a time.
    private func conninfo(ofRole role: String, connections: Int) async throws -> String {
        let owner = try await TestDatabase.connect()
        try await owner.execute(
            script: "DROP ROLE IF EXISTS \(role); CREATE ROLE \(role) LOGIN CONNECTION LIMIT \(connections)")
        return try TestDatabase.conninfo() + " user=\(role)"
    }

    @Test("where the server takes fewer connections than the pool may open, callers wait for those that are open")
    func fewerThanAllowed() async throws {
        let pool = PostgresPool(
            try await conninfo(ofRole: "pool_of_two", connections: 2),
            limits: PostgresPool.Limits(connections: 8, wait: .seconds(60)))
        let sessions = try await withThrowingTaskGroup(of: Int64.self) { group in
            for _ in 0..<200 {
                group.addTask {
                    try await pool.withConnection {
                        try $0.query("SELECT pg_backend_pid() FROM pg_sleep(0.005)").row(0).int(0)
                    }
                }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect((1...2).contains(sessions.count))
        await pool.close()
    }

    @Test("who waits for a connection that stays in use is told what the server said")
    func fewerThanAllowedForTooLong() async throws {
        let pool = PostgresPool(
            try await conninfo(ofRole: "pool_of_one", connections: 1),
            limits: PostgresPool.Limits(connections: 8, wait: .milliseconds(300)))
        let (holder, gate) = try await hold(pool)
        let error = await #expect(throws: PostgresError.self) { try await pool.withConnection { _ in } }
        #expect(error?.kind == .connection)
        #expect(error?.message.contains("too many connections") == true)
        gate.signal()
        try await holder.value
        try await pool.withConnection { _ in }
        await pool.close()
    }

    @Test("a pool takes the place of another's connection, idle or in use, where the server has no room for its first")
    func lender() async throws {
        let conninfo = try await conninfo(ofRole: "pools_of_three", connections: 3)
        for isInUse in [false, true] {
            let limits = PostgresPool.Limits(connections: 3, wait: .seconds(60))
            let lender = PostgresPool(conninfo, limits: limits)
            var held: [(Task<Void, any Error>, DispatchSemaphore)] = []
            for _ in 0..<3 { held.append(try await hold(lender)) }
            if !isInUse {
                for (_, gate) in held { gate.signal() }
                for (holder, _) in held { try await holder.value }
            }
            let pool = PostgresPool(conninfo, limits: limits, lender: lender)
            if isInUse {
                await #expect(throws: PostgresError.self) { try await pool.withConnection { _ in } }
                for (_, gate) in held { gate.signal() }
                for (holder, _) in held { try await holder.value }
            }
            var served = false
            for _ in 0..<100 where !served {
                served = (try? await pool.withConnection { _ in }) != nil
                if !served { try await Task.sleep(for: .milliseconds(50)) }
            }
            #expect(served)
            await pool.close()
            await lender.close()
            // The server ends sessions a moment after they were closed.
            try await Task.sleep(for: .milliseconds(300))
        }
    }

    @Test("without a server every user learns so, and quickly")
    func noServer() async throws {
        let pool = PostgresPool("host=/nonexistent dbname=x", limits: PostgresPool.Limits(connections: 2))
        for _ in 0..<20 {
            let error = await #expect(throws: PostgresError.self) { try await pool.withConnection { _ in } }
            #expect(error?.kind == .connection)
        }
    }

    /// Occupies the pool's only connection until the gate is signalled.
    private func hold(_ pool: PostgresPool) async throws -> (Task<Void, any Error>, DispatchSemaphore) {
        let gate = DispatchSemaphore(value: 0)
        let (held, holding) = AsyncStream.makeStream(of: Void.self)
        let holder = Task {
            try await pool.withConnection { _ in
                holding.yield()
                gate.wait()
            }
        }
        for await _ in held { break }
        return (holder, gate)
    }
}
