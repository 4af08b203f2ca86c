import Testing

@testable import Service

@Suite("Waits with a limit", .timeLimit(.minutes(1)))
struct DeadlineTests {
    @Test("what comes in time is what is waited for, and nothing is what comes when the time is up")
    func limit() async throws {
        #expect(try await within(.seconds(30)) { 7 } == 7)
        let late = try await within(.milliseconds(20)) {
            try await Task.sleep(for: .seconds(30))
            return 7
        }
        #expect(late == nil)
    }

    @Test("whoever is cancelled is told so, and not that the time was up")
    func cancelled() async throws {
        let waiting = Task {
            try await within(.seconds(30)) { try await Task.sleep(for: .seconds(30)) }
        }
        try await Task.sleep(for: .milliseconds(50))
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }
}
