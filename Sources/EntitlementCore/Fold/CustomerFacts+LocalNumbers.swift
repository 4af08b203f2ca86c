extension CustomerFacts {
    /// The same facts with identities numbered 1, 2, 3… in the order of the ledger's numbers, and the new number of
    /// each.
    ///
    /// The ledger's own numbers would show a device whether, and how early, the ledger knew somebody. The new ones only
    /// show which identities in these facts are the same.
    package func withLocalNumbers() -> (facts: CustomerFacts, numbers: [IdentityRef: IdentityRef]) {
        var named: Set<IdentityRef> = []
        _ = replacingIdentities { identity in
            named.insert(identity)
            return identity
        }
        let numbers = Dictionary(
            uniqueKeysWithValues: named.sorted().enumerated().map { ($1, IdentityRef(Int64($0 + 1))) })
        return (replacingIdentities { numbers[$0] ?? $0 }, numbers)
    }

    private func replacingIdentities(_ replace: (IdentityRef) -> IdentityRef) -> CustomerFacts {
        CustomerFacts(
            customer: replace(customer), originals: originals.mapValues { $0.replacingIdentities(replace) },
            grants: grants.map { grant in
                var grant = grant
                grant.customer = replace(grant.customer)
                return grant
            }, ownership: ownership.replacingIdentities(replace), catalog: catalog)
    }
}

extension LedgerFact {
    /// The same fact with identities numbered from 1 on, in the order in which it names them.
    package func withLocalNumbers() -> LedgerFact {
        var numbers: [IdentityRef: IdentityRef] = [:]
        return replacingIdentities { identity in
            let number = numbers[identity] ?? IdentityRef(Int64(numbers.count + 1))
            numbers[identity] = number
            return number
        }
    }
}
