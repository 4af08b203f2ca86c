import Foundation
import TestSupport
import Testing

/// The benchmark of webhooks, small: that it measures, not what.
@Suite("The benchmark of webhooks", .serialized)
struct WebhookBenchTests {
    private struct Run: Decodable {
        struct Figure: Decodable {
            struct Limit: Decodable { let value: Double }

            let row: String
            let name: String
            let value: Double
            let limit: Limit?
        }

        let figures: [Figure]
    }

    @Test("it tells every endpoint, beside one that never answers", .timeLimit(.minutes(5)))
    func small() async throws {
        let directory = ScratchSpace.directory.appending(path: "bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let process = Process()
        process.executableURL = try Products.url("rightful-bench")
        process.arguments = [
            "webhooks", "--endpoints", "12", "--seconds", "1", "--rounds", "1", "--json", "--directory",
            directory.path(),
        ]
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try await process.runWithAllSignals()
        async let said = Installation.read(output)
        async let complaints = Installation.read(errors)
        let texts = await (said, complaints)
        try #require(process.waitForEnd() == 0, "\(texts)")
        let run = try JSONDecoder().decode(Run.self, from: Data(texts.0.utf8))
        #expect(
            run.figures.map(\.name) == ["12 endpoints", "12 endpoints and one that never answers: the others' p99"])
        #expect(run.figures.allSatisfy { $0.row == "webhooks" && $0.value > 0 && ($0.limit?.value ?? 0) > 0 })
    }
}
