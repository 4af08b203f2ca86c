import EntitlementCore
import Ledger

// What the ledger says of before a command, or of somebody whom it is the first to name.

extension CustomerHistory {
    /// What the events before a position say.
    func facts(before position: Int64) -> CustomerFacts {
        facts(believing: Set(events.lazy.map(\.position).filter { $0 < position }))
    }
}

extension LedgerSnapshot {
    /// The ledger's number for a customer id; for one it does not know, a number that nobody has.
    ///
    /// - Parameter index: tells several unknown ids apart.
    func number(of customer: CustomerID, unknownAs index: Int64) -> IdentityRef {
        identities[ExactText(customer.value)] ?? IdentityRef(-index)
    }
}
