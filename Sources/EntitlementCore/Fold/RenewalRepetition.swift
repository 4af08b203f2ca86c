/// The content of a renewal statement without its signed date.
///
/// `isGraceWithoutEnd` is left out: it comes from the notification, not from the signed statement.
struct RenewalContent: Hashable {
    let autoRenewProductID: String?
    let autoRenews: Bool?
    let isInBillingRetry: Bool
    let graceEnd: Timestamp?
    let expirationIntent: Int64?
    let priceIncreaseStatus: Int64?

    init(_ fact: RenewalFact) {
        autoRenewProductID = fact.autoRenewProductID
        autoRenews = fact.autoRenews
        isInBillingRetry = fact.isInBillingRetry
        graceEnd = fact.graceEnd
        expirationIntent = fact.expirationIntent
        priceIncreaseStatus = fact.priceIncreaseStatus
    }
}

/// A day and a content: what repetitions of a statement on one day have in common.
private struct RenewalDayContent: Hashable {
    let day: Int64
    let content: RenewalContent

    init(_ stated: StatedRenewal) {
        day = stated.fact.day
        content = RenewalContent(stated.fact)
    }
}

extension [StatedRenewal] {
    /// The statements signed on the same day, in UTC, as one.
    func day(of fact: RenewalFact) -> Range<Int> {
        let day = fact.day
        let start = partitioningIndex { !($0.fact.day < day) }
        return start..<partitioningIndex { day < $0.fact.day }
    }

    /// Whether a statement of the same day says this.
    func hasSaid(_ content: RenewalContent, onDayOf fact: RenewalFact) -> Bool {
        self[day(of: fact)].contains { RenewalContent($0.fact) == content }
    }
}

extension ArraySlice<StatedRenewal> {
    /// All that the store itself said, and the first and the last statement of each day that say the same.
    ///
    /// Which are dropped does not depend on the order in which they come: whether a statement is the first of its kind on
    /// its day, or the last, is decided among all there are, whoever delivered them, and what was dropped once could never
    /// be either again. One that the store delivers later is kept from then on.
    func thinned() -> [StatedRenewal] {
        var ends: [RenewalDayContent: (first: Int, last: Int)] = [:]
        for (index, stated) in zip(indices, self) {
            ends[RenewalDayContent(stated), default: (index, index)].last = index
        }
        return zip(indices, self).filter { index, stated in
            guard !stated.sources.includesStore, let ends = ends[RenewalDayContent(stated)] else { return true }
            return index == ends.first || index == ends.last
        }.map(\.1)
    }
}

extension RenewalFact {
    /// Days since 1970 in UTC; statements without a date count as the earliest day.
    fileprivate var day: Int64 { (signedDate ?? .earliest).daysSinceEpoch }
}
