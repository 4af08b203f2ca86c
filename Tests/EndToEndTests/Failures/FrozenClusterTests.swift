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

    @Test("told to stop while its connections say nothing, serve says so and lets nobody in at once")
    func frozenConnections() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let service = try await ServiceProcess.start(installation)
        let backends = try #require(ServerProcesses(of: installation)).backends
        #expect(!backends.isEmpty)
        for id in backends { kill(id, SIGSTOP) }
        // What runs in the background asks each second, and waits for half a minute then.
        try await Task.sleep(for: .seconds(3))
        service.signal(SIGTERM)
        var isRefused = false
        while !isRefused, service.isRunning {
            do {
                _ = try await HTTPClient(service.url, key: "", attempts: 1).send("GET", "/healthz")
                try await Task.sleep(for: .milliseconds(10))
            } catch {
                isRefused = true
            }
        }
        let log = service.logText
        #expect(isRefused && !log.contains("ending its processes"), "\(log.suffix(2000))")
        // A line of the log comes by another way than the refusal, and may be read after it.
        for _ in 0..<200 where !service.logText.contains(#""stopping""#) {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(service.logText.contains(#""stopping""#), "\(service.logText.suffix(2000))")
        // Nothing is sent to it: it has been told, and ends what is frozen after three seconds.
        #expect(service.end(by: 0) == 0, "\(service.logText.suffix(2000))")
        #expect(service.logText.contains("ending its processes"), "\(service.logText.suffix(2000))")
    }

    @Test("where one of its processes is killed the service's log says which and by what, and where more is to be read")
    func killedProcess() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let service = try await ServiceProcess.start(installation)
        let killed = try #require(ServerProcesses(of: installation)?.backends.first)
        kill(killed, SIGKILL)
        let words = "server process (PID \(killed)) was terminated by signal 9"
        for _ in 0..<1000 where !service.logText.contains(words) { try await Task.sleep(for: .milliseconds(10)) }
        let line = service.logText.split(separator: "\n").first { $0.contains(words) } ?? ""
        #expect(
            line.contains(#""level":"warning""#) && line.contains("postgres.log"), "\(service.logText.suffix(2000))")
        #expect(service.stop() == 0, "\(service.logText.suffix(2000))")
    }

    @Test("where the socket is gone, connections that were made before hide nothing: not ready, then started again")
    func socketGone() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: try await installation.adminKey(), attempts: 1)
        let file = installation.dataDirectory.appending(path: "postgres/postmaster.pid")
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        // As a `/tmp` that is tidied loses it.
        try FileManager.default.removeItem(atPath: String(try #require(lines.dropFirst(4).first)))
        #expect(try await client.readiness(toBe: 503).status == 503)
        #expect(try await client.readiness(toBe: 200).status == 200, "\(service.logText.suffix(2000))")
        let granted = try await client.send(
            "POST", "/v1/customers/ann/actions/grant", body: Array(#"{"entitlement":"pro","reason":"a test"}"#.utf8),
            headers: ["Idempotency-Key": "k-1"])
        #expect(granted.status == 200, "\(granted.text)")
        #expect(try await installation.run(["status"]).status == 0)
        #expect(service.stop() == 0)
    }

    /// Whether nothing but perhaps an entry that nobody has collected is left of a process.
    private static func hasEnded(_ id: pid_t) -> Bool {
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8) else { return true }
        return text.contains(") Z ")
    }
}
