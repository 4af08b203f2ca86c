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
            let layout = try ClusterLayout(dataDirectory: scratch)
            let own = try #require(layout.postmaster())
            let text = try String(contentsOfFile: layout.processFile, encoding: .utf8)
            for written in ["-1", "0", "1", "\(getpid())", "\(getppid())", "99999999999", ""] {
                try Data(text.replacing("\(own)\n", with: "\(written)\n", maxReplacements: 1).utf8)
                    .write(to: URL(filePath: layout.processFile))
                #expect(layout.postmaster() == nil, "\(written)")
            }
            try Data(text.utf8).write(to: URL(filePath: layout.processFile))
            #expect(layout.postmaster() == own)
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
}
