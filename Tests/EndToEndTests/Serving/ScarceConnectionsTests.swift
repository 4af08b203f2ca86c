import Foundation
import PostgresClient
import TestSupport
import Testing

/// Services on a server with little room for connections, which they share.
@Suite(
    "Services that share few connections", .serialized,
    .enabled(if: NetworkServer.address != nil, "needs an address that is not a loopback one"))
struct ScarceConnectionsTests {
    private static func sessions(_ superuser: PostgresConnection) async throws -> Int64 {
        try await superuser.query("SELECT count(*) FROM pg_stat_activity WHERE usename = 'server'").row(0).int(0)
    }

    private static func grant(_ client: HTTPClient, _ key: String, to customer: String) async throws -> Int {
        try await client.send(
            "POST", "/v1/customers/\(customer)/actions/grant",
            body: Array(#"{"entitlement":"pro","reason":"a test"}"#.utf8), headers: ["Authorization": "Bearer \(key)"]
        ).status
    }

    @Test("one that starts beside another that has used nearly all is ready only once it can append, which it then can")
    func shared() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await NetworkDatabaseTests.migrated(server)
        defer { installation.remove() }
        let superuser = try await PostgresConnection.connect(server.url("superuser", parameters: "sslmode=disable"))
        let first = try await ServiceProcess.start(installation)
        let key = try await installation.adminKey()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                group.addTask {
                    // Each has connections of its own.
                    let client = HTTPClient(first.url)
                    for part in 0..<5 {
                        _ = try await client.send(
                            "GET", "/v1/customers/c\(number)-\(part)/timeline",
                            headers: ["Authorization": "Bearer \(key)"])
                    }
                }
            }
            try await group.waitForAll()
        }
        let used = try await Self.sessions(superuser)
        #expect(used > 8, "nothing was tested")
        try await superuser.execute(script: "ALTER ROLE server CONNECTION LIMIT \(used + 1)")
        let second = try await ServiceProcess.start(installation)
        for (number, service) in [first, second].enumerated() {
            let client = HTTPClient(service.url)
            #expect(try await client.send("GET", "/readyz").status == 200)
            for part in 0..<5 { #expect(try await Self.grant(client, key, to: "g\(number)-\(part)") == 200) }
        }
        #expect(first.stop() == 0 && second.stop() == 0)
    }

    @Test("one that starts while there is no room waits for it; what else is wrong it says in the system's words")
    func full() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await NetworkDatabaseTests.migrated(server)
        defer { installation.remove() }
        let data = try Data(contentsOf: installation.configurationFile)
        var configuration = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        // Nobody may make anything there.
        configuration["data_dir"] = "/proc/none/data"
        try JSONSerialization.data(withJSONObject: configuration).write(to: installation.configurationFile)
        let superuser = try await PostgresConnection.connect(server.url("superuser", parameters: "sslmode=disable"))
        try await superuser.execute(script: "ALTER ROLE server CONNECTION LIMIT 0")
        let start = ContinuousClock.now
        async let starting = ServiceProcess.start(installation)
        try await Task.sleep(for: .seconds(4))
        try await superuser.execute(script: "ALTER ROLE server CONNECTION LIMIT -1")
        let service = try await starting
        #expect(start.duration(to: .now) > .seconds(4))
        #expect(service.logText.contains("waiting for a connection that appends"), "\(service.logText)")
        #expect(service.logText.contains("no checkpoints are signed"), "\(service.logText)")
        #expect(service.logText.contains("the roots that are trusted now cannot be kept"), "\(service.logText)")
        #expect(!service.logText.contains("NSCocoaErrorDomain"), "\(service.logText)")
        #expect(service.stop() == 0)
    }

    @Test("one that can read and not append is not ready, and says so; it goes on once there is room")
    func unready() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await NetworkDatabaseTests.migrated(server)
        defer { installation.remove() }
        let superuser = try await PostgresConnection.connect(server.url("superuser", parameters: "sslmode=disable"))
        // As nobody has served, the first start records keys.
        #expect(try await ServiceProcess.start(installation).stop() == 0)
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, attempts: 1)
        #expect(try await client.readiness(toBe: 200).status == 200)
        // The connection that has appended nothing yet says what every session begins with, or what becomes of its plans.
        try await superuser.execute(
            script: """
                ALTER ROLE server CONNECTION LIMIT 1;
                SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                WHERE usename = 'server' AND (query LIKE 'SET TRANSACTION%' OR query = 'DISCARD PLANS')
                """)
        let words = "could be made that appends"
        let refused = try await client.readiness(toBe: 503, with: words)
        #expect(refused.status == 503 && refused.text.contains(words), "\(refused.text)")
        let told = "there is no connection that appends"
        let end = ContinuousClock.now + .seconds(60)
        while !service.logText.contains(told), .now < end { try await Task.sleep(for: .milliseconds(50)) }
        #expect(service.logText.contains(told), "\(service.logText)")
        try await superuser.execute(script: "ALTER ROLE server CONNECTION LIMIT -1")
        #expect(try await client.readiness(toBe: 200).status == 200)
        #expect(try await Self.grant(client, key, to: "ann") == 200)
        #expect(service.stop() == 0)
    }

    @Test("one that waits for somebody's forgotten transaction is not ready, and says whose it is until that is over")
    func held() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await NetworkDatabaseTests.migrated(server)
        defer { installation.remove() }
        let superuser = try await PostgresConnection.connect(server.url("superuser", parameters: "sslmode=disable"))
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, attempts: 1)
        #expect(try await client.readiness(toBe: 200).status == 200)
        try await superuser.execute(
            script: "BEGIN; SELECT FROM ledger_head FOR UPDATE; PREPARE TRANSACTION 'forgotten'")
        #expect(try await Self.grant(client, key, to: "ann") == 503)
        let refused = try await client.readiness(toBe: 503)
        #expect(refused.status == 503 && refused.text.contains("holds the log"), "\(refused.text)")
        let words = "the prepared transaction 'forgotten' of the role superuser holds the log since "
        let status = try await installation.rightful("status")
        #expect(status.contains(words) && status.contains("appends fails on"), "\(status)")
        #expect(service.logText.contains(words), "\(service.logText)")
        try await superuser.execute(script: "ROLLBACK PREPARED 'forgotten'")
        #expect(try await client.readiness(toBe: 200).status == 200)
        #expect(try await Self.grant(client, key, to: "bob") == 200)
        // That it is over is noted behind the service.
        let end = ContinuousClock.now + .seconds(60)
        while try await installation.rightful("status").contains(words), .now < end {
            try await Task.sleep(for: .milliseconds(200))
        }
        #expect(try await !installation.rightful("status").contains(words))
        #expect(service.stop() == 0)
    }

    @Test("commands that wait for a standby that is gone keep nobody from reading")
    func standbyGone() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await NetworkDatabaseTests.migrated(server)
        defer { installation.remove() }
        let superuser = try await PostgresConnection.connect(server.url("superuser", parameters: "sslmode=disable"))
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        #expect(try await Self.grant(HTTPClient(service.url), key, to: "ann") == 200)
        try await superuser.execute(script: "ALTER SYSTEM SET synchronous_standby_names = 'gone'")
        try await superuser.execute(script: "SELECT pg_reload_conf()")
        // Sessions learn it from the checkpointer, a moment later.
        try await Task.sleep(for: .seconds(1))
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<24 {
                group.addTask {
                    // A UUID is its own account token, so nothing is appended.
                    try await HTTPClient(service.url, attempts: 1).send(
                        "POST", "/v1/customers/\(UUID().uuidString.lowercased())/tokens",
                        body: Array(#"{"environment":"production"}"#.utf8),
                        headers: ["Authorization": "Bearer \(key)", "Idempotency-Key": "key-\(number)"]
                    ).status
                }
            }
            for _ in 0..<100 where try await superuser.query(waiting).row(0).int(0) < 4 {
                try await Task.sleep(for: .milliseconds(50))
            }
            let client = HTTPClient(service.url, key: key, attempts: 1)
            for number in 0..<5 {
                let start = ContinuousClock.now
                let answer = try await client.send("GET", "/v1/customers/c\(number)/timeline")
                #expect(answer.status == 200 && start.duration(to: .now) < .seconds(3), "\(answer.text)")
            }
            #expect(try await superuser.query(waiting).row(0).int(0) >= 4, "nothing was tested")
            try await superuser.execute(script: "ALTER SYSTEM RESET synchronous_standby_names")
            try await superuser.execute(script: "SELECT pg_reload_conf()")
            for try await status in group { #expect(status == 200 || status == 503) }
        }
        #expect(service.stop() == 0)
    }

    @Test("the server's side of a session looks as soon as the service's own whether the other machine is still there")
    func keepalives() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let connection = try await PostgresConnection.connect(server.url("server", parameters: "sslmode=disable"))
        for (name, value) in [
            ("tcp_keepalives_idle", "30"), ("tcp_keepalives_interval", "10"), ("tcp_keepalives_count", "3"),
            ("tcp_user_timeout", "60000"),
        ] {
            let set = try await connection.query(
                "SELECT setting FROM pg_settings WHERE name = $1", [.text(name)]
            ).row(0).text(0)
            #expect(set == value, "\(name)")
        }
    }
}
