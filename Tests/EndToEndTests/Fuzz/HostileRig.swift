import Foundation
import StoreSimulator
import Testing

/// A service that knows a life, and what it answers about it.
struct HostileRig: Sendable {
    let installation: Installation
    let service: ServiceProcess
    let life: StoreLife
    let material: HostileRequests.Material

    static func make(seed: UInt64) async throws -> HostileRig {
        // Nobody is limited: what is meant to be refused for what it is must not be refused for its rate.
        let limits = ["address_per_second", "address_burst", "key_per_second", "key_burst"].map { ($0, 1_000_000_000) }
        let installation = try await Installation(
            settings: ["rate_limits": Dictionary(uniqueKeysWithValues: limits)])
        do {
            func key(_ arguments: String...) async throws -> String {
                try await installation.run(["keys", "create", "--name", "fuzz"] + arguments).output
                    .trimmingCharacters(in: .whitespacesAndNewlines)
            }
            let secretKey = try await key("--scopes", "admin")
            let publishableKey = try await key("--scopes", "reconcile", "--app", installation.world.bundleID)
            try await installation.rightful("catalog", "apply", installation.catalogFile.path())
            let service = try await ServiceProcess.start(installation)
            let client = HTTPClient(service.url, key: secretKey)
            let life = StoreLife.random(seed: seed, world: installation.world, customers: 5)
            let signed = try life.notifications.map { try installation.authority.sign($0) }
            for notification in signed { #expect(try await client.notify(notification).status == 200) }
            let customers = life.record.customers.map(\.customerID)
            let token = try await client.send(
                "POST", "/v1/customers/\(customers[0])/tokens", body: Array("{}".utf8))
            let statements = try life.notifications.prefix(40).flatMap { notification in
                try [notification.transaction, notification.renewal].compactMap { statement in
                    try statement.map { try installation.authority.sign(.object($0)) }
                }
            }
            let material = HostileRequests.Material(
                notifications: signed.map { Array($0.utf8) }, statements: statements, customers: customers,
                publishableKey: publishableKey, secretKey: secretKey,
                token: try #require(token.json["token"] as? String, "\(token.text)"),
                bundleID: installation.world.bundleID)
            return HostileRig(installation: installation, service: service, life: life, material: material)
        } catch {
            installation.remove()
            throw error
        }
    }

    func remove() {
        if service.isRunning { service.killWithoutWarning() }
        installation.remove()
    }

    /// Where the log ends, and what everybody is entitled to.
    func standing() async throws -> [String] {
        let client = HTTPClient(service.url, key: material.secretKey)
        var standing = ["\(try await client.send("GET", "/v1/ledger").json["hash"] ?? "?")"]
        for customer in life.record.customers.map(\.customerID) + ["thief"] {
            for environment in [SimulatedStoreEnvironment.production, .sandbox] {
                let answer = try await client.send(
                    "GET", "/v1/customers/\(customer)/entitlements",
                    query: ["environment": environment.rawValue, "at": "2027-01-01T00:00:00.000Z"])
                #expect(answer.status == 200)
                standing.append(answer.text)
            }
        }
        return standing
    }

    /// How much memory the service occupies.
    func residentBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(service.processID)/statm", encoding: .utf8)
        return (Int(text.split(separator: " ")[1]) ?? 0) * 4096
    }

    /// The service stops in order, and its log proves itself.
    func expectVerified() async throws {
        let events = try await HTTPClient(service.url, key: material.secretKey).events()
        #expect(events.map { ($0["position"] as? NSNumber)?.intValue } == Array(1...events.count))
        #expect(service.stop() == 0)
        let (status, output, errors) = try await installation.run(["verify"])
        #expect(status == 0 && output.hasPrefix("verified: "), "\(output) \(errors)")
    }
}
