import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// What is sent to a fleet while its instances are killed: each request until some instance acknowledges it.
struct InstanceLoad: Sendable {
    static let customers = [
        "7e3fb20b-4cdb-47cc-936d-99d65f608138", "0f1d2e3c-4b5a-4978-8796-a5b4c3d2e1f0",
        "c56a4180-65aa-42ec-a945-5fd21dec0538", "9b2b3b6b-31ab-4e2d-9f44-3838df56aa11",
    ]
    /// What the catalog makes of the product that every customer holds: `catalog-` and the catalog's number.
    static let catalogPrefix = "catalog-"
    /// How many products there are, each with an entitlement of its own.
    private static let products = 600

    let fleet: InstanceFleet
    let key: String
    let truth: Acknowledgements
    let seed: UInt64
    /// The longest that a request may go without an acknowledgement, whatever happens to the service.
    private static let patience = Duration.seconds(150)
    /// Products of somebody else, which every catalog maps too.
    var alsoSold: [[String: any Sendable]] = []

    /// The first catalog, and a purchase of every customer that shows which catalog answers.
    func begin() async throws {
        var client = FleetClient(fleet, key: key)
        try await applyCatalog(&client)
        for customer in Self.customers.indices {
            let statement = try sign(product: "marker", buyer: customer)
            _ = try await notify(statement, "SUBSCRIBED", "marker-\(customer)", &client)
        }
    }

    /// Writes as long as that is wanted; several may, under numbers of their own.
    ///
    /// What was begun is finished, because nobody else knows what became of it.
    func write(as number: Int, while isWanted: @Sendable () -> Bool) async throws {
        var client = FleetClient(fleet, key: key)
        var random = SplitMix64(seed: seed &* 31 &+ UInt64(number))
        var step = 0
        while isWanted() {
            try await Task.sleep(for: .milliseconds(random.number(in: 5...40)))
            step += 1
            let name = "\(number)-\(step)"
            try await act(name, product: step * 4 + number, &client, &random)
        }
    }

    private func act(
        _ name: String, product: Int, _ client: inout FleetClient, _ random: inout SplitMix64
    ) async throws {
        let customer = Int(random.number(in: 0...Int64(Self.customers.count - 1)))
        switch random.number(in: 0...99) {
        case 0..<22:
            let answer = try await grant("grant-\(name)", to: Self.customers[customer], name, &client)
            let id = try #require(answer.json["grant_id"] as? String)
            await truth.gained(
                Acknowledgements.Holding(
                    entitlement: "grant-\(name)", kind: .grant(id: id), buyer: customer, holder: customer),
                at: try position(answer))
        case 22..<42 where product < Self.products:
            let answer = try await notify(
                sign(product: "\(product)", buyer: customer), "ONE_TIME_CHARGE", name, &client)
            await truth.gained(purchase(product, customer), at: try position(answer))
        case 42..<55 where product < Self.products:
            let body = try JSONSerialization.data(withJSONObject: [
                "app": fleet.installation.world.bundleID,
                "signed_transactions": [try sign(product: "\(product)", buyer: customer)],
            ])
            let answer = try await post(
                "/v1/customers/\(Self.customers[customer])/reconcile", Array(body), key: nil, &client)
            await truth.gained(purchase(product, customer), at: try headerPosition(answer), isExact: false)
            await truth.posted(Array(body), by: customer)
        case 55..<75:
            if let holding = await truth.take(at: random.next()) { try await takeAway(holding, name, &client) }
        case 75..<87:
            if let holding = await truth.take(at: random.next()) {
                try await transfer(holding, to: customer, name, &client)
            }
        case 87..<95:
            let alias = "alias-\(name)"
            _ = try await grant("linked-\(name)", to: alias, name, &client)
            let answer = try await command(
                "link", Self.customers[customer], ["customer_id": alias], "link-\(name)", &client)
            await truth.gained(
                Acknowledgements.Holding(
                    entitlement: "linked-\(name)", kind: .purchase, buyer: customer, holder: customer),
                at: try position(answer), canBeTaken: false)
        case 95..<99:
            // One writer alone, so that catalogs come in the order of their numbers.
            if name.hasPrefix("0-") { try await applyCatalog(&client) }
        default: break
        }
    }

    private func takeAway(
        _ holding: Acknowledgements.Holding, _ name: String, _ client: inout FleetClient
    ) async throws {
        let answer: HTTPClient.Answer
        switch holding.kind {
        case .grant(let id):
            answer = try await command(
                "revoke_grant", Self.customers[holding.holder], ["grant_id": id, "reason": "test"], "revoke-\(name)",
                &client)
        case .purchase:
            let product = String(holding.entitlement.dropFirst("item-".count))
            answer = try await notify(
                sign(product: product, buyer: holding.buyer, isRefunded: true), "REFUND", "refund-\(name)", &client)
        }
        await truth.lost(holding, at: try position(answer))
    }

    private func transfer(
        _ holding: Acknowledgements.Holding, to receiver: Int, _ name: String, _ client: inout FleetClient
    ) async throws {
        guard case .purchase = holding.kind, receiver != holding.holder, holding.holder == holding.buyer else {
            return try await takeAway(holding, name, &client)
        }
        let original = Self.original(String(holding.entitlement.dropFirst("item-".count)))
        let answer = try await command(
            "transfer", Self.customers[holding.holder],
            ["original_transaction_id": original, "to": Self.customers[receiver]], "transfer-\(name)", &client)
        await truth.lost(holding, at: try position(answer))
        var moved = holding
        moved.holder = receiver
        await truth.gained(moved, at: try position(answer))
    }

