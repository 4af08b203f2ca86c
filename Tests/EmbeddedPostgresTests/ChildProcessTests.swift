import Testing

@testable import EmbeddedPostgres

@Suite("Programs that are run")
struct ChildProcessTests {
    @Test("each ends as it says, or as the signal that ended it")
    func ends() throws {
        #expect(try ChildProcess.run(["/bin/sh", "-c", "echo done; exit 3"]) == (3, "done\n"))
        #expect(try ChildProcess.run(["/bin/sh", "-c", "kill -9 $$"]).status == 137)
    }

    @Test("one of which the system tells nothing has not succeeded")
    func unknown() {
        // Process 1 is nobody's child; so is one that the kernel has collected because its end is ignored.
        #expect(throws: EmbeddedPostgresError.self) { try ChildProcess.end(of: 1) }
        #expect(!ChildProcess.isRunning(1))
    }
}
