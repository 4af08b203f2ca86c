import Foundation
import Glibc
import PostgresClient
import Testing

@testable import EmbeddedPostgres

@Suite("The embedded cluster's settings")
struct ServerSettingsTests {
    private let options = EmbeddedCluster.Options(durability: .throwaway, startLimit: .seconds(60))

    @Test(
        "buffers are a quarter of the memory beyond the first GiB, within limits",
        arguments: [(512, 64), (1024, 64), (2048, 256), (4096, 768), (16_384, 3840), (1 << 20, 8192)])
    func buffers(memory: Int, expected: Int) {
        let settings = ServerSettings(.durable, memory: memory, disk: nil)
        #expect(settings.sharedBuffers == expected)
        #expect(settings.text.contains("shared_buffers = \(expected)MB\n"))
    }

    @Test(
        "the write-ahead log may take a quarter of the file system, within limits",
        arguments: [
            (100, 256), (1024, 256), (2048, 512), (10_240, 2560), (16_384, 4096), (1_000_000_000, 4096), (nil, 4096),
        ] as [(Int?, Int)])
    func logSize(disk: Int?, expected: Int) {
        let settings = ServerSettings(.durable, memory: 1024, disk: disk)
        #expect(settings.logSize == expected)
        #expect(settings.text.contains("max_wal_size = \(expected)MB\n"))
    }

    @Test("the file system's size is the one that df says, and PostgreSQL is started with what follows from it")
    func fileSystem() async throws {
        try await withScratchDirectory { scratch in
            let (status, output) = try ChildProcess.run(["/usr/bin/df", "--output=size", "--block-size=1M", scratch])
            #expect(status == 0, "\(output)")
            let size = try #require(output.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) })
            // `df` rounds up.
            let found = try #require(try Descriptor.open(scratch, O_RDONLY | O_DIRECTORY).fileSystemMebibytes)
            #expect((size - 1...size).contains(found))
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch)
            let connection = try await PostgresConnection.connect(cluster.ownerConninfo)
            let limit = try await connection.run { connection in
                try connection.query("SELECT setting FROM pg_settings WHERE name = 'max_wal_size'").row(0).text(0)
            }
            #expect(limit == "\(ServerSettings(.durable, memory: 1024, disk: found).logSize)")
            try await cluster.release()
        }
    }

    @Test(
        "the least limit of a control group, or of one above it, counts",
        arguments: [
            ("0::/app\n", ["/sys/fs/cgroup/app/memory.max": "2147483648\n"], 2048),
            ("0::/\n", ["/sys/fs/cgroup/memory.max": "1073741824\n"], 1024),
            (
                "0::/user.slice/app.service\n",
                [
                    "/sys/fs/cgroup/user.slice/app.service/memory.max": "max\n",
                    "/sys/fs/cgroup/user.slice/memory.max": "536870912\n",
                    "/sys/fs/cgroup/memory.max": "1073741824\n",
                ], 512
            ),
            (
                "5:cpu,memory:/docker/x\n0::/\n",
                ["/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "3221225472\n"], 3072
            ),
            // In a container the files of the machine's path are not seen, but its own root is.
            ("4:memory:/docker/x\n", ["/sys/fs/cgroup/memory/memory.limit_in_bytes": "4294967296\n"], 4096),
            (
                "0::/app\n",
                [
                    "/sys/fs/cgroup/app/memory.max": "2147483648\n", "/sys/fs/cgroup/app/memory.high": "1610612736\n",
                    "/sys/fs/cgroup/memory.high": "max\n",
                ], 1536
            ),
            ("0::/app\n", ["/sys/fs/cgroup/app/memory.max": "max\n"], nil),
            ("3:cpu:/app\n", ["/sys/fs/cgroup/cpu/app/memory.limit_in_bytes": "1048576\n"], nil),
            ("nonsense\n\n::\n", [:], nil),
        ] as [(String, [String: String], Int?)])
    func groups(memberships: String, files: [String: String], expected: Int?) {
        #expect(MachineMemory.groupLimit(memberships: memberships) { files[$0] } == expected)
    }

    @Test(
        "a container may be told its limit by meminfo alone",
        arguments: [
            ("MemTotal:        2097152 kB\nMemFree:          100 kB\n", 2048), ("MemFree: 100 kB\n", nil),
            ("MemTotal: much kB\n", nil), ("", nil),
        ] as [(String, Int?)])
    func meminfo(text: String, expected: Int?) {
        #expect(MachineMemory.total(inMeminfo: text) == expected)
    }

    @Test("the machine's memory is no more than the system says")
    func machine() throws {
        let total = MachineMemory.total(inMeminfo: try String(contentsOfFile: "/proc/meminfo", encoding: .utf8))
        #expect((1...(try #require(total))).contains(MachineMemory.available()))
    }

    @Test("settings are written at every start, and ALTER SYSTEM overrides them")
    func everyStart() async throws {
        try await withScratchDirectory { scratch in
            func atStart(_ statement: String) async throws -> String {
                let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
                let connection = try await PostgresConnection.connect(cluster.ownerConninfo)
                let buffers = try await connection.run { connection in
                    try connection.execute(script: statement)
                    return try connection.query("SELECT current_setting('shared_buffers')").row(0).text(0)
                }
                try await cluster.release()
                return buffers
            }
            #expect(try await atStart("SELECT") == "32MB")
            let file = URL(filePath: "\(scratch)/postgres/\(ServerSettings.file)")
            try Data("shared_buffers = 4000GB\n".utf8).write(to: file)
            #expect(try await atStart("ALTER SYSTEM SET shared_buffers = '17MB'") == "32MB")
            #expect(try await atStart("SELECT") == "17MB")
            // As after `pg_upgrade`, or where somebody began anew.
            let main = URL(filePath: "\(scratch)/postgres/postgresql.conf")
            try Data("shared_buffers = 23MB\n".utf8).write(to: main)
            #expect(try await atStart("ALTER SYSTEM RESET ALL") == "17MB")
            #expect(try await atStart("SELECT") == "32MB")
            #expect(
                try String(contentsOf: main, encoding: .utf8) == "shared_buffers = 23MB\n\ninclude 'rightful.conf'\n")
            try Data("include 'rightful.conf'\nshared_buffers = 23MB\n".utf8).write(to: main)
            #expect(try await atStart("SELECT") == "23MB")
        }
    }

    @Test("what the server's account might put in the place of the settings is not followed")
    func links() async throws {
        try await withScratchDirectory { scratch in
            let cluster = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            try await cluster.release()
            let target = scratch + "/target"
            let place = "\(scratch)/postgres/\(ServerSettings.file)"
            try Data("root's own\n".utf8).write(to: URL(filePath: target))
            for make in [{ symlink(target, place) }, { link(target, place) }, { mkfifo(place, 0o644) }] {
                try #require(unlink(place) == 0)
                try #require(make() == 0)
                let again = try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
                try await again.release()
                #expect(try String(contentsOfFile: target, encoding: .utf8) == "root's own\n")
                #expect(try String(contentsOfFile: place, encoding: .utf8).contains("shared_buffers = 32MB"))
            }
            try #require(unlink(place) == 0 && mkdir(place, 0o700) == 0)
            await #expect(throws: EmbeddedPostgresError.self) {
                try await EmbeddedCluster.acquire(dataDirectory: scratch, options: options)
            }
        }
    }
}
