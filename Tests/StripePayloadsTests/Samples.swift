import EntitlementCore
import OpenSSLCrypto

@testable import StripePayloads

/// Instants of the tests, in seconds since 1970.
enum At {
    static let start: Int64 = 1_767_225_600
    static let end: Int64 = 1_769_904_000
    static let paid: Int64 = 1_767_225_660
    static let later: Int64 = 1_768_000_000
}

func instant(_ seconds: Int64) -> Timestamp { Timestamp(milliseconds: seconds * 1000) }

func sha256(_ bytes: [UInt8]) -> Digest { Digest(SHA256.hash(bytes)) ?? .zero }

func decode(_ text: String) throws -> StripeEvent { try StripeEvent(parsing: Array(text.utf8), sha256: sha256) }

/// Events and objects as Stripe writes them, in the shape before API version 2025-03-31.basil and in the one since.
enum Sample {
    static func event(
        _ type: String, _ object: String, id: String = "evt_1", created: Int64 = At.paid, live: Bool = true,
        version: String = "2026-07-29.dahlia", pending: Int = 1
    ) -> String {
        """
        {"id":"\(id)","object":"event","api_version":"\(version)","created":\(created),"data":{"object":\(object)},
        "livemode":\(live),"pending_webhooks":\(pending),"request":{"id":null,"idempotency_key":null},"type":"\(type)"}
        """
    }

    static let metadata = #"{"rightful_customer_id":"c-1","other":"x"}"#

    /// A subscription since basil: the period stands with its items.
    static func subscription(
        status: String = "active", extra: String = "", metadata: String = metadata, live: Bool = true,
        moreItems: Bool = false
    ) -> String {
        """
        {"id":"sub_1","object":"subscription","status":"\(status)","customer":"cus_1","livemode":\(live),
        "cancel_at":null,"cancel_at_period_end":false,"canceled_at":null,"ended_at":null,"pause_collection":null,
        "trial_start":null,"trial_end":null,"latest_invoice":"in_1","metadata":\(metadata),"test_clock":null,
        "billing_mode":{"type":"flexible"},"items":{"object":"list","data":[{"id":"si_1","object":"subscription_item",
        "current_period_start":\(At.start),"current_period_end":\(At.end),"quantity":1,
        "price":{"id":"price_1","object":"price","product":"prod_1","recurring":{"interval":"month"}}}],
        "has_more":\(moreItems),"url":"/v1/subscription_items?subscription=sub_1"}\(extra)}
        """
    }

    /// The same before basil.
    static let oldSubscription = """
        {"id":"sub_1","object":"subscription","status":"active","customer":"cus_1","livemode":true,
        "current_period_start":\(At.start),"current_period_end":\(At.end),
        "cancel_at":null,"cancel_at_period_end":false,"canceled_at":null,"ended_at":null,"pause_collection":null,
        "trial_start":null,"trial_end":null,"latest_invoice":"in_1","metadata":\(metadata),
        "items":{"object":"list","data":[{"id":"si_1","object":"subscription_item","quantity":1,
        "plan":{"id":"price_1","object":"plan","product":"prod_1"},
        "price":{"id":"price_1","object":"price","product":"prod_1","recurring":{"interval":"month"}}}],
        "has_more":false}}
        """

    static func line(
        _ id: String = "il_1", from start: Int64 = At.start, to end: Int64 = At.end, amount: Int64 = 999,
        proration: Bool = false, price: String = "price_1", item: String = "si_1"
    ) -> String {
        """
        {"id":"\(id)","object":"line_item","amount":\(amount),"currency":"usd","livemode":true,"metadata":{},
        "parent":{"type":"subscription_item_details","invoice_item_details":null,"subscription_item_details":{
        "invoice_item":null,"proration":\(proration),"proration_details":null,"subscription":"sub_1",
        "subscription_item":"\(item)"}},"period":{"start":\(start),"end":\(end)},
        "pricing":{"type":"price_details","price_details":{"price":"\(price)","product":"prod_1"},
        "unit_amount_decimal":"\(amount)"}}
        """
    }

