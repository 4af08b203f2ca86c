import EmbeddedPostgres
import Foundation
import Glibc
import PostgresClient
import Testing

@Suite("The files of an embedded cluster")
struct ClusterFilesTests {
    private let options = EmbeddedCluster.Options(durability: .throwaway, startLimit: .seconds(60))

    @Test("a cluster that was opened to a group, as a volume is at each mount, is closed again before it is served")
    func openToGroup() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            #expect(chmod(scratch + "/postgres", 0o2770) == 0)
            let again = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            var status = stat()
            #expect(stat(scratch + "/postgres", &status) == 0 && status.st_mode & 0o077 == 0)
            try await again.release()
        }
    }

    @Test("a cluster of a version that is too old is refused, rather than that version asked for")
    func oldVersion() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            try Data("12\n".utf8).write(to: URL(fileURLWithPath: scratch + "/postgres/PG_VERSION"))
            let error = await #expect(throws: EmbeddedPostgresError.self) {
                _ = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            }
            #expect(error?.description.contains("15 is the oldest") == true, "\(String(describing: error))")
        }
    }

    @Test("a copy of a server that archives its log writes nothing into the archive")
    func archiving() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch + "/data", options: options)
            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            try await owner.execute(script: "ALTER SYSTEM SET archive_mode = always")
            #expect(try await cluster.backUp(to: scratch + "/copy").isArchivingStopped)
            try await cluster.release()
            let copy = try await EmbeddedCluster.acquire(dataDirectory: scratch + "/copy", options: options)
            let mode = try await PostgresConnection.connect(copy.ownerConninfo).run {
                try $0.query("SELECT current_setting('archive_mode')").row(0).text(0)
            }
            #expect(mode == "off")
            #expect(try await !copy.backUp(to: scratch + "/another").isArchivingStopped)
            try await copy.release()
        }
    }

    @Test("the server's log has what fails behind the sessions, and nothing of what they are refused")
    func serverLog() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            let file = try await owner.run { connection in
                try connection.execute(script: "CREATE TABLE spoilt (n int); CHECKPOINT; INSERT INTO spoilt VALUES (1)")
                return try connection.query("SELECT pg_relation_filepath('spoilt')").row(0).text(0)
            }
            for conninfo in [cluster.ownerConninfo, cluster.serveConninfo] {
                let session = try await PostgresConnection.connect(conninfo)
                let refused = "SELECT 'ann@example.com'::bigint"
                let warned = "DO $$ BEGIN RAISE WARNING 'ann@example.com'; END $$"
                for statement in [refused, warned] { _ = try? await session.run { try $0.execute(script: statement) } }
            }
            #expect(chmod("\(scratch)/postgres/\(file)", 0) == 0)
            await #expect(throws: PostgresError.self) { try await owner.execute(script: "CHECKPOINT") }
            let log = try String(contentsOfFile: cluster.logPath, encoding: .utf8)
            #expect(log.contains("ERROR:") && log.contains(file), "\(log)")
            #expect(!log.contains("ann@example.com") && !log.contains("checkpoint request failed"), "\(log)")
            #expect(chmod("\(scratch)/postgres/\(file)", 0o600) == 0)
            try await cluster.release()
        }
    }

    @Test("what the server says of a process that was killed is found in its log, once, and a stop says nothing")
    func deaths() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            #expect(await cluster.newDeaths() == [])
            let session = try await PostgresConnection.connect(cluster.serveConninfo)
            let process = await session.serverProcessID
            #expect(kill(pid_t(process), SIGKILL) == 0)
            var found: [String] = []
            for _ in 0..<1000 where found.isEmpty {
                found = await cluster.newDeaths()
                try await Task.sleep(for: .milliseconds(10))
            }
            #expect(found.count == 1, "\(found)")
            let line = found.first ?? ""
            #expect(line.contains("server process (PID \(process)) was terminated by signal 9"), "\(found)")
            try await cluster.ensureRunning()
            try await cluster.release()
            #expect(await cluster.newDeaths() == [])
        }
    }
}
