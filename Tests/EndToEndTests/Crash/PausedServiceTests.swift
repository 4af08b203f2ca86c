import Foundation
import Glibc
import Testing

/// A machine may stand still for a while: a virtual one that is moved, a laptop that is closed.
@Suite("A service that stood still", .serialized, .timeLimit(.minutes(2)))
struct PausedServiceTests {
    @Test("what was under way is answered when it goes on, and not refused for having taken so long")
    func paused() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key, attempts: 1)
        let head = try await client.head()
        async let waiting = client.send(
            "GET", "/v1/customers/c-1/entitlements", query: ["min_position": "\(head + 1)"])
        try await Task.sleep(for: .seconds(1))
        service.signal(SIGSTOP)
        try await Task.sleep(for: .seconds(11))
        service.signal(SIGCONT)
        // Nobody has recorded anything meanwhile, which is what it waited for.
        let answer = try await waiting
        #expect(answer.status == 409, "\(answer.text)")
        #expect(try await client.send("GET", "/v1/customers/c-1/entitlements").status == 200)
    }
}
