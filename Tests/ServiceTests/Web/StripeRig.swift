import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import StoreSimulator
import Testing

@testable import Service

/// Webhooks as Stripe makes and signs them, delivered to a service that knows its secrets.
struct StripeRig {
    static let secret = "whsec_production"
    static let rolled = "whsec_production_before"
    static let sandbox = "whsec_sandbox"
    static let catalog = """
        {"products":[{"product_id":"pro","entitlements":["premium"],
        "stripe":{"price":"price_1","product":"prod_1","mode":"subscription"}},
        {"product_id":"lifetime","entitlements":["premium"],"stripe":{"price":"price_2","mode":"payment"}}]}
        """

    let rig: ServiceRig
    let webhooks: StripeWebhooks

    /// - Parameter secrets: those that are configured, each with its environment.
    static func make(
        _ secrets: [(String, StoreEnvironment)] = [
            (secret, .production), (rolled, .production), (sandbox, .sandbox),
        ], limits: Application.Limits = .init(), api: String? = nil, hasOtherApp: Bool = false,
        shops: [StoreEnvironment: StripeShop] = [:]
    ) async throws -> StripeRig {
        let webhooks = try StripeWebhooks(
            secrets.map { try #require(StripeWebhookSecret($0.0, of: $0.1)) })
        let rig = try await ServiceRig.make(
            limits: limits, hasOtherApp: hasOtherApp, stripe: webhooks, stripeAPI: api, shops: shops)
        #expect(try await rig.put(catalog).status == 200)
        return StripeRig(rig: rig, webhooks: webhooks)
    }

    /// Seconds since 1970 of the rig's noon, 2026-11-20.
    static let noon: Int64 = 1_795_176_000

    /// The header of a delivery.
    static func header(_ body: String, _ secrets: [String] = [secret], at seconds: Int64 = noon) -> String {
        let codes = secrets.map { secret in
            let code = HMACSHA256.code(of: Array("\(seconds).\(body)".utf8), key: Array(secret.utf8))
            return ",v1=" + code.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        }
        return "t=\(seconds)\(codes.joined()),v0=dead"
    }

    @discardableResult
    func deliver(
        _ body: String, header: String? = nil, from peer: String = "192.0.2.1",
        at instant: ContinuousClock.Instant = .now
    ) async throws -> HTTPResponse {
        let head = HTTPRequestHead(
            method: "POST", target: "/v1/notifications/stripe",
            headers: [("Stripe-Signature", header ?? Self.header(body))], remoteAddress: peer, receivedAt: instant)
        return await rig.application.handle(try HTTPRequest(head: head, body: Array(body.utf8)))
    }

    /// The access of a customer, in words.
    func access(_ customer: String, _ environment: String = "production", knownAt: Int? = nil) async throws -> [String]
    {
        let known = knownAt.map { "&known_at=\($0)" } ?? ""
        let answer = try await rig.get("/v1/customers/\(customer)/entitlements?environment=\(environment)\(known)").json
        let list = answer["entitlements"]
        return (0..<(list?.count ?? 0)).compactMap { index in
            guard let item = list?[index], case .string(let source)? = item["source"],
                case .string(let state)? = item["state"]
            else { return nil }
            return "\(source) \(state)"
        }
    }

    func head() async throws -> WireValue? { try await rig.get("/v1/ledger").json["position"] }

    /// Derives all of the log from its evidence again.
    func verify(_ known: StripeWebhooks? = nil) async throws -> VerificationSummary {
        let reading = EvidenceReading(
            jws: try JWSVerifier(trusting: TrustAnchors([rig.store.root.certificate])), stripe: known ?? webhooks)
        return try await Verifier(
            pool: rig.pool, derive: { evidence, event, fact in try reading.derive(evidence, of: event, fact: fact) }
        ).run()
    }
}

/// Bodies of events.
enum StripeBody {
    static func event(
        _ type: String, _ object: String, id: String = "evt_1", live: Bool = true, pending: Int = 1,
        created: Int64 = StripeRig.noon - 60
    ) -> String {
        """
        {
          "id": "\(id)", "object": "event", "api_version": "2026-07-29.dahlia", "created": \(created),
          "data": {"object": \(object)},
          "livemode": \(live), "pending_webhooks": \(pending), "request": null, "type": "\(type)"
        }
        """
    }

    static func metadata(_ customer: String) -> String { #"{"rightful_customer_id":"\#(customer)"}"# }

    /// An invoice as it is since API version 2025-03-31.basil.
    static func invoice(
        _ customer: String = "c-1", live: Bool = true, subscription: String = "sub_1", payments: String = ""
    ) -> String {
        """
        {"id":"in_\(subscription)","object":"invoice","status":"paid","livemode":\(live),"amount_paid":999,
        "customer_email":"zoë@example.com","currency":"usd","customer":"cus_\(subscription)",
        "parent":{"type":"subscription_details","subscription_details":{
        "metadata":\(metadata(customer)),"subscription":"\(subscription)"}},
        "status_transitions":{"paid_at":\(StripeRig.noon - 60)},
        "lines":{"object":"list","data":[{"id":"il_1","object":"line_item","amount":999,"currency":"usd",
        "livemode":\(live),"parent":{"type":"subscription_item_details","subscription_item_details":{
        "proration":false,"subscription":"\(subscription)","subscription_item":"si_1"}},
        "period":{"start":\(StripeRig.noon - 3600),"end":\(StripeRig.noon + 86_400)},
        "pricing":{"type":"price_details","price_details":{"price":"price_1","product":"prod_1"}}}],
        "has_more":false}\(payments)}
        """
    }

    /// The same before basil.
    static let oldInvoice = """
        {"id":"in_sub_1","object":"invoice","status":"paid","paid":true,"livemode":true,"amount_paid":999,
        "currency":"usd","customer":"cus_1","subscription":"sub_1",
        "subscription_details":{"metadata":\(metadata("c-1"))},
        "status_transitions":{"paid_at":\(StripeRig.noon - 60)},
        "lines":{"object":"list","data":[{"id":"il_1","object":"line_item","amount":999,"currency":"usd",
        "period":{"start":\(StripeRig.noon - 3600),"end":\(StripeRig.noon + 86_400)},
        "price":{"id":"price_1","object":"price","product":"prod_1"},"proration":false,"type":"subscription",
        "subscription":"sub_1","subscription_item":"si_1"}],"has_more":false}}
        """

    /// A payment of an invoice, as it is listed inside it where that is asked for.
    static func payment(_ intent: String) -> String {
        """
        ,"payments":{"object":"list","data":[{"id":"inpay_1","object":"invoice_payment","amount_paid":999,
        "payment":{"type":"payment_intent","payment_intent":"\(intent)"}}],"has_more":false}
        """
    }

    static func subscription(
        _ customer: String = "c-1", status: String = "active", cancels: Bool = false, endedAt: Int64? = nil
    ) -> String {
        """
        {"id":"sub_1","object":"subscription","status":"\(status)","customer":"cus_1","livemode":true,
        "cancel_at":null,"cancel_at_period_end":\(cancels),"ended_at":\(endedAt.map(String.init) ?? "null"),
        "pause_collection":null,"trial_start":null,
        "trial_end":null,"metadata":\(metadata(customer)),"items":{"object":"list","data":[{"id":"si_1",
        "object":"subscription_item","current_period_start":\(StripeRig.noon - 3600),
        "current_period_end":\(StripeRig.noon + 86_400),"price":{"id":"price_1","object":"price","product":"prod_1"}}],
        "has_more":false}}
        """
    }

    /// A session in which something was paid once.
    static func session(_ customer: String, reference: String, intent: String = "pi_9") -> String {
        """
        {"id":"cs_1","object":"checkout.session","mode":"payment","payment_status":"paid","status":"complete",
        "payment_intent":"\(intent)","subscription":null,"invoice":null,"customer":null,"livemode":true,
        "amount_total":4999,"currency":"usd","created":\(StripeRig.noon - 90),"client_reference_id":"\(reference)",
        "metadata":{"rightful_customer_id":"\(customer)","rightful_product_id":"lifetime"}}
        """
    }

    static let paid = event("invoice.paid", invoice())
}
