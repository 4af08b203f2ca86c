import EntitlementCore
import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// Takes two services through a world of several customers, whatever happens to the services meanwhile; and gives people
/// things that end while the test runs.
struct WebhookWorld {
    private let stage: WebhookStage
    private let world: OwnershipWorld
    private let name: String
    private var random: SplitMix64
    private var signed: [Int: String] = [:]
    private var transfers: [Int: Int64] = [:]
    private var grants: [Int: String] = [:]
    private var count = 0
    private var catalogs = 0

    /// Where purchases that end soon are told of, two people in each environment.
    private let buyers: [CustomerKey]
    var names: [CustomerKey] { world.names + buyers }

    /// - Parameter number: tells it from the other worlds of the ledger.
    init(_ stage: WebhookStage, number: Int) {
        self.stage = stage
        let seed = stage.seed &* 100 &+ UInt64(number)
        world = .random(seed: seed)
        name = "\(stage.context), world \(number)"
        random = SplitMix64(seed: seed ^ 0xB0B)
        buyers = SimulatedStoreEnvironment.allCases.flatMap { environment in
            (0..<2).map {
                CustomerKey(environment, "00000000-0000-4000-8000-\(String(10_000_000 + number * 100 + $0))0000")
            }
        }
    }

    /// Takes up to so many steps, and many between them.
    ///
    /// - Parameter changesCatalog: whether it changes the catalog now and then.
    mutating func live(steps: Int, changesCatalog: Bool) async throws {
        // What only some of the catalogs know.
        if changesCatalog { try await buy(buyers[0], StoreWorld.ProductID.mystery, "Non-Consumable", until: nil) }
        for step in world.steps.prefix(steps) {
            try await take(step)
            switch random.number(in: 0...99) {
            case 0..<18: try await grantForSeconds(random.pick(names), Double(random.number(in: 1000...6000)) / 1000)
            case 18..<36:
                try await buy(
                    random.pick(buyers), StoreWorld.ProductID.proMonthly, "Auto-Renewable Subscription",
                    until: Self.now + random.number(in: 1000...6000))
            case 36..<42 where changesCatalog: try await changeCatalog()
            default: break
            }
        }
        if changesCatalog { try await changeCatalog() }
    }

    // MARK: - Steps of the world

    private mutating func take(_ step: OwnershipStep) async throws {
        let context = "\(name), step \(step.number)"
        switch step.deed {
        case .deliver(let index):
            let payload = try signed[index] ?? stage.installation.authority.sign(world.notifications[index])
            signed[index] = payload
            let answer = try await stage.send(
                "POST", "/v1/notifications/appstore", body: SimulatedAuthority.requestBody(payload))
            try #require(answer.status == 200, "\(context): \(answer.text)")
        case .post(let post): try await self.post(post, context)
        case .link(let link):
            let member: (String, String) =
                switch link.name {
                case .appAccountToken(let token): ("app_account_token", token)
                case .appTransactionID(let id): ("app_transaction_id", id)
                case .customerID(let id): ("customer_id", id)
                }
            try await command(link.target, "link", [member.0: member.1], step, context)
        case .transfer(let transfer):
            let answer = try await command(
                transfer.from, "transfer",
                ["original_transaction_id": transfer.original.originalTransactionID, "to": transfer.to.customerID],
                step, context)
            if answer.status == 200 { transfers[step.number] = try answer.position }
        case .undoTransfer(let undoing):
            guard let position = transfers[undoing.step] else { return }
            try await command(undoing.customer, "transfer", ["undo": position], step, context)
        case .grant(let gift):
            let until = gift.lasting.map { Timestamp(milliseconds: Self.now + $0) }
            var body: [String: Any] = ["entitlement": gift.entitlement, "reason": "a test"]
            body["until"] = until.map { "\($0)" }
            let answer = try await command(gift.customer, "grant", body, step, context)
            grants[step.number] = answer.json["grant_id"] as? String
        case .revokeGrant(let undoing):
            guard let grant = grants[undoing.step] else { return }
            try await command(
                undoing.customer, "revoke_grant", ["grant_id": grant, "reason": "a test"], step, context)
        }
    }

