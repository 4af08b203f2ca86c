import EntitlementCore
import Foundation
import SeededRandom
import StoreSimulator
import Synchronization
import Testing

/// Two services on one database that tell two receivers, of which one fails as often as it can, and keys for those who ask.
struct WebhookStage: Sendable {
    /// An endpoint, and who may read what it is told.
    struct Endpoint: Sendable {
        let id: String
        let secret: String
        let receiver: TroubledReceiver
        let path: String
        /// The key that hears what the endpoint is told.
        let readingKey: String
        /// The environments that it is told of.
        let environments: [SimulatedStoreEnvironment]
    }

    let seed: UInt64
    let fleet: InstanceFleet
    let admin: String
    /// What the app asks with, by environment.
    let devices: [String: String]
    let troubled: TroubledReceiver
    let calm: TroubledReceiver
    /// Told of every changed answer, by the receiver that fails.
    let everything: Endpoint
    /// Told of one app's in production, by the same.
    let app: Endpoint
    /// Told of whatever there is, by the receiver that never fails.
    let healthy: Endpoint

    var installation: Installation { fleet.installation }
    var context: String { "seed \(seed)" }

    /// How long the services let a receiver take for its answer, in seconds.
    static let attempt = 2

    static func start(seed: UInt64) async throws -> WebhookStage {
        let limits = 1_000_000
        let settings: [String: any Sendable] = [
            "webhooks": ["allow_private_addresses": true, "attempt_seconds": attempt] as [String: any Sendable],
            "rate_limits": [
                "address_per_second": limits, "address_burst": limits, "key_per_second": limits, "key_burst": limits,
            ],
        ]
        let installation = try await Installation(settings: settings)
        let bundleID = installation.world.bundleID
        let admin = try await installation.adminKey()
        func madeKey(_ scopes: String, _ environment: String) async throws -> String {
            try await installation.rightful(
                "keys", "create", "--name", "test", "--scopes", scopes, "--app", bundleID, "--environment", environment
            ).trimmingCharacters(in: .whitespacesAndNewlines)
        }
        var devices: [String: String] = [:]
        for environment in ["production", "sandbox"] {
            devices[environment] = try await madeKey("reconcile", environment)
        }
        let appKey = try await madeKey("customers:read", "production")
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let fleet = try await InstanceFleet.start(2, on: installation)
        let (troubled, calm) = (try TroubledReceiver(seed: seed, stalls: 10), try TroubledReceiver(seed: seed))
        let client = HTTPClient(fleet.service(0).url, key: admin)
        func endpoint(
            _ receiver: TroubledReceiver, _ path: String, _ members: [String: Any], readingKey: String,
            _ environments: [SimulatedStoreEnvironment]
        ) async throws -> Endpoint {
            let body = try bytes(members.merging(["url": receiver.url(path)]) { $1 })
            let answer = try await client.send("POST", "/v1/webhook_endpoints", body: body)
            return Endpoint(
                id: try #require(answer.json["id"] as? String, "\(answer.text)"),
                secret: try #require(answer.json["secret"] as? String), receiver: receiver, path: path,
                readingKey: readingKey, environments: environments)
        }
        return WebhookStage(
            seed: seed, fleet: fleet, admin: admin, devices: devices, troubled: troubled, calm: calm,
            everything: try await endpoint(
                troubled, "/all", ["types": ["entitlements.changed"]], readingKey: admin, [.production, .sandbox]),
            app: try await endpoint(
                troubled, "/app",
                ["types": ["entitlements.changed"], "app": bundleID, "environment": "production"],
                readingKey: appKey, [.production]),
            healthy: try await endpoint(calm, "/calm", [:], readingKey: admin, [.production, .sandbox]))
    }

    func end() {
        fleet.signalAll(SIGKILL)
        troubled.stop()
        calm.stop()
        installation.remove()
    }

    func told(_ endpoint: Endpoint) throws -> ToldLines {
        try ToldLines(endpoint.receiver.arrivals(at: endpoint.path), secret: endpoint.secret, context)
    }

    // MARK: - Asking, whatever happens to the services

    /// The connections to the services, kept for whoever asks next.
    private final class Clients: Sendable {
        private let known = Mutex<[String: HTTPClient]>([:])

        func client(of url: URL, key: String) -> HTTPClient {
            known.withLock { known in
                let client = known["\(url) \(key)"] ?? HTTPClient(url, key: key, attempts: 1)
                known["\(url) \(key)"] = client
                return client
            }
        }
    }

    private let clients = Clients()

    /// The longest that a request may go without an answer.
    private static let patience = Duration.seconds(150)

    /// Sends until some instance answers.
    func send(
        _ method: String, _ path: String, query: [String: String] = [:], body: [UInt8]? = nil,
        idempotency: String? = nil,
        by key: String? = nil
    ) async throws -> HTTPClient.Answer {
        let headers = idempotency.map { ["Idempotency-Key": $0] } ?? [:]
        let end = ContinuousClock.now + Self.patience
        var index = Int.random(in: 0..<fleet.count)
        while true {
            let client = clients.client(of: fleet.service(index).url, key: key ?? admin)
            let answer = try? await client.send(method, path, query: query, body: body, headers: headers)
            if let answer, answer.status != 503 { return answer }
            try #require(ContinuousClock.now < end, "\(context): nothing was answered in \(Self.patience)")
            index = (index + 1) % fleet.count
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// The list `entitlements` that a customer is answered, as one text.
    func entitlements(of line: ToldLines.Line, by key: String) async throws -> String {
        let answer = try await send(
            "GET", "/v1/customers/\(line.customer)/entitlements", query: ["environment": line.environment], by: key)
        try #require(answer.status == 200, "\(context): \(answer.text)")
        return canonical(answer.json["entitlements"])
    }

    // MARK: - Trouble

    /// Kills instances and the receiver, and pauses instances, until it is cancelled; leaves everything running.
    func disturb() async throws {
        var random = SplitMix64(seed: seed &* 7 &+ 1)
        var count = 0
        while !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(random.number(in: 500...1500)))
            guard !Task.isCancelled else { return }
            count += 1
            let index = Int(random.number(in: 0...Int64(fleet.count - 1)))
            switch count % 3 {
            case 1: try await fleet.replace(index, after: SIGKILL)
            case 2:
                troubled.kill()
                try? await Task.sleep(for: .milliseconds(random.number(in: 200...900)))
                troubled.start()
            default:
                let service = fleet.service(index)
                service.signal(SIGSTOP)
                try? await Task.sleep(for: .milliseconds(random.number(in: 100...1200)))
                service.signal(SIGCONT)
            }
        }
    }
}
