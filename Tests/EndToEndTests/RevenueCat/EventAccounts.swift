import EntitlementAPI
import EntitlementCore
import RevenueCatAPI
import StoreSimulator
import TestSupport

/// The books of a receiver that sums money by transaction, whoever has it, and what it finds wrong with what it is told.
struct EventAccounts {
    /// What names a payment: the store may know it under several ids, and one on the web may be for several products.
    private struct Key: Hashable {
        let original: String
        let product: String
        /// On the web which item, and which invoice: several items may be of one product, and a product begin twice in a second.
        let part: String
        let bought: Timestamp
    }

    private struct Payment {
        var price: Double?
        /// How much of it went back.
        var back = 0.0
        var refunds = 0
        /// How often purchases had changed hands when somebody was told of it.
        var told: [IdentityRef: Int] = [:]
    }

    private var payments: [Key: Payment] = [:]
    /// What began of a customer's original and product last, and how often purchases had changed hands then.
    private var begun: [[String]: (moves: Int, at: Timestamp, name: [String])] = [:]
    private var moves = 0
    /// What has ended, and whose it was.
    private var ended: Set<[String]> = []

    private static let tolerance = 0.0005

    mutating func ownershipMoved() { moves += 1 }

    /// - Returns: what is wrong with it; `nil` where nothing is.
    mutating func take(
        _ event: [String: WireValue], _ type: MessageType, about customer: IdentityRef, at instant: Timestamp
    ) -> String? {
        guard type != .transfer, let bought = event.instant("purchased_at_ms") else { return nil }
        let (part, name) = event.purchase
        let key = Key(
            original: event.text("original_transaction_id"), product: event.text("product_id"),
            part: event.text("store") == "STRIPE" ? part + " " + event.text("transaction_id") : "", bought: bought)
        if EventReceiver.opening.contains(type) { ended.remove(name) }
        if type == .expiration, !ended.insert(name).inserted { return "it has ended before" }
        let amount = event.amount("price_in_purchased_currency")
        if type.pays {
            if type == .renewal, instant.adding(milliseconds: Span.day) < bought { return "told before its time" }
            if type == .initialPurchase {
                let product = ["\(customer)", key.original, key.product]
                // Another item of the same product may begin beside it, or become known with it.
                if let former = begun[product], former.moves == moves, former.at < instant,
                    former.name == name || ended.contains(former.name)
                {
                    return "it begins a second time"
                }
                begun[product] = (moves, instant, name)
            }
            var payment = payments[key] ?? Payment(price: amount)
            defer { payments[key] = payment }
            if payment.told[customer] == moves { return "it is paid for a second time" }
            payment.told[customer] = moves
            return payment.price == amount ? nil : "its price was \(String(describing: payment.price))"
        }
        let isRefund = type == .cancellation && event.text("cancel_reason") == EndReason.customerSupport.rawValue
        guard isRefund || type == .refundReversed || type == .billingIssue else { return nil }
        guard var payment = payments[key] else { return "of a payment that was not told" }
        guard type != .billingIssue else { return nil }
        payment.refunds += isRefund ? 1 : -1
        payment.back -= amount ?? 0
        payments[key] = payment
        if payment.refunds < 0, payment.back < -Self.tolerance { return "of a refund that was not told" }
        let whole = payment.price ?? .infinity
        return payment.back < -Self.tolerance || payment.back > whole + Self.tolerance
            ? "what went back is \(payment.back) of \(whole)" : nil
    }

    /// Compares what went back of the payments that were told with what the ledger says in the end.
    ///
    /// Of a subscription the latest period alone: what becomes of the money of an earlier one is not told.
    func compare(with facts: CustomerFacts, at instant: Timestamp) -> (count: Int, faults: [String]) {
        var (count, faults) = (0, [String]())
        for (original, state) in facts.originals {
            for chain in state.chains(facts.catalog) {
                guard let fact = chain.periods.last?.fact, fact.ownership != .known(.familyShared),
                    facts.ownership.owner(of: fact, at: instant) == facts.customer
                else { continue }
                let web = chain.periods.last?.web
                let part = "\(original)/\(web?.item ?? fact.productID) \(web?.invoiceID ?? fact.transactionID)"
                let key = Key(
                    original: original, product: fact.productID, part: state.web == nil ? "" : part,
                    bought: fact.purchaseDate)
                guard let payment = payments[key], payment.price ?? 0 > 0 else { continue }
                let refunded = state.refunded(of: fact)?.units ?? 0
                count += 1
                if abs(payment.back - refunded) > Self.tolerance {
                    faults.append("\(key): \(payment) but \(refunded) went back")
                }
            }
        }
        return (count, faults)
    }
}

extension MessageType {
    /// Whether it says that something was paid for.
    var pays: Bool { self == .initialPurchase || self == .renewal || self == .nonRenewingPurchase }
}

extension [String: WireValue] {
    /// What names the purchase, and that with whose it is.
    fileprivate var purchase: (part: String, name: [String]) {
        let words = text("subject").split(separator: " ").map(String.init)
        let part = words.dropFirst().dropLast().joined(separator: " ")
        return (part, [words.first ?? "", part])
    }

    fileprivate func amount(_ name: String) -> Double? {
        switch self[name] {
        case .double(let amount)?: amount
        case .int(let amount)?: Double(amount)
        case .string?, .bool?, .null?, .array?, .object?, nil: nil
        }
    }
}
