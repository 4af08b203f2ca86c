import Foundation
import HTTPServer
import OpenSSLCrypto
import StoreSimulator

/// Serves the App Store Server API of both environments, and delivers what the store sends, as badly as it is told to.
struct ServeStoreCommand: Sendable {
    /// The most customers of one run; their lives are held in memory.
    private static let customerLimit = 10_000
    private static let issuerID = "simulated-issuer"
    private static let keyID = "SIMULATED1"
    /// How long deliveries wait for a service that does not answer yet, in seconds.
    private static let patience = 600
    private static let weekInAMinute = 7 * 24 * 60
    /// Between looks whether something is due: while the store's clock runs fast, and then.
    private static let shortRest = Duration.milliseconds(20)
    private static let rest = Duration.milliseconds(250)

    private let directory: DemoDirectory
    private let ports: [SimulatedStoreEnvironment: UInt16]
    private let seed: UInt64
    private let customers: Int
    private let faults: Int
    /// `nil`: nothing the store sends arrives.
    private let service: StoreClient?
    private let daysAgo: Int
    private let speed: Int
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
        daysAgo = try arguments.number("--days-ago", in: 0...3650, default: outageDays)
        speed = try arguments.number("--speed", in: 1...1_000_000, default: Self.weekInAMinute)
        style = try DeliveryStyle(&arguments)
        service = try arguments.optional("--url").map { try StoreClient(url: $0) }
    }

    func run() async throws {
        let authority = try directory.authority()
        let real = StoreSimulatorProgram.currentMilliseconds()
        let instant = try directory.servedInstant(now: real)
        let start = real - Int64(daysAgo) * Span.day
        let clock = RunningClock(StoreClock(start: start, speed: Int64(speed)))
        let (key, keyPath) = try directory.apiKey()
        let access = SimulatedStoreAPI.Access(issuerID: Self.issuerID, keyID: Self.keyID, key: key.publicKey)
        var apis: [SimulatedStoreEnvironment: SimulatedStoreAPI] = [:]
        for (number, environment) in SimulatedStoreEnvironment.allCases.enumerated() {
            let api = SimulatedStoreAPI(
                authority: authority, world: DemoStory.world, access: access, environment: environment,
                now: { clock.now }, wallClock: { StoreSimulatorProgram.currentMilliseconds() })
            api.failAtRandom(percent: faults, seed: seed + UInt64(number))
            api.holdLimits()
            api.reportAttempts()
            apis[environment] = api
        }
        let payloads = try SignedPayloads("\(directory.path)/serve-\(seed)-\(customers).signed", authority)
        let outage = outageDays > 0 ? start..<start + Int64(outageDays) * Span.day : nil
        let dispatch = StoreDispatch(
            OngoingLives(seed: seed, customers: customers, instant: instant), from: start,
            way: StoreDispatch.Way(style, seed: seed, outage: outage), apis: apis, sign: payloads.payload(of:))
        // Whoever asks is to find everything that was sent before.
        try dispatch.send(until: start)
        let servers = try serve(apis, keyPath: keyPath)

        if let service { try await wait(for: service) }
        var postman = StorePostman(dispatch, to: service)
        await postman.deliver(until: start)
        let tally = postman.takeTally()
        say(
            "\(dispatch.sentCount) notifications of \(customers) customers, \(tally.deliveries) deliveries, "
                + "\(tally.duplicates) of them duplicates, \(tally.failed) failed (seed \(seed), \(style.rawValue))")
        clock.begin()
        try await withThrowingTaskGroup(of: Void.self) { group in
            // What is sent is sent at its time, however long deliveries take.
            group.addTask {
                while !Task.isCancelled {
                    try dispatch.send(until: clock.now)
                    try await Task.sleep(for: clock.hasCaughtUp ? Self.rest : Self.shortRest)
                }
            }
            group.addTask { [postman, apis] in
                try await deliver(postman, dispatch, by: clock, outage: outage, apis: Array(apis.values))
            }
            try await group.next()
            group.cancelAll()
        }
        for server in servers { await server.stop(graceSeconds: 0) }
    }

    /// Delivers as time passes, and says when the outage is over, and when the clock has caught up.
    private func deliver(
        _ postman: StorePostman, _ dispatch: StoreDispatch, by clock: RunningClock, outage: Range<Int64>?,
        apis: [SimulatedStoreAPI]
    ) async throws {
        var postman = postman
        let before = dispatch.sentCount
        var (isOutage, isBehind) = (outage != nil, daysAgo > 0)
        while !Task.isCancelled {
            let isCaughtUp = clock.hasCaughtUp
            let now = clock.now
            try dispatch.send(until: now)
            if isOutage, let end = outage?.upperBound, now >= end {
                isOutage = false
                await postman.deliver(until: end - 1)
                let missing = apis.reduce(0) { $0 + $1.failedCount }
                say("\(Self.text(end)): the outage is over; \(missing) notifications were sent and did not arrive")
            }
            await postman.deliver(until: now)
            if isBehind, isCaughtUp {
                isBehind = false
                let tally = postman.takeTally()
                say(
                    "\(Self.text(now)): the clock has caught up; \(dispatch.sentCount - before) notifications, "
                        + "\(tally.deliveries) deliveries, \(tally.retries) of them retries, "
                        + "\(tally.duplicates) duplicates, \(tally.failed) failed")
            }
            try await Task.sleep(for: isBehind ? Self.shortRest : Self.rest)
        }
    }

    private static func text(_ instant: Int64) -> String {
        Date(timeIntervalSince1970: Double(instant) / 1000).formatted(.iso8601)
    }

    /// Serves the APIs, and prints the entry of the app for the configuration.
    private func serve(_ apis: [SimulatedStoreEnvironment: SimulatedStoreAPI], keyPath: String) throws -> [HTTPServer] {
        var servers: [HTTPServer] = []
        var urls: [SimulatedStoreEnvironment: String] = [:]
        for (environment, api) in apis {
            let server = api.makeServer(port: ports[environment] ?? 0)
            do {
                try server.start()
            } catch {
                throw PlayError(description: "the \(environment.rawValue) API cannot be served: \(error)")
            }
            servers.append(server)
            urls[environment] = "http://127.0.0.1:\(server.boundPort ?? 0)"
        }
        try say(String(decoding: Self.app(keyPath: keyPath, urls).encoded(), as: UTF8.self))
        return servers
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
    private static func app(keyPath: String, _ urls: [SimulatedStoreEnvironment: String]) -> PayloadValue {
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
