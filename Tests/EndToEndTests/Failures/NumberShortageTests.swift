import Foundation
import TestSupport
import Testing

/// A database that has given out all its numbers of transactions, because it was not vacuumed.
@Suite("A database without numbers of transactions", .timeLimit(.minutes(3)))
struct NumberShortageTests {
    /// Leaves 2,000 million transactions behind the oldest that is kept, which nothing cleans up in the time of a test.
    private static let exhaust = """
        set -eu
        bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
        as=""
        # That account may not pass the directories above, and the program leaves the one it is in.
        cd "$1"
        exec 3<.
        [ "$(id -u)" != 0 ] || as="setpriv --reuid=$(stat -c %u .) --regid=$(stat -c %g .) --clear-groups"
        $as "$bin/pg_resetwal" -x 2145500000 -D /proc/self/fd/3 >/dev/null
        $as dd if=/dev/zero of="pg_xact/$(printf %04X $((2145500000 / 1048576)))" bs=262144 count=1 2>/dev/null
        printf '%s\\n' 'autovacuum_vacuum_cost_delay = 100ms' 'autovacuum_vacuum_cost_limit = 1' >>postgresql.conf
        """

    @Test("answers that nothing can be recorded as for a full disk, and status says why and what to do")
    func exhausted() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let key = try await installation.adminKey()
        // The first to serve records its keys.
        #expect(try await ServiceProcess.start(installation).stop() == 0)
        let process = Process()
        process.executableURL = URL(filePath: "/bin/bash")
        process.arguments = ["-c", Self.exhaust, "bash", installation.dataDirectory.appending(path: "postgres").path()]
        try process.runAlone()
        #expect(process.waitForEnd() == 0)

        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: key, attempts: 1)
        let answer = try await client.send(
            "POST", "/v1/customers/ann/actions/grant",
            body: Array(#"{"entitlement":"premium","reason":"a test"}"#.utf8))
        #expect(answer.status == 503 && answer.text.contains(#""unavailable""#), "\(answer.text)")
        #expect(answer.headers["retry-after"] != nil, "\(answer.headers)")
        #expect(try await client.send("GET", "/v1/customers/ann/entitlements").status == 200)
        #expect(try await client.send("GET", "/readyz").status == 200)
        for _ in 0..<500 where !service.logText.contains("work behind the service fails") {
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(service.logText.contains("(SQLSTATE 54000)"), "\(service.logText.suffix(3000))")
        let metrics = try await client.send("GET", "/metrics").text
        #expect(metrics.contains("rightful_appends_failing 1\n"))
        let status = try await installation.rightful("status")
        let words = /running out +21\d\d of 2147 million numbers of transactions are used up since the database \S+ was/
        #expect(status.contains(words), "\(status)")
        #expect(status.contains("the database runs out of numbers of transactions"), "\(status)")
        #expect(service.stop() == 0)
    }
}
