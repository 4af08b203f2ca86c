/// When purchases were first heard of, which facts do not say: of what is stated again and again they keep the newest.
package struct PurchaseHearings: Sendable {
    private let events: [HistoryEvent]

    /// - Parameter events: all that bear on a customer, in the order of their positions.
    package init(_ events: [HistoryEvent]) { self.events = events }

    /// When the first event that states one of some transactions was recorded; `nil` where none does.
    ///
    /// It goes through all events, so it is asked only where the answer decides something.
    package func first(of transactionIDs: Set<String>) -> Timestamp? {
        events.first { $0.fact.states(oneOf: transactionIDs) }?.recordedAt
    }
}

extension LedgerFact {
    /// Whether it states one of some transactions; what was sold on the web is named as its periods are, by the lines of paid
    /// invoices and by what was paid for once.
    fileprivate func states(oneOf transactionIDs: Set<String>) -> Bool {
        if case .web(let fact) = self {
            if fact.invoices.contains(where: { $0.lines.contains { transactionIDs.contains($0.lineID) } }) {
                return true
            }
            guard let original = fact.originalTransactionID, transactionIDs.contains(original) else { return false }
            return fact.payment?.paidAt != nil
        }
        return transactions.contains { transactionIDs.contains($0.transactionID) }
    }
}
