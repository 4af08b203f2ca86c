// What people do about whose it is, told to the record.
extension Record {
    /// A name is tied to another customer, for every instant; tied to itself it is free again.
    ///
    /// A name is a customer id; an account token or an app transaction id is named by its default customer, which
    /// becomes an alias. The last link of a name wins, and chains are followed.
    ///
    /// - Returns: false for a link that would close a circle, which changes nothing.
    @discardableResult
    package mutating func link(_ name: CustomerKey, to target: CustomerKey) -> Bool {
        precondition(name.environment == target.environment, "environments never meet")
        return ownership.link(name, to: target)
    }

    /// An account token is tied to a customer; to the customer of that very id: it is free again.
    @discardableResult
    package mutating func link(token: String, to target: CustomerKey) -> Bool {
        link(CustomerKey(target.environment, token), to: target)
    }

    /// An app transaction id is tied to a customer; to the customer `apple:<id>`: it is free again.
    @discardableResult
    package mutating func link(appTransactionID: String, to target: CustomerKey) -> Bool {
        link(CustomerKey(target.environment, "apple:\(appTransactionID)"), to: target)
    }

    /// The periods that bear no identity become those of the customer who first proves the purchase.
    ///
    /// - Returns: false where somebody claimed the original before, which changes nothing.
    @discardableResult
    package mutating func claim(_ key: SimulatedOriginalKey, by customerID: String) -> Bool {
        ownership.claim(key, by: CustomerKey(key.environment, customerID))
    }

    /// Somebody claims what is another's: it is noted once for each claimant and original.
    ///
    /// Links hold for claimants as for everybody: what was noted of a name was noted of whom the name means now.
    package mutating func reportConflict(_ key: SimulatedOriginalKey, claimant customerID: String) {
        ownership.report(conflict(key, claimant: customerID))
    }

    /// Whether that claimant's conflict about that original was noted before.
    package func isReported(_ key: SimulatedOriginalKey, claimant customerID: String) -> Bool {
        ownership.isReported(conflict(key, claimant: customerID))
    }

    private func conflict(_ key: SimulatedOriginalKey, claimant customerID: String) -> Ownership.Conflict {
        Ownership.Conflict(claimant: CustomerKey(key.environment, customerID), original: key)
    }

    /// An original is a customer's as a whole from an instant on, whatever its periods bear.
    ///
    /// - Parameter instant: when the service recorded it, in milliseconds; not before earlier transfers' instants.
    /// - Returns: the number by which an undo names it.
    @discardableResult
    package mutating func transfer(_ key: SimulatedOriginalKey, to customerID: String, at instant: Int64) -> Int {
        ownership.transfer(key, to: CustomerKey(key.environment, customerID), at: instant)
    }

    /// From an instant on, what held before a transfer holds again; what the transfer gave until then stays given.
    ///
    /// - Returns: false for a transfer that is not the original's latest, or was undone; nothing changes then.
    @discardableResult
    package mutating func undoTransfer(_ key: SimulatedOriginalKey, _ number: Int, at instant: Int64) -> Bool {
        ownership.undoTransfer(key, number, at: instant)
    }

    /// Somebody is given an entitlement from an instant on.
    ///
    /// - Parameters:
    ///   - until: where it ends by itself, in milliseconds; nil for never.
    ///   - instant: when the service recorded it, in milliseconds.
    /// - Returns: the number by which a revocation names it.
    @discardableResult
    package mutating func grant(
        _ customer: CustomerKey, _ entitlement: String, until: Int64? = nil, at instant: Int64
    ) -> Int {
        ownership.grant(customer, entitlement, until: until, at: instant)
    }

    /// A grant is taken back from an instant on; one that had ended by then stays as it was.
    ///
    /// - Returns: false for a grant that does not exist, or was revoked before.
    @discardableResult
    package mutating func revokeGrant(_ number: Int, at instant: Int64) -> Bool {
        ownership.revokeGrant(number, at: instant)
    }
}

extension Record {
    /// The stretches in which a period is a customer's, in order; endless ones end at the last instant there is.
    ///
    /// - Parameter customer: who is meant, not an alias.
    func tenures(of chapter: Chapter, in key: SimulatedOriginalKey, by customer: CustomerKey) -> [Range<Int64>] {
        guard key.environment == customer.environment else { return [] }
        let own = chapter.owner.map { CustomerKey(key.environment, $0) } ?? ownership.claims[key]
        let turns = [Ownership.Turn(from: .min, holder: nil)] + (ownership.turns[key] ?? [])
        var tenures: [Range<Int64>] = []
        for (index, turn) in turns.enumerated() {
            let from = max(turn.from, chapter.begin)
            let until = index + 1 < turns.count ? turns[index + 1].from : .max
            guard from < until, let holder = turn.holder ?? own, ownership.customer(holder) == customer else {
                continue
            }
            if let last = tenures.last, last.upperBound == from {
                tenures[tenures.count - 1] = last.lowerBound..<until
            } else {
                tenures.append(from..<until)
            }
        }
        return tenures
    }
}
