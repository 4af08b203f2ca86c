import AppStorePayloads
import EntitlementCore

// Sessions, one-time payments, refunds and disputes.

extension StripeFinding {
    mutating func addSession(_ object: JSONObject, _ depth: Int) throws(PayloadError) {
        let id = try object.mandatoryID(of: "the session")
        let name = "the session \(id)"
        let mode = try object.mandatory("mode", of: name) { $0["mode"]?.identifier }
        let payment = try object.mandatory("payment_status", of: name) { $0["payment_status"]?.identifier }
        let metadata = OwnMetadata(of: object, or: ownerMetadata)
        let isPaid = ["paid", "no_payment_required"].contains(payment)
        if !isPaid, payment != "unpaid" {
            remarks.insert(.unknownValue(path: "session.payment_status", value: payment))
        }
        let session = FoundSession(
            id: id, mode: mode == "subscription" ? .subscription : mode == "payment" ? .payment : .other,
            subscription: object.id("subscription"), paymentIntent: object.id("payment_intent"),
            // Before it is complete nothing is sold, though nothing may be due.
            isPaid: isPaid && object["status"]?.identifier ?? "complete" == "complete",
            amount: object["amount_total"]?.int64, currency: object["currency"]?.identifier,
            created: object.instant("created"), productID: metadata.productID)
        sessions.removeAll { $0.id == id }
        sessions.append(session)
        if object["line_items"]?.object != nil {
            let items = object.elements("line_items")
            sold[id] = (items.map(Self.product), items.last?["id"]?.identifier, object.hasMore("line_items"))
        }
        own(session.original, .session, metadata)
        let reference = object["client_reference_id"]?.string
        own(session.original, .clientReference, reference.flatMap { CustomerID($0) })
        own(session.original, payerOf: object)
        for name in [id, session.subscription, session.paymentIntent, object.id("customer")] { note(name: name) }
        try addExpanded(["subscription", "payment_intent", "invoice"], of: object, depth)
    }

    /// What was sold in a session, read by the page.
    mutating func addSessionItems(_ list: JSONObject, of session: String) {
        let items = list.elements("data")
        let known = sold[session]?.products ?? []
        sold[session] = (
            known + items.map(Self.product), items.last?["id"]?.identifier ?? sold[session]?.last, list.flag("has_more")
        )
    }

    mutating func addIntent(_ object: JSONObject, _ depth: Int) throws(PayloadError) {
        let id = try object.mandatoryID(of: "the payment intent")
        let metadata = OwnMetadata(of: object, or: ownerMetadata)
        let charge = object.expanded("latest_charge")
        let intent = FoundIntent(
            id: id, isPaid: object["status"]?.identifier == "succeeded",
            amount: object["amount_received"]?.int64 ?? object["amount"]?.int64,
            currency: object["currency"]?.identifier,
            paidAt: charge?.instant("created") ?? object.instant("created"),
            // What pays for a subscription does not bear what we wrote into that.
            metadata: metadata.isOurs && object.id("invoice") == nil, productID: metadata.productID)
        intents.removeAll { $0.id == id }
        intents.append(intent)
        noteInvoicePayment(id, object.id("latest_charge"), object.id("invoice"), amount: nil)
        if intent.metadata {
            own(id, .purchase, metadata)
            own(id, payerOf: object)
        }
        for name in [id, object.id("customer")] { note(name: name) }
        try addExpanded(["latest_charge", "invoice"], of: object, depth)
    }

    mutating func addCharge(_ object: JSONObject, _ depth: Int) throws(PayloadError) {
        let id = try object.mandatoryID(of: "the charge")
        // Of what was read beside something else, and was not refunded, there is nothing to find out.
        let isIntact = event == nil && depth > 0 && object["amount_refunded"]?.int64 == 0
        if !isIntact, !charges.contains(id) { charges.append(id) }
        noteInvoicePayment(object.id("payment_intent"), id, object.id("invoice"), amount: object["amount"]?.int64)
        // Before 2022-11-15 a charge came with its refunds.
        if object["refunds"]?.object != nil {
            for refund in object.elements("refunds") { try addRefund(refund, depth + 1) }
            if !object.hasMore("refunds") { refundsSeen.insert(id) }
        }
        try addExpanded(["payment_intent", "invoice"], of: object, depth)
    }

    mutating func addRefund(_ object: JSONObject, _ depth: Int) throws(PayloadError) {
        let id = try object.mandatoryID(of: "the refund")
        let name = "the refund \(id)"
        let status = object["status"]?.identifier
        if let status, WebRefundStatus(rawValue: status) == nil {
            remarks.insert(.unknownValue(path: "refund.status", value: status))
        }
        let refund = WebRefund(
            refundID: id, amount: try object.mandatory("amount", of: name) { $0["amount"]?.int64 },
            currency: object["currency"]?.identifier,
            status: status.map { Known($0) },
            created: try object.mandatory("created", of: name) { $0.instant("created") },
            // Of neither is what was refunded from a customer's cash balance: it was for nothing that is known here.
            paymentIntent: object.id("payment_intent"), charge: object.id("charge"))
        refunds.removeAll { $0.refundID == id }
        refunds.append(refund)
        try addExpanded(["charge", "payment_intent"], of: object, depth)
    }

    mutating func addDispute(_ object: JSONObject, _ depth: Int) throws(PayloadError) {
        let id = try object.mandatoryID(of: "the dispute")
        let name = "the dispute \(id)"
        let status = try object.mandatory("status", of: name) { $0["status"]?.identifier }
        if WebDisputeStatus(rawValue: status) == nil {
            remarks.insert(.unknownValue(path: "dispute.status", value: status))
        }
        let funds = (event?.type ?? subject?.type).flatMap { StripeEventType.funds(of: $0) }
        let dispute = WebDispute(
            disputeID: id, status: Known(status),
            created: try object.mandatory("created", of: name) { $0.instant("created") },
            amount: object["amount"]?.int64, currency: object["currency"]?.identifier,
            funds: funds.map { $0 ? .reinstated : .withdrawn }, paymentIntent: object.id("payment_intent"),
            charge: object.id("charge"))
        disputes.removeAll { $0.disputeID == id }
        disputes.append(dispute)
        try addExpanded(["charge", "payment_intent"], of: object, depth)
    }
}
