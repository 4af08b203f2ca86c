import EmbeddedPostgres
import Foundation
import Glibc
import PostgresClient
import Testing

/// Root administers what an unprivileged user serves; only root can play both.
@Suite("The embedded cluster of another user", .enabled(if: geteuid() == 0))
struct OwnershipTests {
    private let options = EmbeddedCluster.Options(durability: .throwaway, startLimit: .seconds(60))

    @Test("what root starts in somebody's data directory is theirs: the cluster, its locks and its log")
    func startedByRoot() async throws {
        try await withScratchDirectory { scratch in
            let nobody = try #require(getpwnam("nobody")).pointee
            try #require(chown(scratch, nobody.pw_uid, nobody.pw_gid) == 0)
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let names = try FileManager.default.contentsOfDirectory(atPath: scratch)
            #expect(names.count >= 4)
            for name in names {
                var status = stat()
                #expect(stat("\(scratch)/\(name)", &status) == 0)
                #expect(status.st_uid == nobody.pw_uid, "\(name)")
            }
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
