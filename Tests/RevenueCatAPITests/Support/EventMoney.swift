import EntitlementAPI
import EntitlementCore

/// What a receiver has that sums money by transaction and product, as the page tells it to.
struct EventMoney {
    /// What is left of each payment.
    private(set) var sums: [String: Double] = [:]
    /// What it was told that cannot be: of a payment that it knows nothing of, or of more than was paid.
    private(set) var faults: [String] = []
    private var paid: [String: Double] = [:]

    var isRight: Bool { faults.isEmpty }

    init(_ told: [SentEvent]) {
        for event in told { take(event) }
        sums = sums.mapValues { ($0 * 1000).rounded() / 1000 }
    }

    private mutating func take(_ event: SentEvent) {
        guard case .string(let id)? = event["transaction_id"] else { return }
        let price: Double
        switch event["price"] {
        case .double(let amount)?: price = amount
        case .int(let amount)?: price = Double(amount)
        default: return
        }
        switch event.type {
        // A payment that is told again is the same row.
        case .initialPurchase, .renewal, .nonRenewingPurchase:
            if paid[id] == nil { sums[id] = price }
            paid[id] = price
        case .cancellation where event["cancel_reason"] == .string("CUSTOMER_SUPPORT"), .refundReversed:
            guard let whole = paid[id] else { return faults.append("\(event) of nothing") }
            let sum = (sums[id] ?? 0) + price
            if sum < -0.0005 || sum > whole + 0.0005 { faults.append("\(event) makes \(sum) of \(whole)") }
            sums[id] = sum
        default: break
        }
    }
}

extension [SentEvent] {
    var money: EventMoney { EventMoney(self) }
}
