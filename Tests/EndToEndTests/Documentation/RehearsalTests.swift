import Foundation
import StoreSimulator
import Testing

/// The outage of docs/rehearsal.md, with the commands that stand there.
@Suite("The rehearsal of an outage", .serialized, .timeLimit(.minutes(10)))
struct RehearsalTests {
    static let page = "docs/rehearsal.md"

    @Test("played as it stands, the week is missed at first, then healed, and every answer is the store's record")
    func commands() async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        try FileManager.default.createDirectory(atPath: directory.path, withIntermediateDirectories: true)
        let sections = try DocumentationPage.blocks(of: Self.page).filter { $0.language == "sh" }.map(\.text)
        try #require(sections.count == 6)
        let (port, programs) = (
            try DocumentationPage.freePort(), try Products.url("rightful").deletingLastPathComponent()
        )
        let environment = [
            "PATH": "\(programs.path()):\(ProcessInfo.processInfo.environment["PATH"] ?? "")",
            "REHEARSAL_PORT": "\(port)", "REHEARSAL_STORE_PORT": "\(try DocumentationPage.freePort())",
            "REHEARSAL_SANDBOX_PORT": "\(try DocumentationPage.freePort())",
        ]
        // What an answer was in the middle of the outage, and that it is right after it, is looked at between the commands.
        let pauses = [3: "missed", 4: "healed"]
        let script = sections.enumerated().map { index, section in
            guard let name = pauses[index + 1] else { return section }
            return """
                \(section)
                printf '%s' "$key" > key && touch \(name)
                timeout 120 sh -c 'while [ -e \(name) ]; do sleep 0.2; done'
                """
        }.joined(separator: "\n")
        let guarded = """
            set -euxo pipefail
            trap 'kill "${service:-}" "${store:-}" || true' ERR
            \(script)
            """
        async let running = DocumentationPage.bash(guarded, environment, in: URL(filePath: directory.path))
        let stage = URL(filePath: directory.path).appending(path: "rehearsal")
        let url = try #require(URL(string: "http://127.0.0.1:\(port)"))

        guard try await Self.pause(at: "missed", in: stage) else {
            Issue.record("the outage never began: \(try await running.errors.suffix(2000))")
            return
        }
        var client = HTTPClient(url, key: try String(contentsOf: stage.appending(path: "key"), encoding: .utf8))
        let lives = try Self.lives(in: stage)
        let sent = lives.flatMap(\.notifications)
        let missed = sent.count - (try await client.events().count { $0["notification"] is [String: Any] })
        #expect(missed > 0 && missed < sent.count / 2, "\(missed) of \(sent.count) never arrived")
        try FileManager.default.removeItem(at: stage.appending(path: "missed"))

        guard try await Self.pause(at: "healed", in: stage) else {
            Issue.record("nothing healed: \(try await running.errors.suffix(2000))")
            return
        }
        client = HTTPClient(url, key: try String(contentsOf: stage.appending(path: "key"), encoding: .utf8))
        for life in lives {
            for customer in life.record.customers {
                try await client.expectRecord(
                    life.record.customer(customer), of: customer, limit: 6, "seed \(life.seed)")
            }
        }
        let found = try await client.events().count { $0["source"] as? String == "app_store_api" }
        #expect(found >= missed, "\(found) of \(missed)")
        try FileManager.default.removeItem(at: stage.appending(path: "healed"))
        let (status, errors) = try await running
        #expect(status == 0, "\(errors.suffix(2000))")
        #expect(errors.contains("test-notification") && errors.contains("rightful verify"))
    }

    /// Waits until the commands have come so far; `false` where they never do.
    private static func pause(at name: String, in stage: URL) async throws -> Bool {
        for _ in 0..<3000 {
            if FileManager.default.fileExists(atPath: stage.appending(path: name).path()) { return true }
            try await Task.sleep(for: .milliseconds(100))
        }
        return false
    }

    /// The lives that the page's store knows.
    private static func lives(in stage: URL) throws -> [StoreLife] {
        let text = try String(contentsOf: stage.appending(path: "store/serve.instant"), encoding: .utf8)
        let instant = try #require(Int64(text.trimmingCharacters(in: .whitespacesAndNewlines)))
        return StoreLife.recent(seed: 1000, customers: 10, until: instant)
    }
}
