import Foundation
import SeededRandom
import StoreSimulator
import Synchronization
import Testing

/// What is sent to services whose database loses what it has acknowledged: a store's notifications, devices that launch,
/// commands of an operator, and changes of the catalog.
///
/// Everything has a name by which it is told from everything else, and so can be sent again: a notification its UUID, a
/// command its key.
final class FailoverLoad: Sendable {
    private static let people = (0..<4).map { "person-\($0)" }
    private static let mostGrants = 4000

    let fleet: InstanceFleet
    let key: String
    let life: StoreLife
    let seed: UInt64
    private let notifications: [[UInt8]]
    private let launches: [(path: String, body: [UInt8])]
    private let catalogs: [[UInt8]]
    /// How many grants were ordered so far.
    private let grants = Atomic(0)
    private let answered = Atomic(0)

    init(_ fleet: InstanceFleet, key: String, seed: UInt64) throws {
        self.fleet = fleet
        self.key = key
        self.seed = seed
        let installation = fleet.installation
        life = StoreLife.random(seed: seed, world: installation.world, customers: 12)
        notifications = try life.notifications.map {
            try SimulatedAuthority.requestBody(installation.authority.sign($0))
        }
        launches = try life.notifications.compactMap { notification in
            guard let statement = try installation.authority.signTransaction(of: notification) else { return nil }
            let body = try bytes(["app": installation.world.bundleID, "signed_transactions": [statement]])
            return ("/v1/customers/device-\(notification.uuid.prefix(1))/reconcile", body)
        }
        let file = try installation.world.catalogFile.encoded()
        let document = try #require(try JSONSerialization.jsonObject(with: Data(file)) as? [String: Any])
        let products = try #require(document["products"] as? [[String: Any]])
        // One that is kept in the end, and another.
        catalogs = [
            Array(file),
            try bytes(
                document.merging([
                    "products": products + [["product_id": "com.example.other", "entitlements": ["other"]]]
                ]) { $1 }),
        ]
    }

    /// How many requests were answered.
    var answers: Int { answered.load(ordering: .relaxed) }

    /// Everybody, with the environment to ask about.
    var customers: [CustomerKey] {
        life.record.customers
            + (Self.people + (0..<16).map { "device-\(String($0, radix: 16))" }).map {
                CustomerKey(.production, $0)
            }
    }

    /// Does this and that as long as it is wanted, whatever the services answer.
    func disturb(as number: Int, while isWanted: @Sendable () -> Bool) async throws {
        var random = SplitMix64(seed: seed &* 31 &+ UInt64(number))
        var client = FleetClient(fleet, key: key)
        while isWanted() {
            switch random.number(in: 0...99) {
            case 0..<40: try await notify(random.index(of: notifications), &client)
            case 40..<60 where grants.load(ordering: .relaxed) < Self.mostGrants:
                try await grant(grants.wrappingAdd(1, ordering: .relaxed).oldValue, &client)
            case 60..<75: try await launch(random.index(of: launches), &client)
            case 75..<77: try await apply(catalogs[random.index(of: catalogs)], &client)
            default: try await read(random.pick(customers), &client)
            }
        }
    }

