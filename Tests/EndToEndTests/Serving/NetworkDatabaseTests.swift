import Foundation
import PostgresClient
import Testing

/// A database that somebody else runs, on a network.
@Suite(
    "A database on a network", .serialized,
    .enabled(if: NetworkServer.address != nil, "needs an address that is not a loopback one"))
struct NetworkDatabaseTests {
    private static let warning = "the connection to the database is not encrypted"

    private static func configure(_ installation: Installation, _ url: String) throws {
        let data = try Data(contentsOf: installation.configurationFile)
        var configuration = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        configuration["database_url"] = url
        try JSONSerialization.data(withJSONObject: configuration).write(to: installation.configurationFile)
    }

    /// An installation that has migrated a server's database.
    static func migrated(_ server: NetworkServer) async throws -> Installation {
        let installation = try await Installation(isFresh: true)
        try configure(installation, server.url("server", parameters: "sslmode=disable"))
        try await installation.rightful(
            "migrate", "--migrate-database-url", server.url("owner", parameters: "sslmode=disable"))
        return installation
    }

    @Test("one that is reached without TLS is warned of, at start and by status, whatever the URL asked for")
    func encryption() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        try Self.configure(installation, server.url("server", parameters: "sslmode=prefer"))
        try await installation.rightful(
            "migrate", "--migrate-database-url", server.url("owner", parameters: "sslmode=prefer"))
        for (host, mode, isExposed, encryption) in [
            (nil, "disable", true, nil), (nil, "allow", true, nil), (nil, "prefer", false, "TLSv1.3"),
            (nil, "require", false, "TLSv1.3"), ("127.0.0.1", "disable", false, nil),
        ] as [(String?, String, Bool, String?)] {
            let context = "\(host ?? "network") \(mode)"
            try Self.configure(installation, server.url("server", host: host, parameters: "sslmode=\(mode)"))
            let service = try await ServiceProcess.start(installation)
            #expect(service.logText.contains(Self.warning) == isExposed, "\(context): \(service.logText)")
            let text = try await installation.rightful("status")
            #expect(text.contains("not encrypted ") == isExposed, "\(context): \(text)")
            let status = try await installation.rightful("status", "--json")
            let document = try JSONSerialization.jsonObject(with: Data(status.utf8)) as? [String: Any]
            let database = try #require(document?["database"] as? [String: Any], "\(status)")
            #expect(database["is_exposed"] as? Bool == isExposed, "\(context): \(status)")
            #expect(database["encryption"] as? String == encryption, "\(context): \(status)")
            #expect(database["reached_by"] as? String == (host == nil ? NetworkServer.address : "loopback"))
            let user = geteuid() == 0 ? "rightful" : NSUserName()
            #expect(document?["serving_as"] as? [String] == [user], "\(context): \(status)")
            #expect(service.stop() == 0, "\(context)")
        }
    }

    /// The server runs without `fsync`, as the tests' servers do.
    @Test("one that may lose what it has acknowledged is warned of, at start and by status, with the settings' names")
    func durability() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await Self.migrated(server)
        defer { installation.remove() }
        let url = server.url("server", parameters: "sslmode=disable")
        let first = try await installation.rightful("status")
        #expect(first.contains("not durable") && first.contains("fsync is off"), "\(first)")
        let concerns = first.split(separator: "\n").filter { $0.hasPrefix("to look at") }
        #expect(concerns.contains { $0.hasSuffix("may lose what was acknowledged") }, "\(first)")
        #expect(!concerns.contains { $0.hasSuffix("nothing") }, "\(first)")
        #expect(!first.contains("synchronous_commit") && !first.contains("full_page_writes"), "\(first)")
        let serving = try await PostgresConnection.connect(url)
        try await serving.execute(
            script: "ALTER ROLE CURRENT_USER IN DATABASE ledger SET synchronous_commit = off")
        let service = try await ServiceProcess.start(installation)
        let warning = #""message":"a crash of the database may lose what was acknowledged","reason":""#
        for name in ["fsync", "synchronous_commit"] {
            #expect(service.logText.contains("\(warning)\(name) is off"), "\(service.logText)")
        }
        let second = try await installation.rightful("status", "--json")
        let document = try JSONSerialization.jsonObject(with: Data(second.utf8)) as? [String: Any]
        let database = try #require(document?["database"] as? [String: Any], "\(second)")
        let reasons = try #require(database["not_durable"] as? [String], "\(second)")
        #expect(reasons.count == 2 && reasons[1].contains("a pooler may lose"), "\(reasons)")
        #expect(service.stop() == 0)
    }

    /// As PgBouncer's are in transaction mode: nothing that was set at their beginning is believed to last.
    @Test("with roles that are no superusers, sessions of either begin with the ledger's search path once migrated")
    func searchPath() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await Self.migrated(server)
        defer { installation.remove() }
        let owner = server.url("owner", parameters: "sslmode=disable")
        for role in ["owner", "server"] {
            let connection = try await PostgresConnection.connect(server.url(role, parameters: "sslmode=disable"))
            let beginning = try await connection.query("SELECT reset_val FROM pg_settings WHERE name = 'search_path'")
            #expect(try beginning.row(0).text(0) == "public, pg_temp", "\(role)")
        }
        let status = try await installation.rightful("status")
        #expect(!status.contains("guard off"), "\(status)")
        // The role itself puts it away, which status tells and the next `migrate` mends.
        let serving = try await PostgresConnection.connect(server.url("server", parameters: "sslmode=disable"))
        try await serving.execute(script: "ALTER ROLE CURRENT_USER IN DATABASE ledger RESET search_path")
        #expect(try await installation.rightful("status").contains("do not begin with the search_path"))
        let said = try await installation.rightful("migrate", "--migrate-database-url", owner)
        #expect(said == "the schema is current\n")
        #expect(try await !installation.rightful("status").contains("do not begin with the search_path"))
    }

    private static func grant(_ service: ServiceProcess, key: String) async throws -> HTTPClient.Answer {
        try await HTTPClient(service.url, key: key, attempts: 1).send(
            "POST", "/v1/customers/c-1/actions/grant", body: Array(#"{"entitlement":"premium","reason":"r"}"#.utf8))
    }

    /// What is to be done about either cause, as the database's refusal does not tell them apart.
    private static func expectBothCures(_ text: String) {
        #expect(text.contains("target_session_attrs=read-write"), "\(text)")
        #expect(text.contains("default_transaction_read_only is on") && text.contains("make room"), "\(text)")
    }

    @Test("a service is not ready with a standby alone, and says so at its start; commands say why they fail")
    func standby() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await Self.migrated(server)
        defer { installation.remove() }
        // As nobody has served, the first start would make keys.
        #expect(try await ServiceProcess.start(installation).stop() == 0)
        let key = try await installation.adminKey()
        try await server.becomeStandby()
        let service = try await ServiceProcess.start(installation)
        #expect(service.logText.contains("because it is a standby"), "\(service.logText)")
        let refused = try await HTTPClient(service.url, attempts: 1).send("GET", "/readyz")
        #expect(refused.status == 503 && refused.text.contains("because it is a standby"), "\(refused.text)")
        let grant = try await Self.grant(service, key: key)
        #expect(grant.status == 503 && grant.text.contains("was not recorded"), "\(grant.text)")
        Self.expectBothCures(grant.text)
        let status = try await installation.rightful("status")
        #expect(status.contains(/only reads +the database only reads, because it is a standby/), "\(status)")
        #expect(service.stop() == 0)
    }

    @Test("a service stays ready where default_transaction_read_only is on, and records again once that is off")
    func onlyReads() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await Self.migrated(server)
        defer { installation.remove() }
        let url = server.url("server", parameters: "sslmode=disable")
        #expect(try await ServiceProcess.start(installation).stop() == 0)
        let key = try await installation.adminKey()
        let serving = try await PostgresConnection.connect(url)
        try await serving.execute(
            script: "ALTER ROLE CURRENT_USER IN DATABASE ledger SET default_transaction_read_only = on")
        let service = try await ServiceProcess.start(installation)
        #expect(service.logText.contains("because default_transaction_read_only is on"), "\(service.logText)")
        let client = HTTPClient(service.url, key: key, attempts: 1)
        let ready = try await client.readiness(toBe: 200)
        #expect(ready.status == 200, "\(ready.text)")
        let grant = try await Self.grant(service, key: key)
        #expect(grant.status == 503 && grant.text.contains("was not recorded"), "\(grant.text)")
        #expect(!grant.text.contains("not known"), "\(grant.text)")
        Self.expectBothCures(grant.text)
        // Everything is refused, as the service finds out by itself, and that keeps nobody from reading.
        while try await !client.send("GET", "/metrics").text.contains("\nrightful_appends_failing 1\n") {
            try await Task.sleep(for: .milliseconds(200))
        }
        let unready = try await client.send("GET", "/readyz")
        #expect(unready.status == 200, "\(unready.text)")
        #expect(try await client.send("GET", "/v1/customers/c-1/entitlements").status == 200)
        let status = try await installation.rightful("status")
        #expect(status.contains(/only reads +the database only reads, because default_transaction/), "\(status)")
        // As where nobody has gone through what was recorded before.
        try await serving.execute(
            script: "BEGIN READ WRITE; UPDATE projection SET checkpoint = 0 WHERE name = 'drift'; COMMIT")
        let drift = try await installation.run(["drift"])
        #expect(drift.0 == 0 && drift.1.contains("up to position 0\n"), "\(drift)")
        #expect(drift.2.contains("not gone through yet: the database only reads"), "\(drift)")
        let keys = try await installation.run(["keys", "create", "--name", "k", "--scopes", "metrics"])
        #expect(keys.0 == 1 && keys.2.contains("the database only reads") && !keys.2.contains("SQLSTATE"), "\(keys)")
        Self.expectBothCures(keys.2)
        try await serving.execute(
            script: """
                BEGIN READ WRITE;
                ALTER ROLE CURRENT_USER IN DATABASE ledger RESET default_transaction_read_only;
                COMMIT
                """)
        // The service's own sessions began before that, and are not ended by anybody; idle ones would end by themselves.
        let start = ContinuousClock.now
        while try await Self.grant(service, key: key).status != 200, start.duration(to: .now) < .seconds(20) {
            try await Task.sleep(for: .milliseconds(200))
        }
        #expect(start.duration(to: .now) < .seconds(5), "\(service.logText)")
        #expect(service.stop() == 0)
    }

    @Test("a service whose role lacks a privilege is not ready and says which, as status does; it refuses for now")
    func ungranted() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await Self.migrated(server)
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: key, attempts: 1)
        let ownerURL = server.url("owner", parameters: "sslmode=disable")
        let owner = try await PostgresConnection.connect(ownerURL)
        try await owner.execute(script: "REVOKE INSERT ON event FROM server")
        let refused = try await client.send(
            "POST", "/v1/customers/ann/actions/grant",
            body: Array(#"{"entitlement":"pro","reason":"a test"}"#.utf8))
        #expect(refused.status == 503 && refused.headers["retry-after"] != nil, "\(refused.text)")
        let unready = try await client.readiness(toBe: 503, with: "lacks INSERT on event: `rightful migrate`")
        #expect(unready.status == 503 && unready.text.contains("lacks INSERT on event: `rightful migrate`"))
        let status = try await installation.rightful("status")
        #expect(status.contains("not granted") && status.contains("the serving role lacks privileges"), "\(status)")
        try await owner.execute(
            script: "GRANT INSERT ON event TO server; REVOKE SELECT ON command_key, drift, event FROM server")
        let words = "lacks SELECT on event, SELECT on command_key, SELECT on drift: `rightful migrate`"
        let unread = try await installation.run(["status"])
        #expect(unread.0 == 1 && unread.2.contains(words), "\(unread)")
        #expect(try await client.readiness(toBe: 503, with: "SELECT on command_key").status == 503)
        // As `pg_restore --no-acl` leaves it.
        try await owner.execute(script: "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM server")
        let hidden = try await installation.run(["status"])
        #expect(hidden.0 == 1 && hidden.2.contains("lacks SELECT on schema_migration: `rightful migrate`"), "\(hidden)")
        let bare = try await client.readiness(toBe: 503, with: "lacks SELECT on schema_migration")
        #expect(bare.text.contains("lacks SELECT on schema_migration"), "\(bare.text)")
        try await installation.rightful("migrate", "--migrate-database-url", ownerURL)
        #expect(try await client.readiness(toBe: 200).status == 200)
        #expect(service.stop() == 0)
    }

    @Test("one whose tables are not of one backup is refused, by the service that runs as by the next, and by status")
    func mixedTables() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await Self.migrated(server)
        defer { installation.remove() }
        _ = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, attempts: 1)
        #expect(try await client.readiness(toBe: 200).status == 200)
        let owner = try await PostgresConnection.connect(server.url("owner", parameters: "sslmode=disable"))
        // As where `pg_restore --data-only` finds the row of a database that was migrated.
        try await owner.execute(script: "UPDATE ledger_head SET position = 0")
        let words = "by table ledger_head the log ends at position 0, and table event goes on up to"
        #expect(try await client.readiness(toBe: 503, with: words).text.contains(words))
        #expect(service.stop() == 0)
        for command in ["status", "serve"] {
            let result = try await installation.run([command])
            #expect(result.0 == 1 && result.2.contains(words), "\(result)")
        }
    }

    @Test("one that does not hold every text, or whose schema the serving role may not use, is refused with what to do")
    func unfit() async throws {
        let server = try NetworkServer()
        defer { server.stop() }
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        let owner = server.url("owner", parameters: "sslmode=disable")
        try Self.configure(installation, server.url("server", parameters: "sslmode=disable"))
        let superuser = server.url("superuser", parameters: "sslmode=disable")
        let connection = try await PostgresConnection.connect(superuser)
        try await connection.execute(script: "REVOKE ALL ON SCHEMA public FROM PUBLIC")
        let hidden = try await installation.run(["status"])
        #expect(hidden.0 == 1 && hidden.2.contains("server may not use the schema public"), "\(hidden)")
        try await installation.rightful("migrate", "--migrate-database-url", owner)
        #expect(try await installation.rightful("status").contains("can only read and append"))
        try await connection.execute(script: "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
        let latin = superuser.replacing("/ledger?", with: "/latin?")
        let refused = try await installation.run(["migrate", "--migrate-database-url", latin, "--database-url", latin])
        #expect(refused.0 == 1 && refused.2.contains("encoding is LATIN1"), "\(refused)")
    }
}
