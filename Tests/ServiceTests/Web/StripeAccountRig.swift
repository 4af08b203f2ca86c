import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import StoreSimulator
import StripeAPI
import TestSupport
import Testing

@testable import Service

/// A service and a simulated Stripe account of the live mode, on one clock.
final class StripeAccountRig: Sendable {
    static let catalog = """
        {"products":[{"product_id":"com.example.pro.monthly","entitlements":["premium"],
        "stripe":{"price":"price_pro_month","product":"prod_pro","mode":"subscription"}},
        {"product_id":"com.example.lifetime","entitlements":["premium"],
        "stripe":{"price":"price_lifetime","mode":"payment"}}]}
        """

    let stripe: StripeRig
    let account: SimulatedStripe
    private let server: HTTPServer
    private let clock: TestClock

    var rig: ServiceRig { stripe.rig }
    var now: Timestamp { rig.clock.now }

    init(seed: UInt64 = 1) async throws {
        let clock = TestClock(try instant(ServiceRig.noon))
        account = SimulatedStripe(.production, key: "sk_live_1", seed: seed, now: { clock.now.milliseconds })
        server = account.makeServer()
        try server.start()
        self.clock = clock
        let base = "http://127.0.0.1:\(server.boundPort ?? 0)"
        let client = StripeClient(
            try #require(StripeKey("sk_live_1")), base: base,
            surroundings: .init(now: { clock.now }, sleep: { _ in }, fraction: { 0 }))
        let shop = StripeShop(
            client: client, successURL: "https://example.com/thanks", cancelURL: "https://example.com/plans")
        stripe = try await StripeRig.make(api: base, shops: [.production: shop])
        #expect(try await stripe.rig.put(Self.catalog).status == 200)
    }

    func stop() async { await server.stop(graceSeconds: 0) }

    /// Lets time pass for both, and Stripe do what is due.
    func advance(_ milliseconds: Int64) {
        clock.now = clock.now.adding(milliseconds: milliseconds)
        rig.clock.now = clock.now
        account.tick()
    }

    // MARK: - Selling

    /// Sells something, with whatever metadata whoever sells it writes; returns the subscription or payment intent.
    ///
    /// - Parameter reference: what whoever pays has written into the address of a Payment Link.
    @discardableResult
    func sell(
        _ price: SimulatedWebPrice = SimulatedShop.proMonthly, to customer: String? = nil, reference: String? = nil,
        metadata: [String: String] = [:], of payer: [String: String] = [:], by payment: SimulatedStripe.Payment = .card
    ) async throws -> String {
        let isSubscription = price.interval != nil
        var form = [
            "mode": isSubscription ? "subscription" : "payment", "line_items[0][price]": price.id,
            "success_url": "https://example.com/thanks",
        ]
        form["client_reference_id"] = reference
        var metadata = metadata
        metadata["rightful_customer_id"] = customer
        for (name, value) in metadata {
            form["\(isSubscription ? "subscription_data" : "payment_intent_data")[metadata][\(name)]"] = value
        }
        if !payer.isEmpty {
            let made = try await ask(
                "POST", "customers", Dictionary(uniqueKeysWithValues: payer.map { ("metadata[\($0)]", $1) }))
            guard case .string(let id)? = made["id"] else { throw CancellationError() }
            form["customer"] = id
        }
        guard case .string(let session)? = try await ask("POST", "checkout/sessions", form)["id"] else {
            throw CancellationError()
        }
        #expect(account.pay(session, by: payment) != nil)
        advance(10_000)
        let sold = try #require(account.session(session))
        return try #require(isSubscription ? sold.subscription : sold.paymentIntent)
    }

    /// A server of the team's own takes money, without a checkout; returns the payment intent.
    @discardableResult
    func charge(_ metadata: [String: String], isPaid: Bool = true) async throws -> String {
        var form = ["amount": "4999", "currency": "usd", "confirm": "\(isPaid)"]
        for (name, value) in metadata { form["metadata[\(name)]"] = value }
        guard case .string(let id)? = try await ask("POST", "payment_intents", form)["id"] else {
            throw CancellationError()
        }
        advance(10_000)
        return id
    }

