import EmbeddedPostgres
import Glibc
import Testing

@Suite("The data directory")
struct DataDirectoryTests {
    @Test("it is made with those above it, for its owner alone; why it cannot be is said in the system's words")
    func making() async throws {
        try await withScratchDirectory { scratch in
            for _ in 1...2 { try DataDirectory.make(scratch + "/a/b/c/") }
            var status = stat()
            for path in ["a", "a/b", "a/b/c"] {
                #expect(stat("\(scratch)/\(path)", &status) == 0 && status.st_mode & 0o777 == 0o700, "\(path)")
            }
        }
        // Nobody may make anything in the first, and the others are none.
        for (path, reason) in [
            ("/proc/none/data", "No such file or directory"), ("/etc/passwd", "File exists"),
            ("/etc/passwd/data", "Not a directory"),
        ] {
            let error = #expect(throws: EmbeddedPostgresError.self) { try DataDirectory.make(path) }
            #expect(error?.description == "cannot make the data directory (data_dir) \(path): \(reason)")
        }
    }
}
