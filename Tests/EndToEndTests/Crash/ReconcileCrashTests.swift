import Foundation
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// Kills the service while devices reconcile: what they were told to finish is gone from the devices for good.
@Suite("Crashes during reconcile", .serialized)
struct ReconcileCrashTests {
    /// A device, its customer and what it posts, signed anew at each launch.
    private struct Device: Sendable {
        let customer: String
        let original: String
        var statements: [[String: PayloadValue]]

        /// The same purchases, all signed later.
        func resigned(_ date: Int64) -> Device {
            var later = self
            for index in statements.indices { later.statements[index]["signedDate"] = .integer(date) }
            return later
        }

        func body(_ authority: SimulatedAuthority, _ world: StoreWorld) throws -> [UInt8] {
            let transactions = try statements.map { PayloadValue.string(try authority.sign(.object($0))) }
            return try PayloadValue.object([
                "app": .string(world.bundleID), "signed_transactions": .array(transactions),
                "claims": .array([]),
            ]).encoded()
        }
    }

    private static func devices(_ world: StoreWorld, count: Int) throws -> [Device] {
        let product = try #require(world.products.first { $0.kind == .autoRenewable })
        return (0..<count).map { number in
            let original = String(3_000_000 + number * 100)
            return Device(
                customer: "device-\(number)", original: original,
                statements: (0..<6).map { period in
                    let start = world.start + Int64(period) * 30 * 86_400_000
                    return [
                        "transactionId": .string(String(3_000_000 + number * 100 + period)),
                        "originalTransactionId": .string(original), "productId": .string(product.id),
                        "bundleId": .string(world.bundleID), "type": .string(product.kind.rawValue),
                        "purchaseDate": .integer(start), "expiresDate": .integer(start + 30 * 86_400_000),
                        "signedDate": .integer(start), "inAppOwnershipType": .string("PURCHASED"),
                        "environment": .string("Production"), "webOrderLineItemId": .string("\(number)-\(period)"),
                        "transactionReason": .string(period == 0 ? "PURCHASE" : "RENEWAL"),
                    ]
                })
        }
    }

    @Test("after kill -9 the log holds all that devices were told to finish, under its owner", arguments: [UInt64(1)])
    func killed(seed: UInt64) async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let devices = try Self.devices(installation.world, count: 60 * Campaign.factor)
        var random = SplitMix64(seed: seed)
        var finished: Set<String> = []
        let rounds = 4
        for round in 0..<rounds {
            let service = try await ServiceProcess.start(installation)
            let client = HTTPClient(service.url, key: key)
            let count = 5 + Int(random.next() % 40)
            let told = await Self.launch(random.shuffled(devices), installation, client) { answers in
                if answers == count { service.killWithoutWarning() }
            }
            #expect(told.count >= count && told.count < devices.count, "seed \(seed)")
            finished.formUnion(told.flatMap(\.finish))
            if round % 2 == 1, let postmaster = installation.postmaster { kill(postmaster, SIGKILL) }
        }
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: key)
        let before = try await client.events()
        #expect(before.map { ($0["position"] as? NSNumber)?.intValue } == Array(1...before.count), "seed \(seed)")
        let recorded = Set(before.compactMap { $0["transaction_id"] as? String })
        #expect(finished.isSubset(of: recorded), "seed \(seed): \(finished.subtracting(recorded))")
        #expect(!finished.isEmpty, "seed \(seed): nothing was tested")
        for device in devices where finished.contains(device.original) {
            let owner = try await client.send("GET", "/v1/customers", query: ["transaction_id": device.original])
            #expect(owner.text.contains("\"\(device.customer)\""), "seed \(seed): \(owner.text)")
        }
        // Everybody launches again, and once more: everything is there now, once, and the answers agree.
        let first = await Self.launch(devices, installation, client)
        let head = try await client.head()
        let second = await Self.launch(devices, installation, client)
        #expect(try await client.head() == head, "seed \(seed)")
        #expect(first.count == devices.count && second.count == devices.count, "seed \(seed)")
        for (one, two) in zip(first.sorted { $0.customer < $1.customer }, second.sorted { $0.customer < $1.customer }) {
            #expect(one.entitlements == two.entitlements && one.finish == two.finish, "seed \(seed)")
            #expect(one.finish.count == 6, "seed \(seed)")
            let read = try await client.send("GET", "/v1/customers/\(one.customer)/entitlements")
            #expect(Self.text(read.json["entitlements"]) == one.entitlements, "seed \(seed)")
        }
        let after = try await client.events()
        let own = after.filter { $0["source"] as? String == "device" }
        #expect(own.count == devices.count * 7, "seed \(seed): a report for each transaction, and a claim")
        // All dates move: one event a device, with all of its evidence.
        let later = devices.map { $0.resigned(installation.world.start + 200 * 86_400_000) }
        #expect(await Self.launch(later, installation, client).count == devices.count)
        #expect(try await client.head() == head + Int64(devices.count), "seed \(seed)")
        #expect(service.stop() == 0)
        _ = try await installation.rightful("verify")
    }

    private struct Told: Sendable {
        let customer: String
        let finish: [String]
        let entitlements: String
    }

    private static func text(_ value: Any?) -> String {
        guard let value, let data = try? JSONSerialization.data(withJSONObject: value, options: .sortedKeys) else {
            return ""
        }
        return String(decoding: data, as: UTF8.self)
    }

    /// All devices launch, eight at a time; the answers that came, each counted to `heard`.
    private static func launch(
        _ devices: [Device], _ installation: Installation, _ client: HTTPClient, heard: (Int) -> Void = { _ in }
    ) async -> [Told] {
        await withTaskGroup(of: Told?.self) { group in
            var told: [Told] = []
            func take(_ result: Told?) {
                guard let result else { return }
                told.append(result)
                heard(told.count)
            }
            for (started, device) in devices.enumerated() {
                if started >= 8, let result = await group.next() { take(result) }
                group.addTask {
                    guard let body = try? device.body(installation.authority, installation.world),
                        let answer = try? await client.send(
                            "POST", "/v1/customers/\(device.customer)/reconcile", body: body), answer.status == 200,
                        let finish = answer.json["finish"] as? [String]
                    else { return nil }
                    return Told(
                        customer: device.customer, finish: finish, entitlements: text(answer.json["entitlements"]))
                }
            }
            for await result in group { take(result) }
            return told
        }
    }
}
