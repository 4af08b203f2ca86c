import EmbeddedPostgres
import Foundation
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

/// Commands whose reader is gone, or that are started in surroundings that are not meant for them.
@Suite("Commands in odd surroundings", .serialized)
struct UnseenOutputTests {
    /// Its standard output fails, or has no reader any more once the command prints; its status goes to standard error.
    private static let unseen = [#""$@" >/dev/full; echo $? >&2"#, #"{ sleep 0.2; "$@"; echo $? >&2; } | true"#]

    @Test("an endpoint whose secret nobody could see is deleted, and the command says so and fails", arguments: unseen)
    func unseenSecret(script: String) async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let shell = ["/bin/sh", "-c", script, "sh"]
        let made = try await installation.run(["webhooks", "create", "https://example.com/a"], through: shell)
        let lines = made.errors.split(whereSeparator: \.isNewline)
        #expect(lines.count == 2 && lines.last == "1", "\(made.errors)")
        #expect(made.errors.contains("so the endpoint was deleted again (we_"), "\(made.errors)")
        #expect(try await !installation.rightful("webhooks", "list", "--json").contains("example.com"))

        let id = try await installation.run(["webhooks", "create", "https://example.com/b"]).errors
            .firstMatch(of: /we_[A-Za-z0-9_-]+/)
        let rotated = try await installation.run(
            ["webhooks", "rotate", String(try #require(id).0)], through: shell)
        #expect(rotated.errors.hasSuffix("rotate it once more\n1\n"), "\(rotated.errors)")
    }

    @Test("verify exits with 1 at a difference, also where nobody reads what it prints")
    func unseenDifference() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        _ = try await installation.adminKey()
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await owner.execute(
            script: "ALTER TABLE event DISABLE TRIGGER USER; UPDATE event SET hash = sha256('another')")
        try await cluster.release()
        let verified = try await installation.run(
            ["verify", "--quick", "--json"], through: ["/bin/sh", "-c", Self.unseen[1], "sh"])
        #expect(verified.errors.contains("the first difference"), "\(verified.errors)")
        #expect(verified.errors.hasSuffix("\n1\n"), "\(verified.errors)")
    }

    @Test("what libpq reads from the environment does not lead away from the database of the data directory")
    func foreignVariables() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let shell = [
            "/usr/bin/env", "PGHOSTADDR=127.0.0.1", "PGSERVICE=theirs", "PGREQUIREPEER=nobody",
            "PGOPTIONS=-c nonsense=1",
            "PGCHANNELBINDING=require",
        ]
        let listed = try await installation.run(["keys", "list"], through: shell)
        #expect(listed.status == 0, "\(listed.errors)")
    }

    @Test("a terminal that is closed stops the service in order, its PostgreSQL too, unless that is not to be noticed")
    func hangup() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let kept = try await ServiceProcess.start(installation, through: ["/usr/bin/nohup"])
        kept.signal(SIGHUP)
        try await Task.sleep(for: .milliseconds(300))
        #expect(kept.isRunning)
        kept.stop()

        let service = try await ServiceProcess.start(installation)
        #expect(service.end(by: SIGHUP) == 0)
        #expect(service.logText.contains("\"stopped\""), "\(service.logText)")
        #expect(installation.postmaster == nil)
    }
}
