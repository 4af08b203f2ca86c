import Foundation
import StoreSimulator
import TestSupport
import Testing

/// A developer rehearses an outage with `store-simulator serve`, as docs/operating.md tells.
@Suite("The simulated store's API as a command", .serialized, .timeLimit(.minutes(5)))
struct SimulatorServeTests {
    @Test(
        "a service reads from it what never arrived; started again it delivers the same lives, and test notifications")
    func rehearsal() async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        _ = try SimulatedAuthority.kept(in: directory.path)
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
        let (sent, lives) = try directory.served(seed: 2000, customers: 8, before: StoreAPIStage.now)
        #expect(line.contains(" 0 failed"), "\(line)")
        #expect(line.hasPrefix("\(sent.count) notifications of 8 customers"), "\(line)")
        try #require(lives.count > 4)
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
        #expect(told == sent.count { $0.type != "TEST" })
        let test = try await installation.run([
            "test-notification", "--app", StoreWorld.standard.bundleID, "--environment", "sandbox",
        ])
        #expect(test.status == 0 && test.output.contains("arrived"), "\(test)")
        #expect(try await installation.rightful("verify").contains("verified"))
    }

    @Test("without an authority it makes none: it says how to", arguments: ["serve", "play", "demo", "device"])
    func noAuthority(command: String) async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        let process = Process()
        process.executableURL = try Products.url("store-simulator")
        process.arguments =
            [command, "--data", directory.path]
            + (command == "device" ? ["--customer", "Ann"] : ["--url", "http://127.0.0.1:1"])
        let errors = Pipe()
        process.standardError = errors
        try await process.runWithAllSignals()
        let text = await Installation.read(errors)
        #expect(process.waitForEnd() == 1)
        #expect(text.contains("`store-simulator authority --data \(directory.path)`"), "\(text)")
        #expect(!FileManager.default.fileExists(atPath: directory.path))
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
            "0", "--url", service.url.absoluteString, "--outage-days", "60", "--speed", "1000000",
        ])
        defer { simulator.stop() }
        let line = try await simulator.line { $0.contains("deliveries") }
        let end = StoreAPIStage.now
        let all = try directory.served(seed: 3000, customers: 6, before: end).sent
        let before = all.count { $0.signedDate < end - 60 * Span.day }
        try #require(before > 0 && before < all.count)
        #expect(
            line.contains(
                "\(before) notifications of 6 customers, \(before) deliveries, 0 of them duplicates, 0 failed"),
            "\(line)")
        let over = try await simulator.line { $0.contains("the clock has caught up") }
        #expect(over.contains("; \(all.count - before) notifications, 0 deliveries, 0 of them retries, "), "\(over)")
        let heard = try await HTTPClient(service.url, key: key).events()
            .filter { $0["source"] as? String == "app_store_notification" }
        #expect(heard.count == before)
    }
}

extension ScratchSpaceDirectory {
    /// What `store-simulator serve` with this directory has sent before an instant, and the lives of which that is all.
    func served(
        seed: UInt64, customers: Int, before instant: Int64
    ) throws -> (sent: [StoreNotification], lives: [StoreLife]) {
        let text = try String(contentsOfFile: "\(path)/serve.instant", encoding: .utf8)
        let start = try #require(Int64(text.trimmingCharacters(in: .whitespacesAndNewlines)))
        var lives = OngoingLives(seed: seed, customers: customers, instant: start)
        return (lives.take(before: instant), lives.settled)
    }
}

/// What the simulator prints for the configuration.
struct WrittenApp {
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
