import EmbeddedPostgres
import Foundation
import Glibc
import StoreSimulator
import TestSupport
import Testing

/// Root starts the service, and nobody serves as root.
@Suite("The user who serves", .serialized, .enabled(if: geteuid() == 0, "only root can become another user"))
struct ServingUserTests {
    /// What the system says of every thread of a process: users, groups, supplementary groups and capabilities.
    private static func credentials(_ process: pid_t) throws -> Set<[String]> {
        let directory = "/proc/\(process)/task"
        let threads = try FileManager.default.contentsOfDirectory(atPath: directory)
        #expect(threads.count > 3, "threads: \(threads)")
        return Set(
            threads.compactMap { thread in
                // A thread may end meanwhile.
                guard let status = try? String(contentsOfFile: "\(directory)/\(thread)/status", encoding: .utf8) else {
                    return nil
                }
                return status.split(separator: "\n").compactMap { line in
                    let words = line.split(whereSeparator: \.isWhitespace)
                    let names = ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:", "CapAmb:"]
                    return names.contains { $0 == words.first ?? "" } ? words.joined(separator: " ") : nil
                }
            })
    }

    private static func expectServing(_ process: pid_t, as account: ServiceAccount, _ context: String) throws {
        let (user, group) = (account.user, account.group)
        let none = "0000000000000000"
        #expect(
            try credentials(process) == [
                [
                    "Uid: \(user) \(user) \(user) \(user)", "Gid: \(group) \(group) \(group) \(group)", "Groups:",
                    "CapPrm: \(none)", "CapEff: \(none)", "CapAmb: \(none)",
                ]
            ], "\(context)")
    }

    /// Where the server's socket lies, as it notes itself.
    private static func socketDirectory(_ installation: Installation) throws -> String {
        let file = installation.dataDirectory.appending(path: "postgres/postmaster.pid")
        let lines = try String(contentsOf: file, encoding: .utf8).split(
            separator: "\n", omittingEmptySubsequences: false)
        return String(try #require(lines.dropFirst(4).first))
    }

    private static func wait(_ what: String, until condition: () async throws -> Bool) async throws {
        for _ in 0..<300 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        Issue.record("not within 30 s: \(what)")
    }

    @Test("every thread gives up root's rights; restarts, checkpoints, keys, commands and the end work all the same")
    func serving() async throws {
        let account = try ServiceAccount.own()
        let installation = try await Installation()
        defer { installation.remove() }
        // Nobody but root may pass where the data are.
        #expect(chmod(installation.dataDirectory.path(), 0o700) == 0)
        let checkpoints = installation.dataDirectory.appending(path: "checkpoints").path()
        let tokens = installation.directory.appending(path: "tokens").path()
        // Only root may take such a port.
        try installation.configure(["checkpoint_dir": checkpoints, "token_key_path": tokens, "listen": "127.0.0.1:919"])
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        try Self.expectServing(service.processIdentifier, as: account, "at start")
        #expect(service.logText.contains("serving as the user \(account.name)"), "\(service.logText)")
        let status = try await installation.rightful("status")
        #expect(status.contains("runs as the user \(account.name)\n"), "\(status)")
        let json = try JSONSerialization.jsonObject(
            with: Data(try await installation.rightful("status", "--json").utf8))
        #expect((json as? [String: Any])?["serving_as"] as? [String] == [account.name])

        // Commands of root work on the same data meanwhile, and what they make is of use to the service.
        let key = try await installation.rightful("keys", "create", "--name", "k", "--scopes", "admin")
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let client = HTTPClient(service.url, key: key.trimmingCharacters(in: .whitespacesAndNewlines))
        let made = try await client.send("POST", "/v1/customers/c-1/tokens", body: Array("{}".utf8))
        let device = HTTPClient(service.url, key: try #require(made.json["token"] as? String, "\(made.text)"))
        let path = "/v1/customers/c-1/entitlements"
        #expect(try await device.send("GET", path).status == 403, "a token that is known may not read")
        #expect(try await installation.rightful("keys", "rotate-tokens", "--at-once").hasPrefix("key 2 makes"))
        var file = stat()
        #expect(stat(tokens, &file) == 0 && file.st_uid == account.user && file.st_mode & 0o777 == 0o600)
        try await Self.wait("the service reads the new key, which ended the former") {
            try await device.send("GET", path).status == 401
        }

        // PostgreSQL is started again by the user who serves.
        let killed = try #require(installation.postmaster)
        kill(killed, SIGKILL)
        try await Self.wait("PostgreSQL runs again") {
            guard let postmaster = installation.postmaster, postmaster != killed else { return false }
            return try await client.send("GET", "/v1/ledger").status == 200
        }
        let postmaster = try #require(installation.postmaster)
        #expect(stat("/proc/\(postmaster)", &file) == 0 && file.st_uid == account.user)
        let grant = Array(#"{"entitlement":"premium","reason":"r"}"#.utf8)
        let granted = try await client.send("POST", "/v1/customers/c-1/actions/grant", body: grant)
        #expect(granted.status == 200, "\(granted.text)")
        try Self.expectServing(service.processIdentifier, as: account, "at work")

        // By the account that serves, which may write to no directory of root's.
        let socket = try Self.socketDirectory(installation)
        #expect(access(socket, F_OK) == 0)
        #expect(service.stop() == 0, "\(service.logText)")
        #expect(installation.postmaster == nil, "the last to leave puts PostgreSQL away")
        #expect(access(socket, F_OK) != 0, "\(socket)")
        let written = try FileManager.default.contentsOfDirectory(atPath: checkpoints).sorted()
        #expect(written.count == 2, "at start and at stop: \(written)")
        #expect(!service.logText.contains(#""level":"error","message":"no checkpoint"#), "\(service.logText)")
        let last = "\(checkpoints)/\(try #require(written.last))"
        #expect(try await installation.rightful("verify", "--since", last).hasPrefix("verified: "))
        #expect(try await installation.rightful("status").contains("none is connected"))
    }

    @Test("a file that the service needs again and again, and that its user cannot read, is refused in one line")
    func unreadable() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        // Beside the data, where only root may pass.
        #expect(chmod(installation.dataDirectory.path(), 0o700) == 0)
        let tokens = installation.dataDirectory.appending(path: "tokens").path()
        try installation.configure(["token_key_path": tokens])
        let (status, _, errors) = try await installation.run(["serve"])
        let lines = errors.split(separator: "\n").filter { !$0.hasPrefix("{") }
        #expect(status == 1 && lines.count == 1, "\(errors)")
        #expect(
            lines.first?.contains("token_key_path: \(tokens) cannot be read by the user rightful") == true, "\(errors)")
        #expect(installation.postmaster == nil)
    }

    private static let canHideAccounts = canUnshare(["--mount", "mount", "--bind", "/etc/passwd", "/etc/passwd"])
    private static let canBeFirst = canUnshare(["--pid", "--fork", "--mount-proc", "true"])

    private static func canUnshare(_ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/unshare")
        process.arguments = arguments
        process.standardError = FileHandle.nullDevice
        try? process.runAlone()
        return process.waitForEnd() == 0
    }

    /// What Docker leaves to root, unless it is told otherwise: to look at another account's processes is not among it.
    private static let container = [
        "/usr/bin/setpriv", "--inh-caps=-all",
        "--bounding-set=-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,"
            + "+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap",
    ]

    /// The processes that a process is the parent of, with their states, such as `Z`.
    private static func children(of process: pid_t) throws -> [(id: pid_t, state: Substring)] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { pid_t($0) }.compactMap { id in
            let line = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8)
            let words = line?.split(separator: ")").last?.split(separator: " ") ?? []
            guard words.count > 1, pid_t(words[1]) == process else { return nil }
            return (id, words[0])
        }
    }

    @Test(
        "in a container root puts PostgreSQL away, and process 1 collects what a PostgreSQL that was killed leaves",
        .enabled(if: canBeFirst, "needs the right to have process ids of its own"))
    func inContainer() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let first = ["/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        let service = try await ServiceProcess.start(installation, through: first + Self.container)
        let key = try await installation.adminKey()
        let id = try #require(try Self.children(of: service.processIdentifier).first?.id)
        let killed = installation.postmaster
        for child in try Self.children(of: id) { kill(child.id, SIGKILL) }
        let client = HTTPClient(service.url, key: key)
        try await Self.wait("PostgreSQL runs again, and nothing is left of the one before") {
            guard installation.postmaster != killed, try await client.send("GET", "/v1/ledger").status == 200 else {
                return false
            }
            return try Self.children(of: id).allSatisfy { $0.state != "Z" }
        }
        kill(id, SIGTERM)
        #expect(service.end(by: 0) == 0, "\(service.logText)")
        #expect(installation.postmaster == nil)

        // One that nobody stopped is stopped by the next, who did not start it.
        let second = try await ServiceProcess.start(installation)
        second.killWithoutWarning()
        #expect(installation.postmaster != nil)
        let begun = ContinuousClock.now
        let (status, output, errors) = try await installation.run(["status"], through: Self.container)
        #expect(status == 0 && errors.isEmpty && output.contains("schema"), "\(output)\(errors)")
        #expect(begun.duration(to: .now) < .seconds(20))
        #expect(installation.postmaster == nil, "the last to leave puts PostgreSQL away")
    }

    @Test(
        "without an account to serve as root does not serve, and says how to make one",
        .enabled(if: canHideAccounts, "needs the right to mount in a name space of its own"))
    func noAccount() async throws {
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        let passwd = installation.directory.appending(path: "passwd").path()
        for (pattern, line, says) in [
            ("^rightful:", "", "useradd --system"),
            ("^rightful:", "rightful:x:0:0::/nonexistent:/usr/sbin/nologin", "has the rights of root"),
        ] {
            let script = """
                grep -v '\(pattern)' /etc/passwd > "$0"; echo '\(line)' >> "$0"
                mount --bind "$0" /etc/passwd && exec "$@"
                """
            for arguments in [
                ["serve"], ["serve", "--database-url", "postgresql://127.0.0.1:1/d"],
                ["keys", "create", "--name", "n", "--scopes", "admin"],
            ] {
                let (status, output, errors) = try await installation.run(
                    arguments, through: ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", script, passwd])
                #expect(status == 1 && output.isEmpty, "\(arguments): \(output)")
                #expect(errors.split(separator: "\n").count == 1 && errors.contains(says), "\(arguments): \(errors)")
            }
        }
        #expect(!FileManager.default.fileExists(atPath: installation.dataDirectory.path()), "nothing was made")
    }
}
