/// Everything the log says that bears on one customer in one environment, up to some position.
///
/// The fold from here to an answer is pure: the same facts give the same answer on the server and on a device.
package struct CustomerFacts: Sendable {
    /// The customer, every link followed.
    package var customer: IdentityRef
    /// Every original transaction that might be this customer's; the fold leaves out those that are not.
    package var originals: [String: OriginalState]
    package var grants: [GrantState]
    package var ownership: OwnershipMap
    package var catalog: Catalog

    package init(
        customer: IdentityRef, originals: [String: OriginalState], grants: [GrantState] = [],
        ownership: OwnershipMap = OwnershipMap(), catalog: Catalog
    ) {
        self.customer = customer
        self.originals = originals
        self.grants = grants
        self.ownership = ownership
        self.catalog = catalog
    }

    /// The timelines of all entitlements this customer ever held, in the order of their ids.
    package func timelines() -> [EntitlementTimeline] {
        Dictionary(grouping: sources(), by: \.entitlementID).sorted { $0.key < $1.key }.map { id, sources in
            EntitlementTimeline(entitlementID: id, sources: sources.map(\.readings), policy: catalog.policy)
        }
    }

    /// The same without the original transactions in which the customer has, and had, no part.
    package func ofCustomerAlone() -> CustomerFacts {
        var facts = self
        facts.originals = originals.filter { originalID, state in
            ownership.transfers(of: originalID).contains { $0.customer.map(ownership.customer(of:)) == customer }
                || state.winningStatements().contains { ownership.owner(of: $0.fact) == customer }
        }
        facts.grants = grants.filter { ownership.customer(of: $0.customer) == customer }
        return facts
    }

    /// Everything that gives, or gave, this customer an entitlement, one by one; of readings that are alike the first
    /// is shown.
    func sources() -> [SourceTimeline] {
        var sources: [SourceTimeline] = []
        for (originalID, state) in originals.sorted(by: { $0.key < $1.key }) {
            for chain in state.chains(catalog) {
                let owned = ownedSegments(of: chain, state: state, originalID: originalID)
                let handedOn = periodsHandedOn(of: chain, originalID: originalID)
                let given = entitlementsGiven(by: chain)
                let held = owned.compactMap { $0.isOwned ? $0.segment.periodIndex : nil } + handedOn.map(\.index)
                for entitlementID in entitlements(given, in: held) {
                    let readings = self.readings(of: entitlementID, given: given, owned: owned, handedOn: handedOn)
                    if !readings.isEmpty {
                        sources.append(
                            SourceTimeline(entitlementID: entitlementID, readings: readings, giver: .chain(chain)))
                    }
                }
            }
        }
        for grant in grants.sorted(by: { $0.grantID < $1.grantID })
        where ownership.customer(of: grant.customer) == customer {
            let readings = grant.readings
            if !readings.isEmpty {
                sources.append(
                    SourceTimeline(entitlementID: grant.entitlementID, readings: readings, giver: .grant(grant)))
            }
        }
        return sources
    }

    /// What each period of a chain gives.
    private func entitlementsGiven(by chain: PeriodChain) -> [[String]] {
        // Nearly all periods of a chain are of the product of the one before.
        var last: (productID: String, entitlements: [String])?
        return chain.periods.map { period in
            let productID = period.fact.productID
            if let last, last.productID == productID { return last.entitlements }
            let entitlements = catalog.product(productID)?.entitlements ?? []
            last = (productID, entitlements)
            return entitlements
        }
    }

    /// What some of these periods give, each once, in the order of the ids.
    private func entitlements(_ given: [[String]], in periods: [Int]) -> [String] {
        var entitlements: Set<String> = []
        var last: [String] = []
        for index in periods where given[index] != last {
            last = given[index]
            entitlements.formUnion(last)
        }
        return entitlements.sorted()
    }

    /// One chain's segments, cut at transfers, each marked as this customer's or not.
    func ownedSegments(of chain: PeriodChain, state: OriginalState, originalID: String) -> [OwnedSegment] {
        let segments = state.segments(of: chain, policy: catalog.policy)
        var pieces: [OwnedSegment] = []
        pieces.reserveCapacity(segments.count)
        // Nearly all periods of a chain state the owner whom the one before stated.
        var statedOwner = chain.periods.first?.fact.statedOwner
        var owners = self.owners(of: originalID, stating: statedOwner)
        for segment in segments {
            let period = chain.periods[segment.periodIndex]
            if period.fact.statedOwner != statedOwner {
                statedOwner = period.fact.statedOwner
                owners = self.owners(of: originalID, stating: statedOwner)
            }
            for (index, owner) in owners.enumerated() {
                var piece = segment
                piece.start = max(segment.start, owner.from)
                piece.end = min(segment.end, index + 1 < owners.count ? owners[index + 1].from : .endless)
                guard piece.start < piece.end else { continue }
                piece.positions = segment.positions.union(owner.positions)
                let next = owners[(index + 1)...].first { $0.customer != owner.customer }
                pieces.append(
                    OwnedSegment(
                        segment: piece, period: period, isOwned: owner.customer == customer,
                        heldUntil: next?.from ?? .endless))
            }
        }
        return pieces
    }

    /// The successive owners of a period, each with the instant from which it is theirs; the first span is before any
    /// transfer.
    ///
    /// Only links that lead to this customer are cited: the links of others are not known to everybody who folds these
    /// facts, and a period that is not this customer's reads the same with or without them.
    private func owners(of originalID: String, stating statedOwner: IdentityRef?) -> [OwnerSpan] {
        func links(of identity: IdentityRef) -> [Int64] {
            ownership.customer(of: identity) == customer ? ownership.linkPositions(of: identity) : []
        }
        let claim = statedOwner == nil ? ownership.claim(of: originalID) : nil
        let bearer = statedOwner ?? claim?.customer
        let natural = OwnerSpan(
            from: .earliest, customer: bearer.map(ownership.customer(of:)),
            positions: [claim?.position].compactMap(\.self) + (bearer.map(links(of:)) ?? []))
        var owners = [natural]
        for transfer in ownership.transfers(of: originalID) {
            // Should recorded instants ever run backwards, the later position holds from its own instant on.
            while owners.count > 1, let last = owners.last, last.from >= transfer.at { owners.removeLast() }
            let holder = transfer.customer
            owners.append(
                OwnerSpan(
                    from: transfer.at, customer: holder.map(ownership.customer(of:)) ?? natural.customer,
                    positions: transfer.positions + (holder.map(links(of:)) ?? natural.positions)))
        }
        return owners
    }

    /// The periods of a chain that became this customer's only after the next one had begun, in order; a transfer moves
    /// an original transaction as a whole, its past periods included.
    private func periodsHandedOn(of chain: PeriodChain, originalID: String) -> [HandedOnPeriod] {
        guard !ownership.transfers(of: originalID).isEmpty else { return [] }
        return zip(chain.periods, chain.periods.dropFirst()).enumerated().compactMap { index, pair in
            let (period, next) = pair
            let owners = owners(of: originalID, stating: period.fact.statedOwner)
            let ends = owners.dropFirst().map(\.from) + [.endless]
            let own = zip(owners, ends).first { owner, end in
                owner.customer == customer && max(owner.from, period.start) < end
            }
            guard let owner = own?.0, owner.from >= next.start else { return nil }
            return HandedOnPeriod(
                index: index, period: period, since: owner.from, positions: period.positions.union(owner.positions))
        }
    }

    /// How one chain reads for one entitlement: the customer's own segments, and `expired` wherever the chain has
    /// gone on to something that does not give it, or had gone on before what gave it became the customer's.
    private func readings(
        of entitlementID: String, given: [[String]], owned: [OwnedSegment], handedOn: [HandedOnPeriod]
    ) -> [Reading] {
        let handedOn = handedOn.filter { given[$0.index].contains(entitlementID) }
        var readings: [Reading] = []
        readings.reserveCapacity(owned.count)
        /// The latest period that the readings speak of.
        var shown = -1
        for item in owned {
            let late = handedOn.last { $0.index > shown && $0.since <= item.segment.start }
            if item.isOwned && given[item.segment.periodIndex].contains(entitlementID) {
                readings.append(Reading(item))
                shown = item.segment.periodIndex
            } else if let late {
                readings.append(Reading(late, during: item))
                shown = late.index
            } else if let last = readings.last {
                var filler = last
                filler.start = item.segment.start
                filler.end = item.segment.end
                filler.state = .expired
                filler.reason = item.isOwned ? .replaced : .ownedByAnother
                if last.reason != filler.reason || last.state != .expired {
                    filler.positions = last.positions.union(item.segment.positions)
                }
                if last.state == .expired, last.reason == filler.reason {
                    readings[readings.count - 1].end = filler.end
                } else {
                    readings.append(filler)
                }
            }
        }
        return readings
    }
}

