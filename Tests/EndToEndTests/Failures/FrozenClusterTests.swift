import Foundation
import Testing

/// An embedded PostgreSQL whose processes were stopped by a signal: it neither answers nor ends.
@Suite("An embedded PostgreSQL that is frozen", .serialized, .timeLimit(.minutes(10)))
struct FrozenClusterTests {
    @Test(
        "status says so within seconds, serve stops and ends it, and nothing that was acknowledged is lost",
        arguments: [Duration.zero, .seconds(12)])
    func frozen(_ duration: Duration) async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        let key = try await installation.rightful("keys", "create", "--name", "k", "--scopes", "admin")
        let before = try await installation.rightful("events")
        let processes = try #require(ServerProcesses(of: installation))
        let ids = processes.children + [processes.postmaster]
        for id in ids { kill(id, SIGSTOP) }
        // Also once the service has noticed, and tries to have it back.
        try await Task.sleep(for: duration)

        let asked = ContinuousClock.now
        let status = try await installation.run(["status"])
        #expect(status.status == 1 && status.output.isEmpty, "\(status)")
        #expect(status.errors.contains("does not answer") && status.errors.contains("frozen"), "\(status.errors)")
        #expect(status.errors.split(separator: "\n").count == 1)
        #expect(ContinuousClock.now - asked < .seconds(12))

        let told = ContinuousClock.now
        #expect(service.stop() == 0, "\(service.logText.suffix(2000))")
        #expect(ContinuousClock.now - told < .seconds(20), "\(service.logText.suffix(4000))")
        #expect(service.logText.contains("ending its processes"))
        // A process lets go of its files, by which its end is told, a moment before it has ended.
        for id in ids {
            for _ in 0..<500 where !Self.hasEnded(id) { try await Task.sleep(for: .milliseconds(10)) }
            #expect(Self.hasEnded(id), "\(id) is left")
        }

        let after = try await installation.rightful("events")
        #expect(after.hasPrefix(before) && key.hasPrefix("rightful_sk_"))
        #expect(try await installation.run(["verify"]).status == 0)
    }

    /// Whether nothing but perhaps an entry that nobody has collected is left of a process.
    private static func hasEnded(_ id: pid_t) -> Bool {
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8) else { return true }
        return text.contains(") Z ")
    }
}
