import Foundation
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
        #expect(ServerSettings(.durable, memory: memory).sharedBuffers == expected)
        #expect(ServerSettings(.durable, memory: memory).text.contains("shared_buffers = \(expected)MB\n"))
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
            ("0::/app\n", ["/sys/fs/cgroup/app/memory.max": "max\n"], nil),
            ("3:cpu:/app\n", ["/sys/fs/cgroup/cpu/app/memory.limit_in_bytes": "1048576\n"], nil),
            ("nonsense\n\n::\n", [:], nil),
        ] as [(String, [String: String], Int?)])
    func groups(memberships: String, files: [String: String], expected: Int?) {
        #expect(MachineMemory.groupLimit(memberships: memberships) { files[$0] } == expected)
    }

    @Test("the machine's memory is no more than the system says")
    func machine() throws {
        let total = try String(contentsOfFile: "/proc/meminfo", encoding: .utf8).split(whereSeparator: \.isWhitespace)[
            1]
        let kibibytes = try #require(Int(total))
        #expect((1...(kibibytes / 1024 + 1)).contains(MachineMemory.available()))
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
            // A link that the server's account might put in its place is not followed.
            try FileManager.default.removeItem(at: file)
            let target = scratch + "/target"
            try FileManager.default.createSymbolicLink(atPath: file.path, withDestinationPath: target)
            #expect(try await atStart("ALTER SYSTEM RESET ALL") == "17MB")
            #expect(!FileManager.default.fileExists(atPath: target))
            #expect(try await atStart("SELECT") == "32MB")
        }
    }
}
