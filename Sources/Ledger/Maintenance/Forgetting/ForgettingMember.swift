package import EntitlementCore
import PostgresClient

/// An id that has to do with somebody who is to be forgotten: whether it goes, and whom it leads to.
package struct ForgettingMember: Hashable, Sendable {
    /// Whom links in force lead to.
    package struct Lead: Hashable, Sendable {
        package let environment: StoreEnvironment
        package let customerID: String
    }

    /// In clear.
    package let id: String
    package let isErased: Bool
    /// Nothing for an id that is no alias.
    package let leads: [Lead]
}

extension ForgettingScope {
    /// The ids that go, the one asked for first, and then those that stay.
    func members(on connection: isolated PostgresConnection) throws -> [ForgettingMember] {
        let erased = identities.map(\.ref)
        let kept = Set(keptAliases.map(\.ref) + sharedAppTransactions).subtracting(erased).sorted()
        guard let asked = erased.first else { return [] }
        let links = try PersonLinks(of: asked, on: connection)
        var leads: [IdentityRef: [(environment: StoreEnvironment, customer: IdentityRef)]] = [:]
        for identity in erased + kept {
            // What statements alone connect with the person, their links do not.
            let own = links.covers(identity) ? links : try PersonLinks(of: identity, on: connection)
            leads[identity] = own.leads(from: identity)
        }
        let named = Set(kept + leads.values.flatMap { $0.map(\.customer) })
        var names = try Statements.customerIDs(of: Array(named), on: connection)
        for (value, ref) in identities { names[ref] = value }
        return (erased + kept).compactMap { identity in
            // Whoever was forgotten before is nobody.
            guard let name = names[identity] else { return nil }
            return ForgettingMember(
                id: name, isErased: !kept.contains(identity),
                leads: (leads[identity] ?? []).compactMap { lead in
                    names[lead.customer].map {
                        ForgettingMember.Lead(environment: lead.environment, customerID: $0)
                    }
                })
        }
    }
}
