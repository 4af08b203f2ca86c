/// Where an entitlement comes from.
package enum EntitlementOrigin: String, Hashable, Comparable, Sendable, Codable, CaseIterable {
    case appStore = "app_store"
    case grant
    case webCheckout = "web_checkout"

    package static func < (left: EntitlementOrigin, right: EntitlementOrigin) -> Bool { left.rawValue < right.rawValue }
}

/// One stretch in which one period or grant says how an entitlement reads.
package struct Reading: Hashable, Sendable {
    package var start: Timestamp
    /// `endless` for what does not end.
    package var end: Timestamp
    package var state: EntitlementState
    package var reason: ReasonCode
    package var source: EntitlementOrigin
    /// `nil` for a grant.
    package var productID: String?
    /// `nil` for a grant.
    package var originalTransactionID: String?
    /// `nil` for a grant.
    package var ownership: AppleOwnership?
    package var offer: Offer?
    package var isSubscription: Bool
    /// The events it rests on, ascending.
    package var positions: [Int64]
    /// When the period or grant it belongs to ends, which decides what is shown where several read alike.
    package var periodEnd: Timestamp
    /// Orders sources of one kind: the original transaction, or the grant.
    var sourceID: String
    /// What is so only of what was bought on the web.
    var sold: Shared<WebPeriod>?

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
                intervals[intervals.count - 1].positions = Set(last.positions + reading.positions).sorted()
            } else {
                intervals.append(reading)
            }
        }
        return intervals
    }

    /// The union of several sources: at each instant the reading that is to be shown.
    init(entitlementID: String, sources: [[Reading]], policy: AccessPolicy) {
        self.entitlementID = entitlementID
        if sources.count == 1 {
            readings = sources[0]
            return
        }
        let boundaries = Set(sources.joined().flatMap { [$0.start, $0.end] }).sorted()
        var cursors = [Int](repeating: 0, count: sources.count)
        var merged: [Reading] = []
        for (start, end) in zip(boundaries, boundaries.dropFirst()) {
            var best: Reading?
            for (index, source) in sources.enumerated() {
                while cursors[index] < source.count, source[cursors[index]].end <= start { cursors[index] += 1 }
                guard cursors[index] < source.count, source[cursors[index]].start <= start else { continue }
                let candidate = source[cursors[index]]
                if let current = best, !candidate.isShown(before: current, policy: policy) { continue }
                best = candidate
            }
            guard var shown = best else { continue }
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
