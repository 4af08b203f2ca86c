import EmbeddedPostgres
import EntitlementCore
import Foundation
import PostgresClient
import StoreSimulator
import Testing

/// The whole service, from signature to answer, against the simulator's record.
@Suite("The service against the store's own record", .serialized)
struct OracleOverHTTPTests {
    @Test("random lives, delivered in any order, at once and repeatedly, with the views deleted in between")
    func randomLives() async throws {
        let installation = try Installation()
        defer { installation.remove() }
        let key = try await installation.rightful("keys", "create", "--name", "test", "--scopes", "admin")
            .trimmingCharacters(in: .whitespacesAndNewlines)
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())

        for seed in 1...UInt64(4 * LongTests.factor) {
            let life = StoreLife.random(seed: seed, world: installation.world, customers: 3)
            let style = DeliveryStyle.allCases[Int(seed) % 5]
            let arrivals = Delivery.plan(life.notifications, style, seed: seed)
            let signed = try life.notifications.map { try installation.authority.sign($0) }
            let half = arrivals.count / 2
            try await deliver(arrivals[..<half].map { signed[$0.index] }, to: client, seed: seed)
            try await deleteViews(installation)
            try await deliver(arrivals[half...].map { signed[$0.index] }, to: client, seed: seed)
            if seed % 2 == 0 { try await deleteViews(installation) }
            for customer in life.record.customers {
                try await expectRecord(life.record.customer(customer), of: customer, client, "seed \(seed) \(style)")
            }
        }
        #expect(!service.logText.contains("apple:"), "an identity stands in the log")
    }

    /// Eight at a time, whatever their order.
    private func deliver(_ payloads: [String], to client: HTTPClient, seed: UInt64) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, payload) in payloads.enumerated() {
                if index >= 8 { try await group.next() }
                group.addTask {
                    let answer = try await client.notify(payload)
                    #expect(answer.status == 200, "seed \(seed): \(answer.text)")
                }
            }
            try await group.waitForAll()
        }
    }

    private func deleteViews(_ installation: Installation) async throws {
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await owner.execute(script: "DELETE FROM original_view")
        try await cluster.release()
    }

    private func expectRecord(
        _ record: CustomerRecord, of customer: CustomerKey, _ client: HTTPClient, _ context: String
    ) async throws {
        let path = "/v1/customers/\(customer.customerID)"
        let environment = customer.environment.rawValue
        let timeline = try await client.send("GET", "\(path)/timeline", query: ["environment": environment])
        let entitlements = try #require(
            timeline.json["entitlements"] as? [[String: Any]], "\(context) \(timeline.text)")
        var actual: [String: [RecordInterval]] = [:]
        for entitlement in entitlements {
            let intervals = try #require(entitlement["intervals"] as? [[String: Any]])
            actual[try #require(entitlement["id"] as? String)] = try intervals.map { try RecordInterval(json: $0) }
        }
        // One difference is enough to know; the thousand that follow from it would only hide it.
        try #require(actual == record.timelines, "\(context) \(customer) \(timeline.text)")
        // Every boundary and its neighbours, thinned where a life has very many.
        let instants = record.boundaryInstants
        for instant in instants.enumerated().filter({
            instants.count <= 90 || $0.offset % (instants.count / 90 + 1) == 0
        }) {
            let at = Timestamp(milliseconds: instant.element)
            let answer = try await client.send(
                "GET", "\(path)/entitlements", query: ["environment": environment, "at": "\(at)"])
            let items = try #require(answer.json["entitlements"] as? [[String: Any]], "\(context) \(answer.text)")
            let answers = try items.map { try RecordAnswer(json: $0) }
            try #require(answers == record.answer(at: instant.element), "\(context) \(customer) at \(at)")
        }
    }
}

extension RecordInterval {
    init(json: [String: Any]) throws {
        self.init(
            from: try milliseconds(json["from"]), until: try json["until"].flatMap { try optionalMilliseconds($0) },
            state: try #require((json["state"] as? String).flatMap { RecordState(rawValue: $0) }),
            givesAccess: try #require(json["gives_access"] as? Bool),
            productID: try #require(json["product_id"] as? String),
            originalTransactionID: try #require(json["original_transaction_id"] as? String))
    }
}

extension RecordAnswer {
    init(json: [String: Any]) throws {
        self.init(
            entitlement: try #require(json["id"] as? String), givesAccess: try #require(json["gives_access"] as? Bool),
            state: try #require((json["state"] as? String).flatMap { RecordState(rawValue: $0) }),
            since: try milliseconds(json["since"]),
            until: try json["until"].flatMap { try optionalMilliseconds($0) },
            productID: try #require(json["product_id"] as? String),
            originalTransactionID: try #require(json["original_transaction_id"] as? String),
            willRenew: json["will_renew"] as? Bool)
    }
}

private func milliseconds(_ value: Any?) throws -> Int64 {
    let text = try #require(value as? String)
    return try #require(Timestamp(rfc3339: text)).milliseconds
}

private func optionalMilliseconds(_ value: Any) throws -> Int64? {
    value is NSNull ? nil : try milliseconds(value)
}
