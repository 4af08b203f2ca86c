/// Where an entitlement comes from.
package enum EntitlementOrigin: String, Hashable, Comparable, Sendable, Codable, CaseIterable {
    case appStore = "app_store"
    case grant
    case webCheckout = "web_checkout"

    package static func < (left: EntitlementOrigin, right: EntitlementOrigin) -> Bool { left.rawValue < right.rawValue }
}

/// One stretch in which one period or grant says how an entitlement reads.
package struct Reading: Hashable, Sendable {
    /// What says so.
    enum Giver: Hashable, Sendable {
        case purchase(Shared<PurchaseTerms>)
        case grant(id: String)
    }

    package var start: Timestamp
    /// `endless` for what does not end.
    package var end: Timestamp
    package var state: EntitlementState
    package var reason: ReasonCode
    let giver: Giver
    /// The events it rests on, ascending.
    package var positions: [Int64]
    /// When the period or grant it belongs to ends, which decides what is shown where several read alike.
    package var periodEnd: Timestamp

    package var source: EntitlementOrigin {
        switch giver {
        case .purchase(let terms): terms.value.origin
        case .grant: .grant
        }
    }

    /// `nil` for a grant.
    package var productID: String? { terms?.value.fact.productID }

    /// `nil` for a grant.
    package var originalTransactionID: String? { terms?.value.fact.originalTransactionID }

    /// `nil` for a grant.
    package var ownership: AppleOwnership? {
        terms.map { $0.value.fact.ownership == .known(.familyShared) ? .familyShared : .purchased }
    }

    package var offer: Offer? { terms?.value.fact.offer }

    package var isSubscription: Bool { terms?.value.isSubscription ?? false }

    /// See ``PurchaseTerms/needsStoreCheck``.
    var needsStoreCheck: Bool { terms?.value.needsStoreCheck ?? false }

    /// What is so only of what was bought on the web.
    var web: WebPeriod? { terms?.value.web }

    /// Orders sources of one kind: the original transaction, or the grant.
    var sourceID: String {
        switch giver {
        case .purchase(let terms): terms.value.fact.originalTransactionID
        case .grant(let id): id
        }
    }

    private var terms: Shared<PurchaseTerms>? {
        switch giver {
        case .purchase(let terms): terms
        case .grant: nil
        }
    }

    /// Whether the two would be shown as one interval.
    func continues(_ earlier: Reading) -> Bool {
        state == earlier.state && productID == earlier.productID && source == earlier.source
            && originalTransactionID == earlier.originalTransactionID && start == earlier.end
    }
}

/// How one entitlement of one customer reads, from its first period or grant on, without gaps.
package struct EntitlementTimeline: Hashable, Sendable {
    package let entitlementID: String
    /// As the fold found them: split wherever anything changes, so that each names just what it rests on.
    package let readings: [Reading]

    /// Readings joined where state, product, source and original transaction stay the same.
    package var intervals: [Reading] {
        var intervals: [Reading] = []
        for reading in readings {
            if let last = intervals.last, reading.continues(last) {
                intervals[intervals.count - 1].end = reading.end
                intervals[intervals.count - 1].positions = last.positions.union(reading.positions)
            } else {
                intervals.append(reading)
            }
        }
        return intervals
    }

    /// When the state of an instant began, whatever gives it; `nil` before the timeline begins.
    func stateBegan(by instant: Timestamp) -> Timestamp? {
        let begun = readings.prefix { $0.start <= instant }
        guard let state = begun.last?.state else { return nil }
        return begun.suffix(from: (begun.lastIndex { $0.state != state } ?? -1) + 1).first?.start
    }

    /// The union of several sources: at each instant the reading that is to be shown.
    ///
    /// In about as many steps as there are readings, for some have thousands of grants.
    init(entitlementID: String, sources: [[Reading]], policy: AccessPolicy) {
        self.entitlementID = entitlementID
        if sources.count == 1 {
            readings = sources[0]
            return
        }
        let all = sources.flatMap(\.self)
        // By which of two is shown where they overlap; of equals the one whose source comes first.
        let ranked = all.indices.sorted { left, right in
            if all[left].isShown(before: all[right], policy: policy) { return true }
            return left < right && !all[right].isShown(before: all[left], policy: policy)
        }
        let begun = ranked.indices.sorted { all[ranked[$0]].start < all[ranked[$1]].start }
        let boundaries = Set(all.flatMap { [$0.start, $0.end] }).sorted()
        var next = 0
        // The ranks of what has begun; what has ended goes when it comes first.
        var open = LeastFirst()
        var merged: [Reading] = []
        for (start, end) in zip(boundaries, boundaries.dropFirst()) {
            while next < begun.count, all[ranked[begun[next]]].start <= start {
                open.insert(begun[next])
                next += 1
            }
            while let rank = open.first, all[ranked[rank]].end <= start { open.removeFirst() }
            guard let rank = open.first else { continue }
            var shown = all[ranked[rank]]
            shown.start = start
            shown.end = end
            if let last = merged.last, last.isSameReading(as: shown), last.end == start {
                merged[merged.count - 1].end = end
            } else {
                merged.append(shown)
            }
        }
        readings = merged
    }
}

extension Reading {
    /// The order of what overlaps: what gives access; the state; the period or grant that ends last; the
    /// smallest source.
    func isShown(before other: Reading, policy: AccessPolicy) -> Bool {
        let gives = policy.givesAccess(state)
        if gives != policy.givesAccess(other.state) { return gives }
        if state != other.state { return state.precedence < other.state.precedence }
        if periodEnd != other.periodEnd { return periodEnd > other.periodEnd }
        if source != other.source { return source < other.source }
        return sourceID < other.sourceID
    }

    fileprivate func isSameReading(as other: Reading) -> Bool {
        var aligned = other
        aligned.start = start
        aligned.end = end
        return self == aligned
    }
}

/// Numbers of which the least comes first: a binary heap.
private struct LeastFirst {
    private var items: [Int] = []

    var first: Int? { items.first }

    mutating func insert(_ item: Int) {
        items.append(item)
        var child = items.count - 1
        while child > 0, items[child] < items[(child - 1) / 2] {
            items.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeFirst() {
        guard let last = items.popLast(), !items.isEmpty else { return }
        items[0] = last
        var parent = 0
        while true {
            let least = [2 * parent + 1, 2 * parent + 2].filter { $0 < items.count }.min { items[$0] < items[$1] }
            guard let least, items[least] < items[parent] else { return }
            items.swapAt(parent, least)
            parent = least
        }
    }
}
