import Dispatch
import PostgresClient
import Testing

@Suite("Where the server has little room for connections")
struct ScarceConnectionsTests {
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
        let (holder, gate) = try await pool.hold()
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
            for _ in 0..<3 { held.append(try await lender.hold()) }
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

    /// How many sessions of a role the server has.
    private func sessions(ofRole role: String) async throws -> Int64 {
        try await TestDatabase.connect().run {
            try $0.query("SELECT count(*) FROM pg_stat_activity WHERE usename = $1", [.text(role)]).row(0).int(0)
        }
    }

    /// Waits for a number of sessions of a role; returns how many there are.
    private func sessions(ofRole role: String, toBe count: Int64) async throws -> Int64 {
        for _ in 0..<100 {
            if try await sessions(ofRole: role) == count { return count }
            try await Task.sleep(for: .milliseconds(50))
        }
        return try await sessions(ofRole: role)
    }

    @Test("a pool of two gives one of them up, under load too, and does not take the place again at once")
    func lenderOfTwo() async throws {
        let conninfo = try await conninfo(ofRole: "pools_of_two", connections: 2)
        let lender = PostgresPool(conninfo, limits: PostgresPool.Limits(connections: 8, wait: .seconds(60)))
        let load = Task {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        while !Task.isCancelled {
                            try await lender.withConnection { _ = try $0.query("SELECT pg_sleep(0.002)") }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(try await sessions(ofRole: "pools_of_two", toBe: 2) == 2)
        let pool = PostgresPool(conninfo, limits: PostgresPool.Limits(connections: 2), lender: lender)
        let start = ContinuousClock.now
        var isServed = false
        while !isServed, start.duration(to: .now) < .seconds(10) {
            isServed = (try? await pool.withConnection { _ in }) != nil
        }
        #expect(isServed)
        load.cancel()
        await #expect(throws: CancellationError.self) { try await load.value }
        await pool.close()
        await lender.close()
    }

    @Test("connections that lie idle are closed but for one; those that are used now and then stay")
    func idle() async throws {
        let conninfo = try await conninfo(ofRole: "idle_pool", connections: 8)
        let pool = PostgresPool(conninfo, limits: PostgresPool.Limits(connections: 8, idle: .seconds(1)))
        func useAtOnce(_ count: Int) async throws -> Set<Int64> {
            try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 0..<count {
                    group.addTask {
                        try await pool.withConnection {
                            try $0.query("SELECT pg_backend_pid() FROM pg_sleep(0.1)").row(0).int(0)
                        }
                    }
                }
                return try await group.reduce(into: []) { $0.insert($1) }
            }
        }
        #expect(try await useAtOnce(6).count == 6)
        let kept = try await useAtOnce(3)
        for _ in 0..<10 {
            try await Task.sleep(for: .milliseconds(200))
            #expect(try await useAtOnce(3) == kept)
        }
        #expect(try await sessions(ofRole: "idle_pool") == 3)
        #expect(try await sessions(ofRole: "idle_pool", toBe: 1) == 1)
        try await Task.sleep(for: .milliseconds(1200))
        #expect(try await sessions(ofRole: "idle_pool") == 1)
        await pool.close()
    }

    @Test("a connection that is kept ready is replaced once it is lost, and while there is no room that shows")
    func keptReady() async throws {
        let role = "kept_ready"
        let conninfo = try await conninfo(ofRole: role, connections: 1)
        let owner = try await TestDatabase.connect()
        let pool = PostgresPool(conninfo, limits: PostgresPool.Limits(connections: 2))
        try await pool.keepReady()
        #expect(try await sessions(ofRole: role) == 1)
        try await pool.keepReady()
        #expect(try await sessions(ofRole: role) == 1)
        try await owner.execute(
            script: """
                ALTER ROLE \(role) CONNECTION LIMIT 0;
                SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '\(role)'
                """)
        let start = ContinuousClock.now
        await #expect(throws: PostgresError.self) { try await pool.keepReady() }
        await #expect(throws: PostgresError.self) { try await pool.keepReady() }
        let lack = try #require(await pool.lack)
        #expect(lack.since >= start && lack.error.message.contains("too many connections"))
        try await owner.execute(script: "ALTER ROLE \(role) CONNECTION LIMIT 1")
        #expect(try await sessions(ofRole: role) == 0)
        try await Task.sleep(for: .milliseconds(200))
        try await pool.keepReady()
        #expect(await pool.lack == nil)
        #expect(try await sessions(ofRole: role) == 1)
        await pool.close()
    }

    @Test("where a role is let in no more, that is told beside sessions that go on, and is over once it is let in")
    func refusedBesideSessions() async throws {
        let role = "role_without_login"
        let owner = try await TestDatabase.connect()
        let pool = PostgresPool(
            try await conninfo(ofRole: role, connections: 5), limits: PostgresPool.Limits(connections: 2))
        try await pool.keepReady()
        #expect(try await pool.refusalOfAnother() == nil)
        try await owner.execute(script: "ALTER ROLE \(role) NOLOGIN")
        let refusal = try #require(try await pool.refusalOfAnother())
        #expect(refusal.kind == .connection && refusal.message.contains("not permitted to log in"), "\(refusal)")
        #expect(await pool.lack == nil, "the pool has a connection")
        try await owner.execute(script: "ALTER ROLE \(role) LOGIN")
        #expect(try await pool.refusalOfAnother() == nil)
        try await owner.execute(
            script: """
                ALTER ROLE \(role) NOLOGIN;
                SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '\(role)'
                """)
        await #expect(throws: PostgresError.self, "none answers") { try await pool.refusalOfAnother() }
        await pool.close()
    }
}
