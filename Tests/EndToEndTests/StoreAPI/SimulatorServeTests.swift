import Foundation
import StoreSimulator
import Testing

/// A developer rehearses an outage with `store-simulator serve`, as docs/operating.md tells.
@Suite("The simulated store's API as a command", .serialized, .timeLimit(.minutes(5)))
struct SimulatorServeTests {
    @Test(
        "a service reads from it what never arrived; started again it delivers the same lives, and test notifications")
    func rehearsal() async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        let common = ["serve", "--data", directory.path, "--seed", "2000", "--customers", "8"]
        let dead = try await SimulatorProcess.start(
            common + ["--port", "0", "--sandbox-port", "0", "--faults", "10"])
        defer { dead.stop() }
        let root = "\(directory.path)/\(SimulatedAuthority.rootCertificateFile)"
        let installation = try await Installation(settings: [
            "root_certificates": [root], "apps": [WrittenApp(dead.app).settings],
        ])
        defer { installation.remove() }
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        // A fault may end a reading, which is tried again by itself after a minute.
        var completed = false
        for _ in 0..<20 where !completed {
            completed = try await installation.run(["backfill"]).status == 0
            if !completed { try await Task.sleep(for: .seconds(1)) }
        }
        #expect(completed)
        let found = try await client.events().filter { $0["source"] as? String == "app_store_api" }
        #expect(found.count > 20, "what was sent within the window: \(found.count)")
        #expect(try await client.events().allSatisfy { $0["source"] as? String != "app_store_notification" })
        // Nor does a test notification, and the store says so.
        let lost = try await installation.run([
            "test-notification", "--app", StoreWorld.standard.bundleID, "--environment", "production",
        ])
        #expect(lost.status == 1 && lost.errors.contains("the store says NO_RESPONSE; it did not arrive"), "\(lost)")
        dead.stop()

        let urls = WrittenApp(dead.app)
        let live = try await SimulatorProcess.start(
            common + [
                "--port", urls.port, "--sandbox-port", urls.sandboxPort, "--url", service.url.absoluteString,
                "--delivery", "chaotic",
            ])
        defer { live.stop() }
        #expect(NSDictionary(dictionary: live.app) == NSDictionary(dictionary: dead.app))
        let line = try await live.line { $0.contains("deliveries") }
        let instant = try #require(
            Int64(
                String(contentsOfFile: "\(directory.path)/serve.instant", encoding: .utf8)
                    .trimmingCharacters(in: .whitespacesAndNewlines)))
        let lives = StoreLife.recent(seed: 2000, customers: 8, until: instant)
        #expect(line.contains(" 0 failed"), "\(line)")
        #expect(line.hasPrefix("\(lives.flatMap(\.notifications).count) notifications of 8 customers"), "\(line)")
        for life in lives {
            for customer in life.record.customers {
                try await client.expectRecord(
                    life.record.customer(customer), of: customer, limit: 6, "seed \(life.seed)")
            }
        }
        // What the sweep recorded is not recorded again when it arrives.
        let told = try await client.events().count { event in
            let notification = event["notification"] as? [String: Any]
            return notification != nil && notification?["type"] as? String != "TEST"
        }
        #expect(told == lives.flatMap(\.notifications).count { $0.type != "TEST" })
        let test = try await installation.run([
            "test-notification", "--app", StoreWorld.standard.bundleID, "--environment", "sandbox",
        ])
        #expect(test.status == 0 && test.output.contains("arrived"), "\(test)")
        #expect(try await installation.rightful("verify").contains("verified"))
    }

    @Test("of an outage's days nothing is delivered, and the rest is")
    func outage() async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        _ = try SimulatedAuthority.kept(in: directory.path)
        let installation = try await Installation(settings: [
            "root_certificates": ["\(directory.path)/\(SimulatedAuthority.rootCertificateFile)"]
        ])
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let simulator = try await SimulatorProcess.start([
            "serve", "--data", directory.path, "--seed", "3000", "--customers", "6", "--port", "0", "--sandbox-port",
            "0", "--url", service.url.absoluteString, "--outage-days", "60",
        ])
        defer { simulator.stop() }
        let line = try await simulator.line { $0.contains("deliveries") }
        let instant = try #require(
            Int64(
                String(contentsOfFile: "\(directory.path)/serve.instant", encoding: .utf8)
                    .trimmingCharacters(in: .whitespacesAndNewlines)))
        let all = StoreLife.recent(seed: 3000, customers: 6, until: instant).flatMap(\.notifications)
        let before = all.count { $0.signedDate < instant - 60 * Span.day }
        try #require(before > 0 && before < all.count)
        #expect(
            line.contains(
                "\(all.count) notifications of 6 customers, \(before) deliveries, 0 of them duplicates, 0 failed"),
            "\(line)")
        let heard = try await HTTPClient(service.url, key: key).events()
            .filter { $0["source"] as? String == "app_store_notification" }
        #expect(heard.count == before)
    }
}

/// What the simulator prints for the configuration.
private struct WrittenApp {
    let settings: [String: any Sendable]
    let port: String
    let sandboxPort: String

    init(_ app: [String: Any]) {
        let api = app["app_store_api"] as? [String: String] ?? [:]
        settings = [
            "bundle_id": app["bundle_id"] as? String ?? "", "app_apple_id": app["app_apple_id"] as? Int64 ?? 0,
            "app_store_api": api,
        ]
        func port(_ name: String) -> String { URL(string: api[name] ?? "")?.port.map(String.init) ?? "" }
        (self.port, sandboxPort) = (port("base_url"), port("sandbox_base_url"))
    }
}
