import Foundation
import SeededRandom
import Testing

/// A reader that asks the instances of a fleet in turn, and holds every answer to what was acknowledged before.
struct AlternatingReader {
    private let load: InstanceLoad
    private var client: FleetClient
    private var random: SplitMix64
    /// What the last answers were about, of each customer.
    private var positions: [Int: Int64] = [:]
    private var catalogs: [Int: Int] = [:]
    private(set) var answers = 0

    init(_ load: InstanceLoad, number: Int) {
        self.load = load
        client = FleetClient(load.fleet, key: load.key)
        random = SplitMix64(seed: load.seed &* 131 &+ UInt64(number))
    }

    /// Reads as long as that is wanted; returns how many answers it had.
    mutating func read(while isWanted: @Sendable () -> Bool) async throws -> Int {
        var turn = 0
        while isWanted() {
            turn += 1
            try await ask(turn % load.fleet.count)
            try await Task.sleep(for: .milliseconds(random.number(in: 0...6)))
        }
        return answers
    }

    /// Asks an instance one question.
    mutating func ask(_ index: Int) async throws {
        let customer = Int(random.number(in: 0...Int64(InstanceLoad.customers.count - 1)))
        switch random.number(in: 0...9) {
        case 0...3: try await askNow(index, customer, query: [:])
        case 4:
            // A little later than the clock of whoever recorded it.
            let at = Date(timeIntervalSinceNow: 2).formatted(.iso8601)
            try await askNow(index, customer, query: ["at": at])
        case 5...6: try await askPast(index)
        default:
            if let body = await load.truth.launch(of: customer, at: random.next()) {
                try await askNow(index, customer, launching: body, query: [:])
            }
        }
    }

    private mutating func askNow(
        _ index: Int, _ customer: Int, launching body: [UInt8]? = nil, query: [String: String]
    ) async throws {
        let path = "/v1/customers/\(InstanceLoad.customers[customer])"
        let before = await load.truth.expectation(of: customer)
        let found =
            if let body {
                await client.send(to: index, "POST", path + "/reconcile", body: body)
            } else {
                await client.send(to: index, "GET", path + "/entitlements", query: query)
            }
        guard let answer = found else { return }
        let after = await load.truth.expectation(of: customer)
        let told = "seed \(load.seed): \(body == nil ? "read \(query)" : "launch") of \(path) from instance \(index)"
        try #require(answer.status == 200, "\(told): \(answer.status) \(answer.text)")
        answers += 1
        let position = try #require(answer.headers["ledger-position"].flatMap { Int64($0) }, "\(told)")
        #expect(position >= before.position, "\(told) is older than what was acknowledged")
        #expect(position >= positions[customer] ?? 0, "\(told) is older than an answer before")
        positions[customer] = position
        let held = try Self.held(answer, told)
        let missing = before.held.intersection(after.held).subtracting(held)
        #expect(missing.isEmpty, "\(told) at \(position) misses \(missing.sorted())")
        let outdated = before.gone.intersection(held)
        #expect(outdated.isEmpty, "\(told) at \(position) still has \(outdated.sorted())")
        let numbers = held.compactMap {
            $0.hasPrefix(InstanceLoad.catalogPrefix) ? Int($0.dropFirst(InstanceLoad.catalogPrefix.count)) : nil
        }
        let catalog = try #require(numbers.first, "\(told) shows no catalog")
        #expect(numbers.count == 1 && (before.catalog...after.catalogSent).contains(catalog), "\(told): \(numbers)")
        #expect(catalog >= catalogs[customer] ?? 0, "\(told) has an older catalog than an answer before")
        catalogs[customer] = catalog
    }

    /// Asks for what was known when somebody got or lost something.
    private mutating func askPast(_ index: Int) async throws {
        guard let record = await load.truth.record(at: random.next()) else { return }
        // Half of them at an instant, whose answer never changes.
        var query = ["known_at": "\(record.position)"]
        if random.chance(50) { query["at"] = "2050-01-01T00:00:00.000Z" }
        let path = "/v1/customers/\(InstanceLoad.customers[record.customer])/entitlements"
        guard let answer = await client.send(to: index, "GET", path, query: query) else { return }
        let told = "seed \(load.seed): read \(query) of \(path) from instance \(index)"
        try #require(answer.status == 200, "\(told): \(answer.status) \(answer.text)")
        answers += 1
        #expect(answer.headers["ledger-position"] == "\(record.position)", "\(told)")
        #expect(try Self.held(answer, told).contains(record.entitlement) == record.isHeld, "\(told): \(record)")
        if query["at"] != nil {
            let isUnchanged = await load.truth.isUnchanged(answer.text, to: "\(record.customer) \(record.position)")
            #expect(isUnchanged, "\(told) is another answer than before")
        }
    }

    private static func held(_ answer: HTTPClient.Answer, _ told: String) throws -> Set<String> {
        let entitlements = try #require(answer.json["entitlements"] as? [[String: Any]], "\(told): \(answer.text)")
        return Set(
            entitlements.compactMap { $0["gives_access"] as? Bool == true ? $0["id"] as? String : nil })
    }
}
