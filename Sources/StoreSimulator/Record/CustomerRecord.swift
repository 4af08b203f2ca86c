/// The five states of the contract.
package enum RecordState: String, Sendable, CaseIterable {
    case active
    case inGracePeriod = "in_grace_period"
    case inBillingRetry = "in_billing_retry"
    case revoked
    case expired

    /// The order in which states are shown where several hold at once; the smallest first.
    var rank: Int {
        switch self {
        case .active: 0
        case .inGracePeriod: 1
        case .inBillingRetry: 2
        case .revoked: 3
        case .expired: 4
        }
    }
}

/// Where an entitlement comes from.
package enum RecordSource: String, Sendable, CaseIterable {
    case appStore = "app_store"
    case grant
    case webCheckout = "web_checkout"
}

/// A stretch of an entitlement's true timeline; half-open, in milliseconds.
package struct RecordInterval: Sendable, Equatable {
    /// The first instant.
    package let from: Int64
    /// The first instant after it; nil for a stretch without end.
    package let until: Int64?
    /// The state that holds.
    package let state: RecordState
    /// Whether it gives access under the world's policy.
    package let givesAccess: Bool
    /// The product it rests on; empty for a grant.
    package let productID: String
    /// The original transaction it rests on; empty for a grant.
    package let originalTransactionID: String
    /// Where it comes from.
    package let source: RecordSource

    /// A stretch of a timeline.
    package init(
        from: Int64, until: Int64?, state: RecordState, givesAccess: Bool, productID: String,
        originalTransactionID: String, source: RecordSource = .appStore
    ) {
        self.from = from
        self.until = until
        self.state = state
        self.givesAccess = givesAccess
        self.productID = productID
        self.originalTransactionID = originalTransactionID
        self.source = source
    }
}

/// What is true of one entitlement at one instant.
package struct RecordAnswer: Sendable, Equatable {
    /// The entitlement.
    package let entitlement: String
    /// Whether the customer has access.
    package let givesAccess: Bool
    /// The state shown.
    package let state: RecordState
    /// Where the unbroken run of the same access begins.
    package let since: Int64
    /// Where that run ends; nil where it does not.
    package let until: Int64?
    /// The product it rests on; empty for a grant.
    package let productID: String
    /// The original transaction it rests on; empty for a grant.
    package let originalTransactionID: String
    /// What the store last said of auto-renewal: nil for one-time purchases and grants, and before it said anything.
    package let willRenew: Bool?
    /// Where it comes from.
    package let source: RecordSource

    /// A truth, or what somebody else holds for one and wants to compare.
    package init(
        entitlement: String, givesAccess: Bool, state: RecordState, since: Int64, until: Int64?, productID: String,
        originalTransactionID: String, willRenew: Bool?,
        source: RecordSource = .appStore
    ) {
        self.entitlement = entitlement
        self.givesAccess = givesAccess
        self.state = state
        self.since = since
        self.until = until
        self.productID = productID
        self.originalTransactionID = originalTransactionID
        self.willRenew = willRenew
        self.source = source
    }
}

/// What was bought on the web and is shown from an instant on; nil where something else is.
struct ShownStrand: Sendable {
    let from: Int64
    let holding: WebHolding?
}

/// One customer's true timelines, worked out once and read at many instants.
package struct CustomerRecord: Sendable {
    /// Entitlement → its intervals: in order, disjoint, without gaps from the first on, the last without end.
    package let timelines: [String: [RecordInterval]]
    private let stories: [String: Record.Story]
    private let webStories: [String: WebStory]
    /// Entitlement → what of the web is shown from when on, in order.
    private let strands: [String: [ShownStrand]]

    init(
        timelines: [String: [RecordInterval]], stories: [String: Record.Story], webStories: [String: WebStory] = [:],
        strands: [String: [ShownStrand]] = [:]
    ) {
        self.timelines = timelines
        self.stories = stories
        self.webStories = webStories
        self.strands = strands
    }

    /// What is true at an instant: one answer for each entitlement whose timeline has begun, ordered by entitlement.
    package func answer(at instant: Int64) -> [RecordAnswer] {
        timelines.sorted { $0.key < $1.key }.compactMap { entitlement, intervals in
            guard
                let index = intervals.firstIndex(where: {
                    $0.from <= instant && instant < $0.until ?? .max
                })
            else { return nil }
            let shown = intervals[index]
            var first = index
            while first > 0, intervals[first - 1].givesAccess == shown.givesAccess { first -= 1 }
            var last = index
            while last + 1 < intervals.count, intervals[last + 1].givesAccess == shown.givesAccess { last += 1 }
            return RecordAnswer(
                entitlement: entitlement, givesAccess: shown.givesAccess, state: shown.state,
                since: intervals[first].from, until: intervals[last].until, productID: shown.productID,
                originalTransactionID: shown.originalTransactionID,
                willRenew: willRenew(entitlement, shown, at: instant),
                source: shown.source)
        }
    }

    /// Every instant at which something changes, and the milliseconds before and after it.
    package var boundaryInstants: [Int64] {
        var instants = Set<Int64>()
        for interval in timelines.values.joined() {
            instants.insert(interval.from)
            if let until = interval.until { instants.insert(until) }
        }
        for note in stories.values.flatMap(\.renewalNotes) { instants.insert(note.signedDate) }
        for statement in webStories.values.flatMap(\.statements) { instants.insert(statement.created) }
        return Set(instants.flatMap { [$0 - 1, $0, $0 + 1] }).sorted()
    }

    private func willRenew(_ entitlement: String, _ shown: RecordInterval, at instant: Int64) -> Bool? {
        if let story = webStories[shown.originalTransactionID] {
            guard !story.isOneTime else { return nil }
            if shown.state == .expired || shown.state == .revoked { return false }
            return strands[entitlement]?.last { $0.from <= instant }?.holding?.willRenew(at: instant)
        }
        guard let story = stories[shown.originalTransactionID], !story.isOneTime else { return nil }
        if shown.state == .expired || shown.state == .revoked { return false }
        return story.renewalNotes.last { $0.signedDate <= instant }?.willRenew
    }
}