/// A period that became the customer's when it was over.
private struct HandedOnPeriod {
    /// Its place in the chain.
    let index: Int
    let period: Period
    let since: Timestamp
    /// The events that say so.
    let positions: [Int64]
}

private struct OwnerSpan {
    let from: Timestamp
    let customer: IdentityRef?
    let positions: [Int64]
}

/// A segment, and whether it is the customer's.
struct OwnedSegment {
    let segment: Segment
    let period: Period
    let isOwned: Bool
    /// When it becomes somebody else's.
    let heldUntil: Timestamp
}

/// How one chain of periods, or one grant, reads for one entitlement.
struct SourceTimeline {
    enum Giver {
        case chain(PeriodChain)
        case grant(GrantState)
    }

    let entitlementID: String
    let readings: [Reading]
    let giver: Giver
}

extension Reading {
    /// How a past period reads while the chain is already in a later segment.
    fileprivate init(_ past: HandedOnPeriod, during item: OwnedSegment) {
        var segment = item.segment
        segment.state = .expired
        segment.reason = item.isOwned ? .replaced : .ownedByAnother
        segment.positions = segment.positions.union(past.positions)
        self.init(OwnedSegment(segment: segment, period: past.period, isOwned: true, heldUntil: .endless))
    }

    fileprivate init(_ item: OwnedSegment) {
        self.init(
            start: item.segment.start, end: item.segment.end, state: item.segment.state, reason: item.segment.reason,
            giver: .purchase(item.period.terms), positions: item.segment.positions,
            periodEnd: min(item.period.end, item.heldUntil))
    }
}
