/// Finds the events that a decision rests on.
struct BasisFinder {
    let history: CustomerHistory
    let instant: Timestamp
    let wanted: Decision
    /// Whether the sentence speaks of a purchase that gives the customer nothing.
    let speaksOfPurchase: Bool

    /// Positions of which none can be left out: folding only these events gives the same decision and sentence, and
    /// without any one of them another.
    ///
    /// Of several such sets it is one that holds as much as it can of what the fold itself names: where a statement has
    /// replaced another that says the same, the newer one.
    ///
    /// - Parameters:
    ///   - likely: what the fold itself names, which nearly always is what it takes; the smallest first.
    ///   - check: called before each fold; what it throws ends the search.
    func positions(likely: [Set<Int64>], check: () throws -> Void) rethrows -> [Int64] {
        switch wanted.rule {
        case .neverHeld where speaksOfPurchase:
            break
        case .neverHeld, .unknownEntitlement, .unknownCustomer:
            // That nothing was ever held rests on no event.
            return []
        case .reading, .notBegun:
            break
        }
        for positions in likely where try holds(Array(positions), check) {
            return try irreducible(positions.sorted(), keeping: likely[0], check)
        }
        // One catalog answers for all, so of several none but the one in force can be what it rests on.
        let inForce = history.events.last { $0.catalog != nil }?.position
        let events = history.events.filter { $0.catalog == nil || $0.position == inForce }
        var positions = events.map(\.position)
        if let original = wanted.originalTransactionID {
            // What another original transaction says can take the place of this one, never change how it reads.
            let near = events.filter { $0.fact.originalTransactionID.map { $0 == original } ?? true }.map(\.position)
            if try holds(near, check) { positions = near }
        }
        return try irreducible(positions, keeping: likely.first ?? [], check)
    }

    private func holds(_ positions: [Int64], _ check: () throws -> Void) rethrows -> Bool {
        try check()
        let believed = Set(positions)
        let facts = history.facts(believing: believed)
        return facts.verdict(
            on: wanted.entitlementID, at: instant, sources: facts.sources(), asked: history.customer,
            told: history.events.filter { believed.contains($0.position) }, knowsCustomer: true,
            environment: history.environment
        ).decision == wanted
    }

    /// Leaves out what is not named as far as it can be, and only then what is.
    private func irreducible(
        _ positions: [Int64], keeping named: Set<Int64>, _ check: () throws -> Void
    ) rethrows -> [Int64] {
        let first = positions.filter(named.contains)
        let others = try irreducible(positions.filter { !named.contains($0) }, beside: first, check)
        return try irreducible((first + others).sorted(), beside: [], check)
    }

    /// Leaves out ever smaller parts until no single event can be left out.
    private func irreducible(
        _ positions: [Int64], beside others: [Int64], _ check: () throws -> Void
    ) rethrows -> [Int64] {
        var kept = positions
        var length = max(kept.count / 2, 1)
        while true {
            var isSmaller = false
            var start = 0
            while start < kept.count {
                let end = min(start + length, kept.count)
                let rest = Array(kept[..<start] + kept[end...])
                if try holds(rest + others, check) {
                    kept = rest
                    isSmaller = true
                } else {
                    start = end
                }
            }
            if length > 1 {
                length /= 2
            } else if !isSmaller {
                return kept
            }
        }
    }
}
