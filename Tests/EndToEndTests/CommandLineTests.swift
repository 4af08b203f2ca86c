import EmbeddedPostgres
import Foundation
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

/// The command line as scripts use it: what goes to which stream, and the exit status.
@Suite("The command line", .serialized)
struct CommandLineTests {
    @Test("what fails says why in one line on standard error, and nothing else")
    func failures() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let directory = installation.directory.path()
        // Nobody listens on port 1.
        let away = ["--database-url", "postgresql://u:sesame@127.0.0.1:1/d"]
        let table: [(arguments: [String], status: Int32, says: String)] = [
            (["serve"] + away, 1, "Connection refused"), (["keys", "list"] + away, 1, "Connection refused"),
            (["catalog", "apply", directory], 1, "not a file"),
            (["catalog", "apply", "/nowhere"], 1, "rightful: /nowhere: the catalog cannot be read: No such file"),
            (["verify", "--since", "/nowhere"], 1, "rightful: /nowhere: the checkpoint cannot be read: No such file"),
            (
                ["webhooks", "create", "https://a.example", "--authorization-header-file", "/nowhere"], 1,
                "rightful: /nowhere: the value of Authorization cannot be read: No such file"
            ),
            (["keys", "list", "--data-dir", installation.configurationFile.path()], 1, "data_dir"),
            // A directory that is not mounted must not look like a ledger without events.
            (["status", "--data-dir", "\(directory)/none"], 1, "there is no ledger in"),
            (["events", "--data-dir", "\(directory)/none"], 1, "there is no ledger in"),
            (["entitlements", "c-1", "--data-dir", "\(directory)/none"], 1, "there is no ledger in"),
            (["webhooks", "list", "--data-dir", "\(directory)/none"], 1, "there is no ledger in"),
            (["nothing"], 2, "nothing"), (["keys", "create", "--name", "a\nb", "--scopes", "admin"], 2, "--name"),
            (["--data-dir"], 2, "no command"),
        ]
        for item in table {
            let result = try await installation.run(item.arguments)
            #expect(result.status == item.status, "\(item.arguments): \(result.errors)")
            #expect(result.output.isEmpty, "\(item.arguments): \(result.output)")
            #expect(result.errors.contains(item.says), "\(item.arguments): \(result.errors)")
            #expect(result.errors.filter(\.isNewline).count == 1, "\(item.arguments): \(result.errors)")
            #expect(!result.errors.contains("sesame"))
        }
    }

    @Test("a command that cannot print its result exits with 1")
    func fullDisk() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let process = Process()
        process.executableURL = try Products.url("rightful")
        process.arguments = ["keys", "list", "--config", installation.configurationFile.path()]
        process.standardOutput = try FileHandle(forWritingTo: URL(filePath: "/dev/full"))
        let errors = Pipe()
        process.standardError = errors
        try process.runAlone()
        let text = String(decoding: try errors.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        #expect(process.waitForEnd() == 1)
        #expect(text.contains("No space left on device"))
    }

    @Test(
        "a key that nobody could see is revoked, and the command says so and fails",
        arguments: [#""$@" >/dev/full; echo $? >&2"#, #"{ "$@"; echo $? >&2; } | true"#])
    func unseenKey(script: String) async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let made = try await installation.run(
            ["keys", "create", "--name", "unseen", "--scopes", "admin"], through: ["/bin/sh", "-c", script, "sh"])
        let lines = made.errors.split(whereSeparator: \.isNewline)
        #expect(lines.count == 2 && lines.last == "1", "\(made.errors)")
        #expect(made.errors.contains("so it was revoked again (key_"), "\(made.errors)")
        #expect(!made.errors.contains("rightful_sk_") && made.output.isEmpty)
        let listed = try await installation.rightful("keys", "list").split(whereSeparator: \.isNewline)
        let row = try #require(listed.first { $0.contains("unseen") })
        #expect(row.hasSuffix("Z"), "it ends with when it was revoked: \(row)")
    }

    @Test("a standard stream that is closed is no other file; a command that could not print does nothing")
    func closedStreams() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        func shell(_ redirection: String) -> [String] { ["/bin/sh", "-c", "exec \"$@\" \(redirection)", "sh"] }
        let made = try await installation.run(
            ["keys", "create", "--name", "lost", "--scopes", "admin"], through: shell(">&-"))
        #expect(made.status == 1 && made.errors.contains("standard output is closed"), "\(made)")
        #expect(try await !installation.rightful("keys", "list").contains("lost"))

        // What it logs is lost, and ends up nowhere else.
        let service = Process()
        let command =
            try shell("<&- >&- 2>&-") + [
                Products.url("rightful").path(), "serve", "--config", installation.configurationFile.path(),
            ]
        service.executableURL = URL(filePath: command[0])
        service.arguments = Array(command.dropFirst())
        try await service.runWithAllSignals()
        defer { if service.endStatus == nil { kill(service.processIdentifier, SIGKILL) } }
        // It has bound its address by then.
        for _ in 0..<1500 where installation.postmaster == nil { try await Task.sleep(for: .milliseconds(20)) }
        for descriptor in 0...2 {
            let target = try FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/\(service.processIdentifier)/fd/\(descriptor)")
            #expect(target == "/dev/null", "descriptor \(descriptor)")
        }
        // As `timeout` does, which signals its child and then the group that it is in.
        kill(service.processIdentifier, SIGTERM)
        usleep(20_000)
        kill(service.processIdentifier, SIGTERM)
        #expect(service.waitForEnd() == 0)
    }

    @Test("a database from before the first release is refused in one line, and not touched")
    func unreleased() async throws {
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await owner.execute(
            script: """
                CREATE TABLE schema_migration (
                    version integer PRIMARY KEY, name text NOT NULL, sha256 bytea NOT NULL,
                    applied_at timestamptz NOT NULL DEFAULT now());
                INSERT INTO schema_migration VALUES (1, '0001_schema_migration', ''), (19, '0019_ensure_partitions', '')
                """)
        for command in ["migrate", "serve", "status", "verify", "rebuild"] {
            let (status, output, errors) = try await installation.run([command])
            #expect(status != 0 && output.isEmpty, "\(command): \(output)")
            #expect(errors.split(separator: "\n").count == 1, "\(command): \(errors)")
            #expect(errors.contains("from before the first release"), "\(command): \(errors)")
            #expect(errors.contains("empty data directory"), "\(command): \(errors)")
        }
        let tables = try await owner.query("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        #expect(try tables.first?.int(0) == 2, "the table and its index")
        try await cluster.release()
    }

    @Test("a command does not change the schema of a database that another program's may be; only serve and migrate do")
    func otherSchema() async throws {
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        #expect(
            try await installation.run(["keys", "create", "--name", "one", "--scopes", "admin"]).status == 0,
            "it makes one")
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        // Such as one that a later version left, or an earlier one: a step more, and one less.
        for (change, said) in [
            ("INSERT INTO schema_migration VALUES (99, '0099_later', '')", "use a newer rightful"),
            ("DELETE FROM schema_migration WHERE version IN (16, 99)", "run `rightful migrate`"),
        ] {
            try await owner.execute(script: change)
            let before = try await owner.query("SELECT count(*) FROM schema_migration").first?.int(0)
            for command in [
                ["verify"], ["keys", "list"], ["keys", "create", "--name", "one", "--scopes", "admin"],
                ["webhooks", "list"],
            ] {
                let (status, output, errors) = try await installation.run(command)
                #expect(status == 1 && output.isEmpty && errors.contains(said), "\(command): \(output) \(errors)")
            }
            let (status, output, errors) = try await installation.run(["status"])
            #expect(status == 0 && output.contains(said), "part of what it tells: \(output) \(errors)")
            #expect(try await owner.query("SELECT count(*) FROM schema_migration").first?.int(0) == before)
        }
        try await cluster.release()
    }

    @Test("the options of every command may stand before it; a publishable key can be asked for by name")
    func options() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let elsewhere = installation.directory.appending(path: "elsewhere").path()
        let key = try await installation.rightful(
            "--data-dir", elsewhere, "keys", "create", "--name", "app", "--scopes", "publishable", "--app",
            installation.world.bundleID, "--environment", "sandbox")
        #expect(key.hasPrefix("rightful_pk_") && key.hasSuffix("\n") && key.filter(\.isWhitespace).count == 1)
        let ofBoth = try await installation.rightful(
            "--data-dir=\(elsewhere)", "keys", "create", "--name", "both", "--scopes", "reconcile", "--app",
            installation.world.bundleID)
        #expect(ofBoth.hasPrefix("rightful_pk_"))
        let list = try await installation.rightful("--data-dir=\(elsewhere)", "keys", "list")
        let rows = list.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(rows.first { $0[1] == "app" }?[2...3] == ["reconcile", "sandbox"], "\(list)")
        #expect(rows.first { $0[1] == "both" }?[2...3] == ["reconcile", "-"], "\(list)")
        #expect(try await installation.rightful("keys", "--help").contains("keys revoke"))
    }

    @Test("a key for an app that is not configured is made, with a word to whoever makes it")
    func unknownApp() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        for (app, words) in [(installation.world.bundleID, ""), ("com.example.typo", "com.example.typo")] {
            let made = try await installation.run([
                "keys", "create", "--name", "k", "--scopes", "customers:read", "--app", app,
            ])
            #expect(made.status == 0 && made.output.hasPrefix("rightful_sk_"), "\(made)")
            #expect(made.output.filter(\.isWhitespace).count == 1)
            #expect(words.isEmpty ? made.errors.isEmpty : made.errors.contains(words), "\(made)")
            #expect(words.isEmpty || made.errors.contains(installation.world.bundleID), "\(made)")
        }
    }

    @Test("a key is made with a word about what it may not use, because of what it is bound to")
    func uselessScopes() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let app = installation.world.bundleID
        for (bounds, scopes, useless) in [
            (["--environment", "sandbox"], "catalog:write", "catalog:write"),
            (["--app", app], "metrics,catalog:write,events:read", "catalog:write and metrics"),
            (["--environment", "sandbox"], "customers:read,metrics", ""), ([], "catalog:write,metrics", ""),
            (["--environment", "sandbox"], "admin", "catalog:write"), ([], "admin", ""),
            (["--app", app], "admin", "catalog:write and metrics"),
        ] {
            let made = try await installation.run(["keys", "create", "--name", "k", "--scopes", scopes] + bounds)
            #expect(made.status == 0 && made.output.hasPrefix("rightful_sk_"), "\(made)")
            #expect(
                useless.isEmpty ? made.errors.isEmpty : made.errors.contains("it may not use \(useless):"), "\(made)")
        }
    }

    @Test("the first start names an empty catalog; a later one says that the log's key was lost, where it was")
    func firstStart() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        func start() async throws -> String {
            let service = try await ServiceProcess.start(installation)
            #expect(service.stop() == 0)
            return service.logText
        }
        _ = try await installation.adminKey()
        let first = try await start()
        #expect(first.contains("the log's key was made: nobody has served this ledger before"), "\(first)")
        #expect(first.contains("the catalog names no products"), "\(first)")
        #expect(!first.contains("the log's key was missing"), "\(first)")
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let second = try await start()
        #expect(!second.contains("the catalog names no products") && !second.contains("the log's key was"), "\(second)")
        try FileManager.default.removeItem(at: installation.dataDirectory.appending(path: "log-key.pem"))
        #expect(try await start().contains("the log's key was missing and another was made"))
    }

    @Test("the key of customer tokens is rotated by a command, in the database or in the file that is configured")
    func rotateTokens() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        // As where the service has a configuration with another place, and the command was given none.
        let astray = try await installation.run(["keys", "rotate-tokens", "--at-once"])
        #expect(astray.status == 1 && astray.output.isEmpty, "\(astray)")
        #expect(astray.errors.contains("no service keeps its token keys in this database"), "\(astray.errors)")
        #expect(try await ServiceProcess.start(installation).stop() == 0, "it makes the first key")
        let rotated = try await installation.rightful("keys", "rotate-tokens")
        #expect(rotated.hasPrefix("key 2 makes customer tokens from ") && rotated.hasSuffix("are in the database\n"))
        #expect(try await installation.rightful("keys", "rotate-tokens", "--at-once").hasPrefix("key 3 makes"))
        let original = try Data(contentsOf: installation.configurationFile)
        var configuration = try #require(try JSONSerialization.jsonObject(with: original) as? [String: Any])
        let file = installation.directory.appending(path: "tokens").path()
        configuration["token_key_path"] = file
        try JSONSerialization.data(withJSONObject: configuration).write(to: installation.configurationFile)
        let printed = try await installation.rightful("keys", "rotate-tokens")
        #expect(printed.hasPrefix("key 1 makes"), "the file has keys of its own")
        #expect(printed.hasSuffix("are in \(file)\n"), "\(printed)")
        let kept = try String(contentsOfFile: file, encoding: .utf8)
        #expect(kept.hasPrefix("1 2") && kept.split(separator: "\n").count == 1)
        let service = try await ServiceProcess.start(installation)
        #expect(try String(contentsOfFile: file, encoding: .utf8) == kept, "serve takes the key that is there")
        #expect(service.stop() == 0)
    }

    @Test("entitlements prints what HTTP answers, in the past and in the other environment too")
    func entitlements() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let key = try await installation.rightful("keys", "create", "--name", "k", "--scopes", "admin")
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key.trimmingCharacters(in: .whitespacesAndNewlines))
        let life = StoreLife.random(seed: 5, world: installation.world, customers: 2)
        for notification in life.notifications {
            #expect(try await client.notify(installation.authority.sign(notification)).status == 200)
        }
        let customer = try #require(try await client.events().compactMap { $0["customer_id"] as? String }.first)
        let at = "2026-06-01T00:00:00.000Z"
        for environment in ["production", "sandbox"] {
            for position in ["0", "1", "\(try await client.head())"] {
                let printed = try await installation.rightful(
                    "entitlements", customer, "--environment", environment, "--at", at, "--known-at", position)
                let answered = try await client.send(
                    "GET", "/v1/customers/\(customer)/entitlements",
                    query: ["environment": environment, "at": at, "known_at": position])
                #expect(printed == answered.text + "\n", "\(environment) \(position)")
            }
        }
    }
}
