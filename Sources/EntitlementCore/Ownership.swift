/// Whose things are: links, claims and transfers of one environment, applied in the order of their positions.
package struct OwnershipMap: Hashable, Sendable {
    package struct Transfer: Hashable, Sendable {
        package let at: Timestamp
        package let customer: IdentityRef
        package let position: Int64
    }

    package struct Claim: Hashable, Sendable {
        package let customer: IdentityRef
        package let position: Int64
    }

    private struct Alias: Hashable, Sendable {
        let customer: IdentityRef
        let position: Int64
    }

    private var aliases: [IdentityRef: Alias] = [:]
    private var claims: [String: Claim] = [:]
    private var transfersByOriginal: [String: [Transfer]] = [:]

    package init() {}

    /// Applies an event's fact; events must come in the order of their positions.
    ///
    /// Facts that say nothing about ownership are passed over.
    package mutating func apply(_ fact: LedgerFact, position: Int64, recordedAt: Timestamp) {
        switch fact {
        case .link(let link):
            // A link to itself undoes the one before. One that would close a circle names no new owner.
            if link.identity == link.customer {
                aliases[link.identity] = nil
            } else if !leads(from: link.customer, to: link.identity) {
                aliases[link.identity] = Alias(customer: link.customer, position: position)
            }
        case .claim(let claim):
            if claims[claim.originalTransactionID] == nil {
                claims[claim.originalTransactionID] = Claim(customer: claim.customer, position: position)
            }
        case .transfer(let transfer):
            transfersByOriginal[transfer.originalTransactionID, default: []].append(
                Transfer(at: recordedAt, customer: transfer.customer, position: position))
        case .notification, .catalog, .grant, .grantRevocation, .forgetting:
            break
        }
    }

    /// Whether the links from one identity pass through, or end at, another.
    ///
    /// The whole path counts, not only its end: an identity that is an alias itself may be linked anew, and a path
    /// through it would then come back to where it began.
    private func leads(from start: IdentityRef, to identity: IdentityRef) -> Bool {
        var current = start
        while current != identity {
            guard let alias = aliases[current] else { return false }
            current = alias.customer
        }
        return true
    }

    /// The customer an identity stands for, every link followed.
    package func customer(of identity: IdentityRef) -> IdentityRef {
        var current = identity
        while let alias = aliases[current] { current = alias.customer }
        return current
    }

    /// The links that lead from an identity to its customer.
    func linkPositions(of identity: IdentityRef) -> [Int64] {
        var positions: [Int64] = []
        var current = identity
        while let alias = aliases[current] {
            positions.append(alias.position)
            current = alias.customer
        }
        return positions
    }

    /// Whose a period is before any transfer, and the events that say so beside the period's own; `nil` while nobody
    /// has claimed it.
    package func owner(of fact: TransactionFact) -> (customer: IdentityRef, positions: [Int64])? {
        if let identity = fact.accountToken ?? fact.appTransaction {
            return (customer(of: identity), linkPositions(of: identity))
        }
        guard let claim = claims[fact.originalTransactionID] else { return nil }
        return (customer(of: claim.customer), [claim.position] + linkPositions(of: claim.customer))
    }

    package func transfers(of originalTransactionID: String) -> [Transfer] {
        transfersByOriginal[originalTransactionID] ?? []
    }
}