    private func purchase(_ product: Int, _ customer: Int) -> Acknowledgements.Holding {
        Acknowledgements.Holding(entitlement: "item-\(product)", kind: .purchase, buyer: customer, holder: customer)
    }

    private func applyCatalog(_ client: inout FleetClient) async throws {
        let number = await truth.willSendCatalog()
        var products: [[String: Any]] = (0..<Self.products).map {
            ["product_id": "com.example.\($0)", "entitlements": ["item-\($0)"]]
        }
        products += alsoSold
        products.append(["product_id": "com.example.marker", "entitlements": ["\(Self.catalogPrefix)\(number)"]])
        let body = try JSONSerialization.data(withJSONObject: ["products": products])
        let answer = try await untilAcknowledged(&client) { client, index in
            await client.send(to: index, "PUT", "/v1/catalog", body: Array(body))
        }
        await truth.catalogApplied(number, at: try headerPosition(answer))
    }

    // MARK: - Requests

    private func grant(
        _ entitlement: String, to customer: String, _ name: String, _ client: inout FleetClient
    ) async throws -> HTTPClient.Answer {
        try await command(
            "grant", customer, ["entitlement": entitlement, "reason": "test"], "grant-\(entitlement)", &client)
    }

    private func command(
        _ action: String, _ customer: String, _ body: [String: String], _ key: String, _ client: inout FleetClient
    ) async throws -> HTTPClient.Answer {
        let body = Array(try JSONSerialization.data(withJSONObject: body, options: .sortedKeys))
        return try await post("/v1/customers/\(customer)/actions/\(action)", body, key: key, &client)
    }

    private func notify(
        _ statement: String, _ type: String, _ name: String, _ client: inout FleetClient
    ) async throws -> HTTPClient.Answer {
        let world = fleet.installation.world
        let payload = try fleet.installation.authority.sign(
            .object([
                "notificationType": .string(type), "notificationUUID": .string("\(seed)-\(name)"),
                "version": .string("2.0"), "signedDate": .integer(Self.purchaseDate),
                "data": .object([
                    "environment": .string("Production"), "bundleId": .string(world.bundleID),
                    "appAppleId": .integer(world.appAppleID), "signedTransactionInfo": .string(statement),
                ]),
            ]))
        return try await post(
            "/v1/notifications/appstore", SimulatedAuthority.requestBody(payload), key: nil, &client)
    }

    private func post(
        _ path: String, _ body: [UInt8], key: String?, _ client: inout FleetClient
    ) async throws -> HTTPClient.Answer {
        let headers = key.map { ["Idempotency-Key": $0] } ?? [:]
        return try await untilAcknowledged(&client) { client, index in
            await client.send(to: index, "POST", path, body: body, headers: headers)
        }
    }

    private func untilAcknowledged(
        _ client: inout FleetClient, _ send: (inout FleetClient, Int) async -> HTTPClient.Answer?
    ) async throws -> HTTPClient.Answer {
        var index = Int.random(in: 0..<fleet.count)
        let end = ContinuousClock.now + Self.patience
        while true {
            try #require(ContinuousClock.now < end, "seed \(seed): nothing was acknowledged in \(Self.patience)")
            if let answer = await send(&client, index) {
                try #require(answer.status == 200, "seed \(seed): \(answer.status) \(answer.text)")
                return answer
            }
            index = (index + 1) % fleet.count
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private func position(_ answer: HTTPClient.Answer) throws -> Int64 {
        try #require((answer.json["position"] as? NSNumber)?.int64Value, "seed \(seed): \(answer.text)")
    }

    private func headerPosition(_ answer: HTTPClient.Answer) throws -> Int64 {
        try #require(answer.headers["ledger-position"].flatMap { Int64($0) }, "seed \(seed): \(answer.headers)")
    }

    // MARK: - Statements

    private static let purchaseDate: Int64 = 1_767_225_600_000

    private static func original(_ product: String) -> String { "2000-\(product)" }

    /// A purchase for life; one of the marker has the buyer in its transaction too.
    private func sign(product: String, buyer: Int, isRefunded: Bool = false) throws -> String {
        let original = Self.original(product == "marker" ? "marker-\(buyer)" : product)
        var members: [String: PayloadValue] = [
            "transactionId": .string(original), "originalTransactionId": .string(original),
            "productId": .string("com.example.\(product)"),
            "bundleId": .string(fleet.installation.world.bundleID), "type": .string("Non-Consumable"),
            "purchaseDate": .integer(Self.purchaseDate),
            "signedDate": .integer(Self.purchaseDate + (isRefunded ? 2000 : 1000)),
            "inAppOwnershipType": .string("PURCHASED"), "environment": .string("Production"),
            "appAccountToken": .string(Self.customers[buyer]), "transactionReason": .string("PURCHASE"),
        ]
        if isRefunded {
            members["revocationDate"] = .integer(Self.purchaseDate + 1500)
            members["revocationReason"] = .integer(1)
        }
        return try fleet.installation.authority.sign(.object(members))
    }
}