    /// Sends all of it again, as a store, devices and operators do that have learnt what happened; each until it is taken.
    func sendAgain() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for part in 0..<4 { group.addTask { [self] in try await sendAgain(part, of: 4) } }
            try await group.waitForAll()
        }
    }

    private func sendAgain(_ part: Int, of parts: Int) async throws {
        var client = FleetClient(fleet, key: key)
        func numbers(_ count: Int) -> StrideTo<Int> { stride(from: part, to: count, by: parts) }
        for index in numbers(notifications.count) { try await again { try await self.notify(index, &client) } }
        for number in numbers(grants.load(ordering: .relaxed)) {
            try await again { try await self.grant(number, &client) }
        }
        for index in numbers(launches.count) { try await again { try await self.launch(index, &client) } }
        if part == 0 { try await again { try await self.apply(self.catalogs[0], &client) } }
    }

    private func again(_ send: () async throws -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while try await !send() {
            try #require(ContinuousClock.now < end, "seed \(seed): nothing is taken any more")
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    // MARK: - Requests

    @discardableResult
    private func notify(_ index: Int, _ client: inout FleetClient) async throws -> Bool {
        try await send("POST", "/v1/notifications/appstore", notifications[index], &client)
    }

    @discardableResult
    private func grant(_ number: Int, _ client: inout FleetClient) async throws -> Bool {
        try await send(
            "POST", "/v1/customers/\(Self.people[number % Self.people.count])/actions/grant",
            try bytes(["entitlement": "granted-\(number % 16)", "reason": "number \(number)"]), key: "grant-\(number)",
            &client)
    }

    @discardableResult
    private func launch(_ index: Int, _ client: inout FleetClient) async throws -> Bool {
        try await send("POST", launches[index].path, launches[index].body, &client)
    }

    @discardableResult
    private func apply(_ catalog: [UInt8], _ client: inout FleetClient) async throws -> Bool {
        try await send("PUT", "/v1/catalog", catalog, &client)
    }

    private func read(_ customer: CustomerKey, _ client: inout FleetClient) async throws {
        let instance = Int.random(in: 0..<fleet.count)
        let answer = await client.send(
            to: instance, "GET", "/v1/customers/\(customer.customerID)/entitlements",
            query: ["environment": customer.environment.rawValue])
        guard let answer else { return try await Task.sleep(for: .milliseconds(20)) }
        try #require(answer.status == 200, "seed \(seed): \(answer.text)")
        answered.wrappingAdd(1, ordering: .relaxed)
    }

    /// Returns whether it was taken; whatever is neither taken nor put off is a failure.
    private func send(
        _ method: String, _ path: String, _ body: [UInt8], key: String? = nil, _ client: inout FleetClient
    ) async throws -> Bool {
        let headers = key.map { ["Idempotency-Key": $0] } ?? [:]
        let instance = Int.random(in: 0..<fleet.count)
        guard let answer = await client.send(to: instance, method, path, body: body, headers: headers) else {
            try await Task.sleep(for: .milliseconds(20))
            return false
        }
        // Somebody else changed what it rested on, again and again: it is to be sent once more.
        if answer.json["retryable"] as? Bool == true { return false }
        try #require(answer.status == 200, "seed \(seed): \(method) \(path) \(answer.status) \(answer.text)")
        answered.wrappingAdd(1, ordering: .relaxed)
        return true
    }

    // MARK: - What must be in the log in the end

    /// Holds the log against what was sent: each exactly once.
    func expectExactLog(_ events: [[String: Any]]) {
        #expect(events.map { ($0["position"] as? NSNumber)?.intValue } == Array(1...events.count), "seed \(seed)")
        let hashes = events.map { $0["hash"] as? String }
        let previous = events.map { $0["previous_hash"] as? String }
        #expect(Array(previous.dropFirst()) == Array(hashes.dropLast()), "seed \(seed)")
        let uuids = events.compactMap { ($0["notification"] as? [String: Any])?["uuid"] as? String }
        #expect(uuids.sorted() == life.notifications.map { $0.uuid.lowercased() }.sorted(), "seed \(seed)")
        #expect(
            events.count { $0["type"] as? String == "granted" } == grants.load(ordering: .relaxed), "seed \(seed)")
    }

    /// What an instance answers about everybody, in the same words as another.
    func answers(of service: ServiceProcess) async throws -> [String: String] {
        let client = HTTPClient(service.url, key: key)
        var answers: [String: String] = [:]
        for customer in customers {
            for page in ["entitlements", "timeline", "explain"] {
                let path = "/v1/customers/\(customer.customerID)/\(page)"
                var query = ["environment": customer.environment.rawValue]
                // Its sentences name the instant.
                if page == "explain" { query["at"] = "2026-06-01T00:00:00Z" }
                let answer = try await client.send("GET", path, query: query)
                try #require(answer.status == 200, "seed \(seed): \(path) \(answer.text)")
                answers["\(path) \(customer.environment)"] = Self.timeless(answer)
            }
        }
        for launch in launches.prefix(40) {
            let answer = try await client.send("POST", launch.path, body: launch.body)
            try #require(answer.status == 200, "seed \(seed): \(launch.path) \(answer.text)")
            answers["launch \(launches.firstIndex { $0.body == launch.body } ?? 0)"] = Self.timeless(answer)
        }
        answers["catalog"] = try await client.send("GET", "/v1/catalog").text
        return answers
    }

    /// An answer without when it was given, and without what is made anew each time.
    private static func timeless(_ answer: HTTPClient.Answer) -> String {
        var json = answer.json
        for member in ["at", "pass"] { json[member] = nil }
        return canonical(json)
    }
}

extension SplitMix64 {
    fileprivate mutating func index(of list: [some Any]) -> Int { Int(number(in: 0...Int64(list.count - 1))) }
}
