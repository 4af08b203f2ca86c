import Foundation
import HTTPServer
import OpenSSLCrypto
import StoreSimulator

/// Serves the App Store Server API of both environments, and delivers what the store sends, as badly as it is told to.
struct ServeCommand {
    /// The most customers of one run; their lives are held in memory.
    private static let customerLimit = 10_000
    private static let issuerID = "simulated-issuer"
    private static let keyID = "SIMULATED1"
    /// How long deliveries wait for a service that does not answer yet, in seconds.
    private static let patience = 600

    private let directory: DemoDirectory
    private let ports: [StoreEnvironment: UInt16]
    private let seed: UInt64
    private let customers: Int
    private let faults: Int
    /// `nil`: nothing the store sends arrives.
    private let service: StoreClient?
    private let outageDays: Int
    private let style: DeliveryStyle

    init(_ arguments: inout Arguments) throws {
        directory = DemoDirectory(try arguments.required("--data"))
        ports = [
            .production: UInt16(try arguments.number("--port", in: 0...65_535, default: 8085)),
            .sandbox: UInt16(try arguments.number("--sandbox-port", in: 0...65_535, default: 8086)),
        ]
        seed = UInt64(try arguments.number("--seed", in: 0...900_000, default: 1000))
        customers = try arguments.number("--customers", in: 1...Self.customerLimit, default: 10)
        faults = try arguments.number("--faults", in: 0...100, default: 0)
        outageDays = try arguments.number("--outage-days", in: 0...3650, default: 0)
        style = try DeliveryStyle(&arguments)
        service = try arguments.optional("--url").map { try StoreClient(url: $0) }
    }

    func run() async throws {
        let authority = try directory.authority()
        let instant = try directory.servedInstant(now: StoreSimulatorProgram.currentMilliseconds())
        let (key, keyPath) = try directory.apiKey()
        let access = SimulatedStoreAPI.Access(issuerID: Self.issuerID, keyID: Self.keyID, key: key.publicKey)
        var apis: [StoreEnvironment: SimulatedStoreAPI] = [:]
        for (number, environment) in StoreEnvironment.allCases.enumerated() {
            let api = SimulatedStoreAPI(
                authority: authority, world: DemoStory.world, access: access, environment: environment,
                now: { StoreSimulatorProgram.currentMilliseconds() })
            api.failAtRandom(percent: faults, seed: seed + UInt64(number))
            api.holdLimits()
            api.reportOutcomes()
            apis[environment] = api
        }
        let notifications = StoreLife.recent(seed: seed, customers: customers, until: instant)
            .flatMap(\.notifications).sorted { $0.signedDate < $1.signedDate }
        // What arrives again is the same bytes, also after a restart: the store signs a notification once.
        let payloads = try directory.signed("serve-\(seed)-\(customers).signed", notifications, authority)
        for (notification, payload) in zip(notifications, payloads) {
            apis[notification.environment]?.resend(notification, payload: payload)
        }
        // What is sent from now on is not in the plan.
        var delivered = apis.mapValues { $0.sentPayloads.count }

        let servers = apis.map { environment, api in
            (environment, api.makeServer(port: ports[environment] ?? 0))
        }
        var urls: [StoreEnvironment: String] = [:]
        for (environment, server) in servers {
            do {
                try server.start()
            } catch {
                throw PlayError(description: "the \(environment.rawValue) API cannot be served: \(error)")
            }
            urls[environment] = "http://127.0.0.1:\(server.boundPort ?? 0)"
        }
        try say(String(decoding: Self.app(keyPath: keyPath, urls).encoded(), as: UTF8.self))

        if let service {
            try await wait(for: service)
            let outage = instant - Int64(outageDays) * Span.day
            let arrivals = Delivery.plan(notifications, style, seed: seed)
                .filter { outageDays == 0 || notifications[$0.index].signedDate < outage }
            var (duplicates, failed) = (0, 0)
            for arrival in arrivals {
                // A service that is stopped meanwhile is to find the store's API when it comes back.
                do {
                    if try await service.deliver(payloads[arrival.index]).duplicate { duplicates += 1 }
                } catch {
                    failed += 1
                    if failed == 1 { say("not delivered: \(error)") }
                }
            }
            say(
                "\(notifications.count) notifications of \(customers) customers, \(arrivals.count) deliveries, "
                    + "\(duplicates) of them duplicates, \(failed) failed (seed \(seed), \(style.rawValue))")
        } else {
            say("\(notifications.count) notifications of \(customers) customers, none delivered (seed \(seed))")
        }
        while true {
            try await Task.sleep(for: .milliseconds(500))
            for (environment, api) in apis {
                for payload in api.sentPayloads(after: delivered[environment] ?? 0) {
                    delivered[environment, default: 0] += 1
                    api.note(await outcome(of: payload), of: payload)
                }
            }
        }
    }

    /// Tries to deliver a payload, and says what came of it in Apple's words.
    private func outcome(of payload: String) async -> String {
        guard let service else { return "NO_RESPONSE" }
        do {
            _ = try await service.deliver(payload)
            return "SUCCESS"
        } catch {
            // The store does not stop because one delivery fails.
            say("not delivered: \(error)")
            return (error as? PlayError)?.isAnswer == true ? "UNSUCCESSFUL_HTTP_RESPONSE_CODE" : "NO_RESPONSE"
        }
    }

    /// Waits until the service is ready.
    private func wait(for service: StoreClient) async throws {
        for _ in 0..<Self.patience {
            if await service.isReady() { return }
            try await Task.sleep(for: .seconds(1))
        }
        throw PlayError(description: "\(service.url.absoluteString) was not ready within \(Self.patience / 60) minutes")
    }

    /// The app as `apps` in the service's configuration names it.
    private static func app(keyPath: String, _ urls: [StoreEnvironment: String]) -> PayloadValue {
        .object([
            "bundle_id": .string(DemoStory.world.bundleID), "app_apple_id": .integer(DemoStory.world.appAppleID),
            "app_store_api": .object([
                "issuer_id": .string(issuerID), "key_id": .string(keyID),
                "private_key_path": .string(URL(filePath: keyPath).path(percentEncoded: false)),
                "base_url": .string(urls[.production] ?? ""), "sandbox_base_url": .string(urls[.sandbox] ?? ""),
            ]),
        ])
    }
}