    /// An invoice since basil.
    static func invoice(
        status: String = "paid", lines: [String] = [line()], more: Bool = false, payments: String = "",
        subscription: String = #""sub_1""#
    ) -> String {
        """
        {"id":"in_1","object":"invoice","status":"\(status)","livemode":true,"billing_reason":"subscription_cycle",
        "amount_paid":999,"currency":"usd","customer":"cus_1","period_start":1,"period_end":2,
        "parent":{"type":"subscription_details","quote_details":null,"subscription_details":{
        "metadata":\(metadata),"subscription":\(subscription)}},
        "status_transitions":{"finalized_at":\(At.start),"paid_at":\(At.paid)},
        "lines":{"object":"list","data":[\(lines.joined(separator: ","))],"has_more":\(more),
        "url":"/v1/invoices/in_1/lines"}\(payments)}
        """
    }

    /// The same before basil.
    static let oldInvoice = """
        {"id":"in_1","object":"invoice","status":"paid","paid":true,"livemode":true,
        "billing_reason":"subscription_cycle","amount_paid":999,"currency":"usd","customer":"cus_1",
        "subscription":"sub_1","subscription_details":{"metadata":\(metadata)},"charge":"ch_1","payment_intent":"pi_1",
        "status_transitions":{"finalized_at":\(At.start),"paid_at":\(At.paid)},
        "lines":{"object":"list","data":[{"id":"il_1","object":"line_item","amount":999,"currency":"usd",
        "period":{"start":\(At.start),"end":\(At.end)},"plan":{"id":"price_1","product":"prod_1"},
        "price":{"id":"price_1","object":"price","product":"prod_1"},"proration":false,"type":"subscription",
        "subscription":"sub_1","subscription_item":"si_1"}],"has_more":false}}
        """

    static func session(
        mode: String = "payment", paid: String = "paid", status: String = "complete", id: String = "cs_1",
        intent: String = #""pi_1""#, subscription: String = "null",
        metadata: String = #"{"rightful_customer_id":"c-1","rightful_product_id":"lifetime"}"#,
        reference: String = "null"
    ) -> String {
        """
        {"id":"\(id)","object":"checkout.session","mode":"\(mode)","payment_status":"\(paid)","status":"\(status)",
        "payment_intent":\(intent),"subscription":\(subscription),"invoice":null,"customer":"cus_1","livemode":true,
        "amount_total":4999,"currency":"usd","created":\(At.start),"client_reference_id":\(reference),
        "metadata":\(metadata),"url":null}
        """
    }

    static func refund(
        _ id: String = "re_1", status: String = "succeeded", payment: String = #""pi_1""#, charge: String = #""ch_1""#
    ) -> String {
        """
        {"id":"\(id)","object":"refund","amount":999,"charge":\(charge),"created":\(At.later),"currency":"usd",
        "metadata":{},"payment_intent":\(payment),"reason":null,"status":"\(status)"}
        """
    }

    static func dispute(_ status: String = "needs_response") -> String {
        """
        {"id":"dp_1","object":"dispute","amount":999,"charge":"ch_1","created":\(At.later),"livemode":true,
        "payment_intent":"pi_1","status":"\(status)"}
        """
    }

    static func charge(_ extra: String = "") -> String {
        """
        {"id":"ch_1","object":"charge","amount":999,"amount_refunded":999,"refunded":true,"created":\(At.paid),
        "livemode":true,"metadata":{},"payment_intent":"pi_1"\(extra)}
        """
    }

    static func list(_ elements: [String], more: Bool = false) -> String {
        #"{"object":"list","data":[\#(elements.joined(separator: ","))],"has_more":\#(more),"url":"/v1/x"}"#
    }

    static func invoicePayments(_ invoice: String) -> String {
        list([
            """
            {"id":"inpay_1","object":"invoice_payment","amount_paid":999,"amount_requested":999,"invoice":\(invoice),
            "is_default":true,"livemode":true,"payment":{"type":"payment_intent","payment_intent":"pi_1"},
            "status":"paid"}
            """
        ])
    }

    static let all: [(type: String, object: String)] = [
        ("invoice.paid", invoice()), ("invoice.paid", oldInvoice), ("invoice.payment_failed", invoice(status: "open")),
        ("customer.subscription.updated", subscription()), ("customer.subscription.updated", oldSubscription),
        ("customer.subscription.deleted", subscription(status: "canceled", extra: #","ended_at":\#(At.later)"#)),
        ("checkout.session.completed", session()),
        ("checkout.session.completed", session(mode: "subscription", intent: "null", subscription: #""sub_1""#)),
        ("refund.created", refund()), ("charge.dispute.created", dispute()), ("charge.refunded", charge()),
        ("customer.created", #"{"id":"cus_1","object":"customer"}"#),
    ]
}
