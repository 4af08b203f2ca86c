/// What people did about whose a purchase is: links, claims, transfers and grants, in the order in which they did it.
///
/// It knows nothing of payments. Customers are named as they were named then; whom a name means is looked up when
/// something is asked, because a link holds for every instant.
package struct Ownership: Sendable, Equatable {
    /// Who has an original as a whole from an instant on, up to the next turn.
    struct Turn: Sendable, Equatable {
        let from: Int64
        /// Nil where each period is its own owner's again.
        let holder: CustomerKey?
    }

    /// An entitlement that somebody gave away.
    struct Grant: Sendable, Equatable {
        let customer: CustomerKey
        let entitlement: String
        let from: Int64
        /// Where it ends by itself; nil for never.
        let until: Int64?
        var revokedAt: Int64?
    }

    /// A claim on what is somebody else's.
    package struct Conflict: Sendable, Hashable {
        /// Who claimed it, under the name used then.
        package let claimant: CustomerKey
        /// What was claimed.
        package let original: SimulatedOriginalKey
    }

    private struct Transfer: Sendable, Equatable {
        let number: Int
        let holder: CustomerKey
    }

    private var links: [CustomerKey: CustomerKey] = [:]
    /// The first claimants of what bore no identity.
    package private(set) var claims: [SimulatedOriginalKey: CustomerKey] = [:]
    /// Claims that contradicted, in the order in which they came; each once for whoever its claimant meant by then.
    package private(set) var conflicts: [Conflict] = []
    private(set) var turns: [SimulatedOriginalKey: [Turn]] = [:]
    private(set) var grants: [Grant] = []
    private var standingTransfers: [SimulatedOriginalKey: [Transfer]] = [:]
    private var transferCount = 0

    /// Whom a name means: the end of its chain of links.
    package func customer(_ name: CustomerKey) -> CustomerKey {
        var customer = name
        // A circle is never closed, so every chain ends.
        while let next = links[customer] { customer = next }
        return customer
    }

    /// The names that mean somebody else, with whom they mean.
    package var aliases: [CustomerKey: CustomerKey] {
        Dictionary(uniqueKeysWithValues: links.keys.map { ($0, customer($0)) })
    }

    /// Who has an original as a whole since the last transfer; nil where each period is its own owner's.
    package func transferredHolder(of key: SimulatedOriginalKey) -> CustomerKey? {
        standingTransfers[key]?.last?.holder
    }

    /// Everybody to whom something was claimed, transferred or granted, under the name used then.
    var holders: [CustomerKey] {
        Array(claims.values) + turns.values.joined().compactMap(\.holder) + grants.map(\.customer)
    }
}

extension Ownership {
    /// Whether a link would lead back to its beginning.
    func closesCircle(_ name: CustomerKey, _ target: CustomerKey) -> Bool {
        var next = links[target]
        while let present = next {
            if present == name { return name != target }
            next = links[present]
        }
        return false
    }

    /// A name is to mean another from now on and for every instant; a name linked to itself means itself again.
    mutating func link(_ name: CustomerKey, to target: CustomerKey) -> Bool {
        guard !closesCircle(name, target) else { return false }
        links[name] = name == target ? nil : target
        return true
    }

    mutating func claim(_ key: SimulatedOriginalKey, by claimant: CustomerKey) -> Bool {
        guard claims[key] == nil else { return false }
        claims[key] = claimant
        return true
    }

    /// Whether somebody who is the claimant now was found claiming the same before.
    func isReported(_ conflict: Conflict) -> Bool {
        conflicts.contains {
            $0.original == conflict.original && customer($0.claimant) == customer(conflict.claimant)
        }
    }

    mutating func report(_ conflict: Conflict) {
        if !isReported(conflict) { conflicts.append(conflict) }
    }

    mutating func transfer(_ key: SimulatedOriginalKey, to holder: CustomerKey, at instant: Int64) -> Int {
        transferCount += 1
        standingTransfers[key, default: []].append(Transfer(number: transferCount, holder: holder))
        turn(key, to: holder, at: instant)
        return transferCount
    }

    /// Whether a transfer is the one that an undo may name: the last of its original that was not undone.
    func isLatest(transfer number: Int, of key: SimulatedOriginalKey) -> Bool {
        standingTransfers[key]?.last?.number == number
    }

    mutating func undoTransfer(_ key: SimulatedOriginalKey, _ number: Int, at instant: Int64) -> Bool {
        guard isLatest(transfer: number, of: key) else { return false }
        standingTransfers[key]?.removeLast()
        turn(key, to: transferredHolder(of: key), at: instant)
        return true
    }

    private mutating func turn(_ key: SimulatedOriginalKey, to holder: CustomerKey?, at instant: Int64) {
        // Recorded instants never run backwards; of two in one millisecond the later one counts.
        let from = max(instant, turns[key]?.last?.from ?? instant)
        turns[key]?.removeAll { $0.from == from }
        turns[key, default: []].append(Turn(from: from, holder: holder))
    }

    mutating func grant(
        _ customer: CustomerKey, _ entitlement: String, until: Int64?, at instant: Int64
    ) -> Int {
        grants.append(Grant(customer: customer, entitlement: entitlement, from: instant, until: until))
        return grants.count - 1
    }

    mutating func revokeGrant(_ number: Int, at instant: Int64) -> Bool {
        guard grants.indices.contains(number), grants[number].revokedAt == nil else { return false }
        grants[number].revokedAt = instant
        return true
    }
}