    /// Delivers all webhooks that there are, also those that were delivered before.
    func deliver() async throws {
        for event in account.events() {
            let body = String(decoding: event.json(.recent).json, as: UTF8.self)
            let header = StripeRig.header(body, at: clock.now.milliseconds / 1000)
            #expect(try await stripe.deliver(body, header: header).status == 200)
        }
    }

    /// The customer of Stripe's who pays for a subscription.
    func payer(of subscription: String) async throws -> String {
        guard case .string(let payer)? = try await ask("GET", "subscriptions/\(subscription)")["customer"] else {
            throw CancellationError()
        }
        return payer
    }

    func post(_ customer: String, _ action: String, _ body: String) async throws -> HTTPResponse {
        try await rig.send(
            "POST", "/v1/customers/\(customer)/\(action)", key: rig.admin, body: Array(body.utf8))
    }

    func ask(_ method: String, _ path: String, _ form: [String: String] = [:]) async throws -> WireValue {
        let body = form.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: "&")
        let answer = try await account.answer(
            SimulatedStripe.Request(
                method: method, path: ("v1/" + path).split(separator: "/").map(String.init),
                authorization: "Bearer sk_live_1", body: Array(body.utf8)))
        try #require(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
        return try WireValue(json: String(decoding: answer.body, as: UTF8.self))
    }

    // MARK: - Repairing

    func check(
        _ id: String, headers: [(String, String)] = [], body: String = "{}"
    ) async throws -> StripeChecked {
        let answer = try await rig.send(
            "POST", "/v1/subscriptions/\(id)/actions/check", key: rig.admin, headers: headers, body: Array(body.utf8))
        return StripeChecked(
            status: answer.status, json: try answer.json, text: answer.text,
            retryAfter: answer.headers.first { $0.0 == "Retry-After" }?.1)
    }

    /// What reads everything that the account holds.
    func lists(
        ownerMetadata: String? = nil, owners: [OwnerLine] = [], holder: String = "test"
    ) throws -> StripeImport {
        var list = StripeOwnerList()
        for line in owners { try list.add(line.id, of: #require(CustomerID(line.customer)), for: line.product) }
        let ids = owners.map(\.id).joined(separator: " ")
        return StripeImport(
            rig.stripeIngestion, try #require(rig.stripeIngestion.client(.production)),
            register: WebImportRegister(
                pool: rig.pool, environment: .production, ownerMetadata: ownerMetadata,
                owners: owners.isEmpty ? nil : Digest(SHA256.hash(Array(ids.utf8))), holder: holder),
            ownerMetadata: ownerMetadata, owners: list, intervals: .impatient)
    }

    func imported(
        ownerMetadata: String? = nil, owners: [OwnerLine] = []
    ) async throws -> StripeImport.Report {
        try #require(try await lists(ownerMetadata: ownerMetadata, owners: owners).run())
    }

    func sweep() async throws { _ = try await #require(rig.stripeSweep).runOnce() }

    func stream() async throws -> WireValue? {
        let list = try await rig.get("/v1/streams").json["items"]
        return (0..<(list?.count ?? 0)).compactMap { list?[$0] }.first {
            $0["source"] == .string("stripe") && $0["environment"] == .string("production")
        }
    }
}

/// A line of a team's own list of whose what is.
struct OwnerLine: Sendable {
    let id: String
    let customer: String
    let product: String?

    init(_ id: String, _ customer: String, _ product: String? = nil) {
        (self.id, self.customer, self.product) = (id, customer, product)
    }
}

/// What a check answered.
struct StripeChecked: Sendable {
    let status: Int
    let json: WireValue
    let text: String
    let retryAfter: String?
}

extension StripeSweep {
    /// Reads everything up to now, once, in every environment, and where the list of events does not reach back far enough
    /// everything else.
    func runOnce() async throws -> [Report?] {
        var reports: [Report?] = []
        for client in ingestion.clients {
            let report = try await sweep(client)
            if report != nil { _ = try await fillGap(client) }
            reports.append(report)
        }
        return reports
    }
}
