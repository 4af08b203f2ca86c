import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import StoreSimulator
import Testing

@testable import Service

/// The instant so many days after the beginning of 2026; the rig's noon is on day 323.5.
func day(_ days: Double) -> Timestamp {
    Timestamp(milliseconds: 1_767_225_600_000 + Int64(days * 86_400_000))
}

/// A transaction as a device holds it, before it is signed.
struct HeldTransaction: Hashable, Sendable {
    var id = "2000000000000001"
    /// `nil`: its own id.
    var original: String?
    var product = "com.example.pro.yearly"
    var kind = "Auto-Renewable Subscription"
    var from = 0.0
    /// `nil`: it does not run out.
    var until: Double? = 365
    var signed = 0.1
    var token: String?
    var appTransaction: String?
    var revoked: Double?
    var reason: String? = "PURCHASE"
    var isUpgraded = false
    var bundleID = ServiceRig.bundleID
    var environment = "Production"

    static func lifetime(_ id: String, token: String? = nil, appTransaction: String? = nil) -> HeldTransaction {
        HeldTransaction(
            id: id, product: "com.example.lifetime", kind: "Non-Consumable", until: nil, token: token,
            appTransaction: appTransaction)
    }

    var originalID: String { original ?? id }

    func with(_ change: (inout HeldTransaction) -> Void) -> HeldTransaction {
        var copy = self
        change(&copy)
        return copy
    }

    var payload: PayloadValue {
        func moment(_ days: Double) -> PayloadValue { .integer(day(days).milliseconds) }
        var members: [String: PayloadValue] = [
            "transactionId": .string(id), "originalTransactionId": .string(originalID), "productId": .string(product),
            "bundleId": .string(bundleID), "type": .string(kind), "purchaseDate": moment(from),
            "signedDate": moment(signed), "inAppOwnershipType": .string("PURCHASED"),
            "environment": .string(environment),
        ]
        if kind == "Auto-Renewable Subscription" { members["webOrderLineItemId"] = .string("line-" + id) }
        members["expiresDate"] = until.map(moment)
        members["appAccountToken"] = token.map { .string($0) }
        members["appTransactionId"] = appTransaction.map { .string($0) }
        members["transactionReason"] = reason.map { .string($0) }
        if let revoked {
            members["revocationDate"] = moment(revoked)
            members["revocationReason"] = .integer(1)
        }
        if isUpgraded { members["isUpgraded"] = .boolean(true) }
        return .object(members)
    }
}

/// Renewal information as a device holds it, before it is signed.
struct HeldRenewal: Hashable, Sendable {
    var original = "2000000000000001"
    var signed = 0.1
    var renews = true
    var retry = false
    var graceEnd: Double?
    var priceIncrease: Int64?
    var environment = "Production"

    var payload: PayloadValue {
        var members: [String: PayloadValue] = [
            "originalTransactionId": .string(original), "autoRenewStatus": .integer(renews ? 1 : 0),
            "autoRenewProductId": .string("com.example.pro.yearly"), "productId": .string("com.example.pro.yearly"),
            "isInBillingRetryPeriod": .boolean(retry), "environment": .string(environment),
            "signedDate": .integer(day(signed).milliseconds),
        ]
        members["gracePeriodExpiresDate"] = graceEnd.map { .integer(day($0).milliseconds) }
        members["priceIncreaseStatus"] = priceIncrease.map { .integer($0) }
        return .object(members)
    }
}

/// What a device posts.
struct Posted {
    var app: String? = ServiceRig.bundleID
    var environment: ReconcileRequest.Environment?
    var transactions: [String] = []
    var renewals: [String] = []
    var appTransaction: String?
    var claims: [ReconcileRequest.Claim] = []

    var body: [UInt8] {
        get throws {
            try WireJSON.encode(
                ReconcileRequest(
                    app: app, environment: environment, signedTransactions: transactions, signedRenewalInfos: renewals,
                    appTransaction: appTransaction, claims: claims))
        }
    }
}

extension ServiceRig {
    static let deviceCatalog = """
        {"products":[{"product_id":"com.example.pro.yearly","entitlements":["premium"]},
        {"product_id":"com.example.pro.monthly","entitlements":["premium"]},
        {"product_id":"com.example.lifetime","entitlements":["lifetime"]},
        {"product_id":"com.example.coins","entitlements":[]}]}
        """

    /// A rig whose catalog, at position 1, knows the devices' products.
    static func withCatalog(
        limits: Application.Limits = .init(), passKeys: PassKeyRing = .empty, trust: DeviceTrust = DeviceTrust(),
        connections: Int = 3, hasOtherApp: Bool = false, asksStore: Bool = false
    ) async throws -> ServiceRig {
        let rig = try await make(
            limits: limits, trust: trust, passKeys: passKeys, connections: connections, hasOtherApp: hasOtherApp,
            asksStore: asksStore)
        #expect(try await rig.put(deviceCatalog).status == 200)
        return rig
    }

    func sign(_ transaction: HeldTransaction) throws -> String { try store.sign(transaction.payload) }
    func sign(_ renewal: HeldRenewal) throws -> String { try store.sign(renewal.payload) }

    func signAppTransaction(
        _ id: String?, bundleID: String = bundleID, environment: String = "Production"
    ) throws -> String {
        var members: [String: PayloadValue] = [
            "receiptType": .string(environment), "bundleId": .string(bundleID),
            "receiptCreationDate": .integer(day(0).milliseconds),
        ]
        members["appTransactionId"] = id.map { .string($0) }
        if environment == "Production" { members["appAppleId"] = .integer(Self.appAppleID) }
        return try store.sign(.object(members))
    }

