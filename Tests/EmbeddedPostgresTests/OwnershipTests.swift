import Foundation
import Glibc
import PostgresClient
import Testing

@testable import EmbeddedPostgres

/// Root administers what an unprivileged user serves; only root can play both.
@Suite("The embedded cluster of another user", .enabled(if: geteuid() == 0))
struct OwnershipTests {
    private let options = EmbeddedCluster.Options(durability: .throwaway, startLimit: .seconds(60))

    @Test("root works in no directory that somebody else owns or may write to")
    func foreignDirectories() async throws {
        try await withScratchDirectory { scratch in
            let nobody = try #require(getpwnam("nobody")).pointee
            try #require(chown(scratch, nobody.pw_uid, nobody.pw_gid) == 0)
            var error = await #expect(throws: EmbeddedPostgresError.self) {
                try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            }
            #expect(error?.description.contains("belongs to the user nobody") == true, "\(String(describing: error))")
            try #require(chown(scratch, 0, 0) == 0 && chmod(scratch, 0o777) == 0)
            error = await #expect(throws: EmbeddedPostgresError.self) {
                try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            }
            #expect(error?.description.contains("others may write") == true, "\(String(describing: error))")
            #expect(try FileManager.default.contentsOfDirectory(atPath: scratch).isEmpty)
            try #require(chmod(scratch, 0o700) == 0)
        }
    }

    @Test(
        "a link in the place of a lock or the log is not followed", arguments: ["postgres.start.lock", "postgres.log"])
    func links(name: String) async throws {
        try await withScratchDirectory { scratch in
            let target = scratch + "/target"
            try #require(symlink(target, "\(scratch)/\(name)") == 0)
            await #expect(throws: EmbeddedPostgresError.self) {
                try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            }
            #expect(!FileManager.default.fileExists(atPath: target))
        }
    }

    @Test("no process id but that of the cluster's own postmaster is believed")
    func foreignProcess() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let server = try ServiceAccount.own()
            let opened = try #require(
                try Cluster(of: ClusterLayout(dataDirectory: scratch, server: server), server: server))
            let own = try #require(try opened.postmaster())
            let file = "\(scratch)/postgres/postmaster.pid"
            let text = try String(contentsOfFile: file, encoding: .utf8)
            for written in ["-1", "0", "1", "\(getpid())", "\(getppid())", "99999999999", ""] {
                try Data(text.replacing("\(own)\n", with: "\(written)\n", maxReplacements: 1).utf8)
                    .write(to: URL(filePath: file))
                #expect(try opened.postmaster() == nil, "\(written)")
            }
            try Data(text.utf8).write(to: URL(filePath: file))
            #expect(try opened.postmaster() == own)
            try await cluster.release()
        }
    }

    @Test("root meets a server in the socket directory that its own user chose")
    func startedByOwner() async throws {
        try await withScratchDirectory { scratch in
            let first = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await first.release()
            var data = stat()
            var cluster = stat()
            try #require(stat(scratch, &data) == 0 && stat(scratch + "/postgres", &cluster) == 0)
            // Where a server of that user lies that could not write to /run.
            let place =
                "/tmp/rightful-\(cluster.st_uid)-" + String(data.st_dev, radix: 36) + "-"
                + String(data.st_ino, radix: 36)
            try #require(mkdir(place, 0o700) == 0 && chown(place, cluster.st_uid, cluster.st_gid) == 0)
            let second = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            #expect(second.serveConninfo.contains("host=\(place) "))
            try await second.release()
        }
    }

    @Test("a cluster of another account's, such as the system's postgres, is refused in one line, and left as it is")
    func foreignCluster() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            let nobody = try #require(getpwnam("nobody")).pointee
            try #require(chown(scratch + "/postgres", nobody.pw_uid, nobody.pw_gid) == 0)
            let error = await #expect(throws: EmbeddedPostgresError.self) {
                try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            }
            #expect(error?.description.contains("belongs to the user nobody") == true, "\(String(describing: error))")
            #expect(error?.description.contains("chown -R rightful: \(scratch)/postgres") == true)
            #expect(error?.description.contains("\n") == false)
            #expect(access(scratch + "/postgres/postmaster.pid", F_OK) != 0)
        }
    }

    @Test("other accounts of the machine do not pass, even where the socket stands open to all")
    func otherAccounts() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let account = try ServiceAccount.own()
            let sockets = String(cluster.ownerConninfo.drop { $0 != "=" }.dropFirst().prefix { $0 != " " })
            var status = stat()
            #expect(stat("\(scratch)/postgres/base", &status) == 0 && status.st_uid == account.user)
            #expect(cluster.serverAccount == account.name)
            for isOpen in [false, true] {
                if isOpen { #expect(chmod(sockets, 0o711) == 0 && chmod("\(sockets)/.s.PGSQL.5432", 0o777) == 0) }
                for (user, role, isLetIn) in [
                    (account.user, EmbeddedCluster.owner, true), (account.user, EmbeddedCluster.server, true),
                    (0, EmbeddedCluster.owner, true),
                    (try #require(getpwnam("nobody")).pointee.pw_uid, "rightful", false),
                    (try #require(getpwnam("postgres")).pointee.pw_uid, EmbeddedCluster.owner, false),
                    (try #require(getpwnam("postgres")).pointee.pw_uid, EmbeddedCluster.server, false),
                    (try #require(getpwnam("postgres")).pointee.pw_uid, "postgres", false),
                ] {
                    let (result, output) = try ChildProcess.run([
                        "/usr/bin/setpriv", "--reuid=\(user)", "--clear-groups", "--", "/usr/bin/psql", "-XAtc",
                        "SELECT 7",
                        "host=\(sockets) user=\(role) dbname=postgres",
                    ])
                    #expect((result == 0 && output == "7\n") == isLetIn, "\(user) as \(role): \(output)")
                    let refusal = isOpen ? "Peer authentication failed" : "Permission denied"
                    #expect(isLetIn || output.contains(refusal), "\(user) as \(role): \(output)")
                }
            }
            try await cluster.release()
        }
    }

    @Test("what root may not do for another user's sake, such as following links there, it does not do")
    func linksInTheCluster() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            let target = scratch + "/target"
            for name in ["pg_hba.conf", "pg_ident.conf", "PG_VERSION"] {
                let place = "\(scratch)/postgres/\(name)"
                try Data("root's own\n".utf8).write(to: URL(filePath: target))
                try #require(rename(place, place + ".kept") == 0)
                // A link, another name of a file of root's, and what would make a reader wait for ever.
                for make in [{ symlink(target, place) }, { link(target, place) }, { mkfifo(place, 0o644) }] {
                    try #require(make() == 0)
                    await #expect(throws: EmbeddedPostgresError.self, "\(name)") {
                        try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
                    }
                    try #require(unlink(place) == 0)
                }
                #expect(try String(contentsOfFile: target, encoding: .utf8) == "root's own\n", "\(name)")
                try #require(rename(place + ".kept", place) == 0)
            }
            let again = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await again.release()
        }
    }
}