    private func post(_ post: OwnershipStep.Post, _ context: String) async throws {
        let authority = stage.installation.authority
        let environment = post.customer.environment.rawValue
        let path = "/v1/customers/\(post.customer.customerID)"
        var body: [String: Any] = [
            "app": world.world.bundleID, "environment": environment,
            "signed_transactions": try post.statements.map { try authority.sign($0) },
        ]
        var key: String? = nil
        switch post.proof {
        case .none: key = stage.devices[environment]
        case .secretKey: break
        case .customerToken:
            let answer = try await stage.send(
                "POST", "\(path)/tokens", body: bytes(["environment": environment, "expires_in": 600]))
            key = try #require(answer.json["token"] as? String, "\(context): \(answer.text)")
        case .appTransaction(let id):
            key = stage.devices[environment]
            body["app_transaction"] = try authority.signAppTransaction(
                id, post.customer.environment, world: world.world)
        }
        let answer = try await stage.send("POST", "\(path)/reconcile", body: bytes(body), by: key)
        try #require(answer.status == 200, "\(context): \(answer.text)")
    }

    /// Sends a command; what contradicts what holds is refused, and changes nothing.
    @discardableResult
    private func command(
        _ customer: CustomerKey, _ action: String, _ members: [String: Any], _ step: OwnershipStep, _ context: String
    ) async throws -> HTTPClient.Answer {
        let body = try bytes(members.merging(["environment": customer.environment.rawValue]) { $1 })
        let answer = try await stage.send(
            "POST", "/v1/customers/\(customer.customerID)/actions/\(action)", body: body,
            idempotency: "\(name) \(step.number)")
        try #require(answer.status < 500, "\(context): \(answer.text)")
        return answer
    }

    // MARK: - Between the steps

    static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1000) }

    /// Gives somebody something that ends soon.
    mutating func grantForSeconds(_ customer: CustomerKey, _ seconds: Double) async throws {
        count += 1
        let until = Timestamp(milliseconds: Self.now + Int64(seconds * 1000))
        let answer = try await stage.send(
            "POST", "/v1/customers/\(customer.customerID)/actions/grant",
            body: bytes([
                "entitlement": random.pick(["premium", "season", "vip"]), "until": "\(until)", "reason": "a test",
                "environment": customer.environment.rawValue,
            ]), idempotency: "\(name) grant \(count)")
        // An end that has passed meanwhile, or the customer's surrender of that name, is refused.
        try #require(answer.status < 500, "\(name): \(answer.text)")
    }

    /// Tells of a purchase of somebody's, which may end soon.
    private mutating func buy(
        _ customer: CustomerKey, _ product: String, _ kind: String, until end: Int64?
    ) async throws {
        count += 1
        let now = Self.now
        let id = "7\(stage.seed)0\(world.seed)0\(count)"
        var members: [String: PayloadValue] = [
            "transactionId": .string(id), "originalTransactionId": .string(id), "productId": .string(product),
            "bundleId": .string(world.world.bundleID), "type": .string(kind), "purchaseDate": .integer(now - 60_000),
            "signedDate": .integer(now - 1000), "inAppOwnershipType": .string("PURCHASED"),
            "environment": .string(customer.environment.payloadName),
            "appAccountToken": .string(customer.customerID), "transactionReason": .string("PURCHASE"),
        ]
        members["expiresDate"] = end.map { .integer($0) }
        let statement = try stage.installation.authority.sign(.object(members))
        let answer = try await stage.send(
            "POST", "/v1/customers/\(customer.customerID)/reconcile",
            body: bytes([
                "app": world.world.bundleID, "environment": customer.environment.rawValue,
                "signed_transactions": [statement],
            ]))
        try #require(answer.status == 200, "\(name): \(answer.text)")
    }

    /// Another catalog: what some products mean, and how long access outlives a period.
    private mutating func changeCatalog() async throws {
        catalogs += 1
        var changed = world.world.with { $0.leewaySeconds = Int64(catalogs % 3) }
        if catalogs % 2 == 1 { changed.mappings.append(CatalogMapping(StoreWorld.ProductID.mystery, ["vip"])) }
        let answer = try await stage.send(
            "PUT", "/v1/catalog", body: Array(changed.catalogFile.encoded()), idempotency: "\(name) catalog \(catalogs)"
        )
        try #require(answer.status == 200, "\(name): \(answer.text)")
    }
}
