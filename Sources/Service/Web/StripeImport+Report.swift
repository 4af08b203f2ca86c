import EntitlementCore
import Ledger

extension StripeImport.Report {
    private static let mostNamed = 20

    /// Counts what an object came to.
    ///
    /// - Parameter isPurchase: whether it should be somebody's.
    mutating func note(_ result: StripeIngestion.Result, of id: String, isPurchase: Bool) {
        switch result.outcome {
        case .recorded:
            standing.recorded += 1
            recorded += 1
        case .known: standing.known += 1
        case .foreign: standing.unrelated += 1
        case .withheld: standing.withheld += 1
        }
        // Who bought a subscription is asked when that is read.
        guard isPurchase, let original = result.fact.originalTransactionID,
            id.hasPrefix("sub_") || !original.hasPrefix("sub_")
        else { return }
        if let payment = result.fact.payment, payment.catalogProductID == nil, payment.products.isEmpty {
            nameless += 1
            if namelessIDs.count < Self.mostNamed { namelessIDs.append(original) }
        }
        guard !result.isOwned else { return }
        standing.unowned += 1
        if unownedIDs.count < Self.mostNamed { unownedIDs.append(original) }
    }

    /// Counts an object that cannot be read, and keeps why.
    mutating func refuse(_ id: String, _ reason: String) {
        standing.refused += 1
        if refusals.count < Self.mostNamed { refusals.append("\(id): \(reason)") }
    }
}