    /// Posts what a device holds; by the admin's secret key unless another is given.
    func reconcile(
        _ customer: String, _ posted: Posted, key: String? = nil, on instance: Application? = nil,
        target: String? = nil
    ) async throws -> HTTPResponse {
        let head = HTTPRequestHead(
            method: "POST", target: target ?? "/v1/customers/\(customer)/reconcile",
            headers: [("Authorization", "Bearer " + (key ?? admin))])
        return await (instance ?? application).handle(try HTTPRequest(head: head, body: posted.body))
    }

    /// The same, where it has to be answered.
    func answer(
        _ customer: String, _ posted: Posted, key: String? = nil, on instance: Application? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ReconciliationDocument {
        let response = try await reconcile(customer, posted, key: key, on: instance)
        try #require(response.status == 200, "\(response.text)", sourceLocation: sourceLocation)
        return try WireJSON.decode(ReconciliationDocument.self, from: response.body)
    }

    /// Delivers a notification with a transaction and renewal information.
    @discardableResult
    func notify(
        _ transaction: HeldTransaction, _ renewal: HeldRenewal? = nil, type: String = "SUBSCRIBED", uuid: String,
        subtype: String? = nil
    ) async throws -> HTTPResponse {
        var data: [String: PayloadValue] = [
            "environment": .string(transaction.environment), "bundleId": .string(transaction.bundleID),
            "signedTransactionInfo": .string(try sign(transaction)),
        ]
        data["signedRenewalInfo"] = try renewal.map { .string(try sign($0)) }
        if transaction.environment == "Production" { data["appAppleId"] = .integer(Self.appAppleID) }
        var payload: [String: PayloadValue] = [
            "notificationType": .string(type), "notificationUUID": .string(uuid), "version": .string("2.0"),
            "signedDate": .integer(day(transaction.signed).milliseconds), "data": .object(data),
        ]
        payload["subtype"] = subtype.map { .string($0) }
        let answer = try await deliver(store.sign(.object(payload)))
        try #require(answer.status == 200, "\(answer.text)")
        return answer
    }

    func head() async throws -> Int64 {
        guard case .int(let position) = try await get("/v1/ledger").json["position"] else {
            throw TestFailure("no position")
        }
        return position
    }

    /// The types of the events after a position.
    func eventTypes(after position: Int64) async throws -> [String] {
        guard case .array(let items) = try await get("/v1/events?after=\(position)&limit=1000").json["items"] else {
            throw TestFailure("no list")
        }
        return items.compactMap { if case .string(let type) = $0["type"] { type } else { nil } }
    }

    func entitlements(_ customer: String, _ query: String = "") async throws -> [EntitlementDocument] {
        let answer = try await get("/v1/customers/\(customer)/entitlements\(query)")
        return try WireJSON.decode(EntitlementsDocument.self, from: answer.body).entitlements
    }

    func timeline(_ customer: String, _ query: String = "") async throws -> [TimelineDocument.Entitlement] {
        let answer = try await get("/v1/customers/\(customer)/timeline\(query)")
        return try WireJSON.decode(TimelineDocument.self, from: answer.body).entitlements
    }

    /// A customer's own token.
    func token(_ customer: String, environment: String = "production", key: String? = nil) async throws -> String {
        let answer = try await send(
            "POST", "/v1/customers/\(customer)/tokens?environment=\(environment)", key: key ?? admin)
        guard case .string(let token) = try answer.json["token"] else { throw TestFailure(answer.text) }
        return token
    }

    /// A key as it ships in an app; without an environment it is good for both.
    func publishableKey(
        environment: StoreEnvironment? = .production, bundleID: String = bundleID
    ) async throws -> String {
        try await keys.create(
            name: "app", scopes: [], isPublishable: true, environment: environment, bundleID: bundleID
        ).secret
    }

    /// Records a command's fact, as if its route had taken it.
    @discardableResult
    func command(
        _ fact: LedgerFact, _ identities: [String], environment: StoreEnvironment = .production
    ) async throws -> Int64 {
        try await ledger.writer.append(
            EventDraft(
                environment: environment, source: .api, occurredAt: nil, fact: fact, identities: identities,
                deduplication: .unique)
        ).position
    }

    /// Another service on the same database.
    func secondInstance() -> Application {
        Application(
            ServiceContext(
                reader: LedgerReader(pool: pool, now: context.now), limits: context.limits,
                metrics: Metrics(version: "0.0.0", foldVersion: OriginalState.foldVersion),
                logger: context.logger, sha256: context.sha256, now: context.now),
            ledger: LedgerAccess(
                writer: LedgerWriter(pool: pool, now: context.now), keys: keys, tokens: ledger.tokens,
                commandKeys: ledger.commandKeys, schemaRefusal: { nil }),
            trust: trust, passes: passes)
    }

    static func passKey(_ id: String = "k1") throws -> PassKeyRing.Key {
        let pair = try PrivateKey.generate(.p256)
        let point = try pair.publicKey.p256Point()
        return PassKeyRing.Key(id: id, notBefore: nil, x: point.x, y: point.y, sign: { try pair.signES256($0) })
    }
}

extension ReconciliationDocument {
    /// The results in words: `recorded`, `refused untrusted_signature`.
    var verdicts: [String] {
        results.map { ([$0.status.rawValue] + [$0.code].compactMap(\.self)).joined(separator: " ") }
    }

    /// The entitlements in words: `premium active until 2027-…`.
    var held: [String] { entitlements.map(\.words) }
}

extension EntitlementDocument {
    /// What it says, apart from the events it rests on.
    var words: String {
        "\(id) \(state.rawValue) \(givesAccess) \(since)..\(until.map { "\($0)" } ?? "") "
            + "\(willRenew.map { "\($0)" } ?? "-") \(reason.code)"
    }
}
