import Foundation
import StoreSimulator
import Testing

/// A store whose lives go on while its webhook fails, and which tries again by itself.
@Suite("A store that goes on", .serialized, .timeLimit(.minutes(5)))
struct LiveStoreTests {
    private static let seed: UInt64 = 7000
    private static let customers = 40

    @Test("what the store tries again after the sweep has repaired it changes nothing, and every answer is its record")
    func retriesAfterRepair() async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        _ = try SimulatedAuthority.kept(in: directory.path)
        let port = try DocumentationPage.freePort()
        // Of the eleven days the first seven are an outage: in the other four the last of the store's attempts is made.
        let simulator = try await SimulatorProcess.start([
            "serve", "--data", directory.path, "--seed", "\(Self.seed)", "--customers", "\(Self.customers)", "--port",
            "0",
            "--sandbox-port", "0", "--url", "http://127.0.0.1:\(port)", "--days-ago", "11", "--outage-days", "7",
            "--speed", "16000",
        ])
        defer { simulator.stop() }
        let installation = try await Installation(settings: [
            "listen": "127.0.0.1:\(port)",
            "root_certificates": ["\(directory.path)/\(SimulatedAuthority.rootCertificateFile)"],
            "apps": [WrittenApp(simulator.app).settings],
        ])
        defer { installation.remove() }
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        _ = try await simulator.line { $0.contains("the outage is over") }
        let since = Date(timeIntervalSinceNow: -20 * 86_400).formatted(.iso8601)
        try await installation.rightful("backfill", "--since", since)
        let repaired = try await client.events()
        let missed = Set(repaired.filter { $0["source"] as? String == "app_store_api" }.compactMap(Self.uuid))
        try #require(!missed.isEmpty)

        let line = try await simulator.line { $0.contains("the clock has caught up") }
        let (retries, duplicates) = (
            try Self.number(before: " of them retries", line), try Self.number(before: " duplicates", line)
        )
        #expect(retries > 0 && duplicates > 0, "\(line)")
        #expect(line.contains(" 0 failed"), "\(line)")
        // The store's own word: it came through in the end, after the sweep had read it.
        let (sent, lives) = try directory.served(
            seed: Self.seed, customers: Self.customers, before: StoreAPIStage.now - Span.minute)
        let events = try await client.events()
        let told = events.compactMap(Self.uuid)
        #expect(Set(told).count == told.count, "no notification is two events")
        #expect(Set(sent.map(\.uuid)).isSubset(of: told))
        #expect(missed.count >= duplicates, "only what was repaired arrived again")
        // What was recorded by the sweep stands as it was.
        for (before, after) in zip(repaired, events) {
            #expect(before["hash"] as? String == after["hash"] as? String)
        }
        try #require(lives.count > Self.customers / 2)
        for life in lives {
            for customer in life.record.customers {
                try await client.expectRecord(
                    life.record.customer(customer), of: customer, limit: 4, "seed \(life.seed)")
            }
        }
        #expect(try await installation.rightful("verify").contains("verified"))
    }

    private static func uuid(_ event: [String: Any]) -> String? {
        (event["notification"] as? [String: Any])?["uuid"] as? String
    }

    private static func number(before words: String, _ line: String) throws -> Int {
        let head = try #require(line.range(of: words)).lowerBound
        return try #require(Int(line[..<head].split(separator: " ").last ?? ""))
    }
}
