import Foundation
import HTTPServer
import SeededRandom
import StoreSimulator
import StripePayloads
import TestSupport
import Testing

/// The whole service, from a webhook's signature to the answer, against the records of both simulated stores.
@Suite("The service against the record of a simulated Stripe", .serialized, .timeLimit(.minutes(10)))
struct WebOracleOverHTTPTests {
    private static let key = "sk_live_simulated"
    private static let secrets = ["whsec_simulated_old", "whsec_simulated_new"]

    /// One customer, or a few, in both stores; all of it is over by now.
    private struct Lives {
        let seed: UInt64
        let bought: StoreLife
        let web: WebLife
        var record: Record

        /// - Parameter bought: what is bought in the App Store, of which no two lives have the same.
        init(seed: UInt64, bought: StoreLife) {
            self.seed = seed
            self.bought = bought
            let owners = bought.record.customers.filter { $0.environment == .production }.map(\.customerID)
            web = WebLife.recent(seed: seed, customers: owners + ["customer-\(seed)"], until: StoreAPIStage.now)
            record = bought.record
            record.world = .standardOnWeb
            record.web = web.record.web
        }
    }

    /// Something that is delivered.
    private enum Parcel: Sendable {
        case notification(String)
        case webhook([UInt8])
    }

    @Test(
        "lives in both stores, delivered in any order, at once and repeatedly; what was answered stays, also when rebuilt"
    )
    func bothStores() async throws {
        let bought = StoreLife.recent(seed: 41, customers: 3 * Campaign.factor, until: StoreAPIStage.now)
        let lives = bought.enumerated().map { Lives(seed: 41 + UInt64($0), bought: $1) }
        let stripe = SimulatedStripe(
            .production, key: Self.key, lives: lives.map(\.web), now: { StoreAPIStage.now })
        let server = stripe.makeServer()
        try server.start()
        let installation = try await Self.installation(at: "http://127.0.0.1:\(server.boundPort ?? 0)")
        defer { installation.remove() }
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)

        var past: [(path: String, query: [String: String], body: Data)] = []
        for life in lives {
            let parcels = try Self.parcels(of: life, installation.authority)
            let third = parcels.count / 3 + 1
            for part in stride(from: 0, to: parcels.count, by: third) {
                try await Self.deliver(Array(parcels[part...].prefix(third)), to: client, "seed \(life.seed)")
                if part > 0 { try await installation.deleteViews() }
                for customer in life.record.customers { past.append(try await Self.answer(about: customer, client)) }
            }
        }
        for life in lives {
            for customer in life.record.customers {
                let truth = life.record.customer(customer)
                // What may be read a little later, is.
                let deadline = ContinuousClock.now + .seconds(120)
                while ContinuousClock.now < deadline {
                    let read = try await client.timelines(of: customer, "seed \(life.seed)")
                    if read == truth.timelines { break }
                    try await Task.sleep(for: .milliseconds(500))
                }
                try await client.expectRecord(truth, of: customer, limit: 40, "seed \(life.seed)")
            }
        }
        #expect(stripe.asked.contains { $0.hasPrefix("GET /v1/invoice_payments") }, "nothing was traced")
        try await Self.expectSame(past, client)
        // The views were deleted again and again.
        try await installation.rightful("rebuild")
        try await Self.expectSame(past, client)
        #expect(try await installation.rightful("verify").contains("verified"))
        for secret in Self.secrets + [Self.key] { #expect(!service.logText.contains(secret)) }
        await server.stop(graceSeconds: 0)
    }

    private static func installation(at url: String) async throws -> Installation {
        let names = ["stripe-key", "old-secret", "new-secret"]
        let installation = try await Installation(
            world: .standardOnWeb,
            settings: [
                "stripe": [
                    [
                        "environment": "production", "secret_key_path": names[0],
                        "webhook_secret_paths": [names[1], names[2]], "success_url": "https://example.com/thanks",
                        "cancel_url": "https://example.com/plans", "base_url": url,
                    ] as [String: any Sendable]
                ]
            ])
        for (name, secret) in zip(names, [key] + secrets) {
            let path = installation.directory.appending(path: name).path()
            try #require(
                FileManager.default.createFile(
                    atPath: path, contents: Data(secret.utf8), attributes: [.posixPermissions: 0o600]))
        }
        return installation
    }

    /// What both stores send of a life, mixed and repeated.
    private static func parcels(of life: Lives, _ authority: SimulatedAuthority) throws -> [Parcel] {
        let events = life.web.events.filter { StripeEventType.isKnown($0.type) || $0.type.hasPrefix("customer.") }
        var parcels: [Parcel] = []
        let signed = try life.bought.notifications.map { try authority.sign($0) }
        for arrival in Delivery.plan(life.bought.notifications, .chaotic, seed: life.seed) {
            parcels.append(.notification(signed[arrival.index]))
        }
        for arrival in WebDelivery.plan(events, .chaotic, seed: life.seed) {
            parcels.append(.webhook(events[arrival.index].json(arrival.shape, pending: arrival.pending).json))
        }
        var random = SplitMix64(seed: life.seed)
        return random.shuffled(parcels)
    }

    /// Six at a time, whatever their order.
    private static func deliver(_ parcels: [Parcel], to client: HTTPClient, _ context: String) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, parcel) in parcels.enumerated() {
                if index >= 6 { try await group.next() }
                group.addTask {
                    let answer =
                        switch parcel {
                        case .notification(let payload): try await client.notify(payload)
                        case .webhook(let body):
                            try await client.send(
                                "POST", "/v1/notifications/stripe", body: body,
                                headers: [
                                    "Content-Type": "application/json",
                                    "Stripe-Signature": StripeSigner.header(
                                        body, secrets: index % 3 == 0 ? secrets : [secrets[index % 2]],
                                        at: StoreAPIStage.now),
                                ])
                        }
                    #expect(answer.status == 200, "\(context): \(answer.text)")
                }
            }
            try await group.waitForAll()
        }
    }

    /// What is answered about a customer as of the newest position, to be asked again.
    private static func answer(
        about customer: CustomerKey, _ client: HTTPClient
    ) async throws -> (path: String, query: [String: String], body: Data) {
        let head = try await client.send("GET", "/v1/ledger").json["position"] as? Int ?? 0
        let path = "/v1/customers/\(customer.customerID)/timeline"
        let query = ["environment": customer.environment.rawValue, "known_at": "\(head)"]
        let answer = try await client.send("GET", path, query: query)
        try #require(answer.status == 200, "\(answer.text)")
        return (path, query, answer.body)
    }

    private static func expectSame(
        _ past: [(path: String, query: [String: String], body: Data)], _ client: HTTPClient
    ) async throws {
        for (path, query, body) in past {
            let answer = try await client.send("GET", path, query: query)
            try #require(answer.body == body, "\(path) \(query) was answered otherwise before")
        }
    }
}
