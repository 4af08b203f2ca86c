import Foundation
import StoreSimulator
import Testing

/// The outage of docs/rehearsal.md, with the commands that stand there.
@Suite("The rehearsal of an outage", .serialized, .timeLimit(.minutes(10)))
struct RehearsalTests {
    static let page = "docs/rehearsal.md"

    private static let customers = 40

    @Test(
        "played as it stands, the week is missed at first, then healed; what is tried again changes nothing, and every answer is the store's record"
    )
    func commands() async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        try FileManager.default.createDirectory(atPath: directory.path, withIntermediateDirectories: true)
        let sections = try DocumentationPage.blocks(of: Self.page).filter { $0.language == "sh" }.map(\.text)
        try #require(sections.count == 7)
        let (port, programs) = (
            try DocumentationPage.freePort(), try Products.url("rightful").deletingLastPathComponent()
        )
        let environment = [
            "PATH": "\(programs.path()):\(ProcessInfo.processInfo.environment["PATH"] ?? "")",
            "REHEARSAL_PORT": "\(port)", "REHEARSAL_STORE_PORT": "\(try DocumentationPage.freePort())",
            "REHEARSAL_SANDBOX_PORT": "\(try DocumentationPage.freePort())", "REHEARSAL_SPEED": "42000",
        ]
        // What an answer was in the middle of the outage, and that it is right after it, is looked at between the commands.
        let pauses = [3: "missed", 5: "healed"]
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
        // What was sent up to the end of the outage, four days ago.
        let outage = try Self.served(in: stage, before: StoreAPIStage.now - 4 * Span.day).sent
        let missed = Set(outage.map(\.uuid)).subtracting(try await client.events().compactMap(Self.uuid)).count
        #expect(missed > 0 && missed < outage.count / 2, "\(missed) of \(outage.count) never arrived")
        try FileManager.default.removeItem(at: stage.appending(path: "missed"))

        guard try await Self.pause(at: "healed", in: stage) else {
            Issue.record("nothing healed: \(try await running.errors.suffix(2000))")
            return
        }
        client = HTTPClient(url, key: try String(contentsOf: stage.appending(path: "key"), encoding: .utf8))
        let (sent, lives) = try Self.served(in: stage, before: StoreAPIStage.now - Span.minute)
        try #require(lives.count > Self.customers / 2)
        // Those of the last hours were sent within the last second, and may be under way.
        var told: [String] = []
        for _ in 0..<300 {
            told = try await client.events().compactMap(Self.uuid)
            if Set(sent.map(\.uuid)).isSubset(of: told) { break }
            try await Task.sleep(for: .milliseconds(200))
        }
        #expect(Set(told).count == told.count && Set(sent.map(\.uuid)).isSubset(of: told))
        for life in lives {
            for customer in life.record.customers {
                try await client.expectRecord(
                    life.record.customer(customer), of: customer, limit: 6, "seed \(life.seed)")
            }
        }
        let found = try await client.events().count {
            $0["source"] as? String == "app_store_api" && Self.uuid($0) != nil
        }
        #expect(found > 0)
        let log = try String(contentsOf: stage.appending(path: "store.log"), encoding: .utf8)
        #expect(log.contains("the clock has caught up") && !log.contains(" 0 of them retries"), "\(log)")
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

    private static func uuid(_ event: [String: Any]) -> String? {
        (event["notification"] as? [String: Any])?["uuid"] as? String
    }

    /// What the page's store has sent before an instant, and the lives of which that is all.
    private static func served(
        in stage: URL, before instant: Int64
    ) throws -> (sent: [StoreNotification], lives: [StoreLife]) {
        try ScratchSpaceDirectory(path: stage.appending(path: "store").path())
            .served(seed: 1000, customers: customers, before: instant)
    }
}
