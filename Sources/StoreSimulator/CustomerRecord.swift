/// The five states of the contract.
package enum RecordState: String, Sendable, CaseIterable {
    case active
    case inGracePeriod = "in_grace_period"
    case inBillingRetry = "in_billing_retry"
    case revoked
    case expired

    /// The order in which states are shown where several hold at once; the smallest first.
    fileprivate var rank: Int {
        switch self {
        case .active: 0
        case .inGracePeriod: 1
        case .inBillingRetry: 2
        case .revoked: 3
        case .expired: 4
        }
    }
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
    /// The product it rests on.
    package let productID: String
    /// The original transaction it rests on.
    package let originalTransactionID: String

    /// A stretch of a timeline.
    package init(
        from: Int64, until: Int64?, state: RecordState, givesAccess: Bool, productID: String,
        originalTransactionID: String
    ) {
        self.from = from
        self.until = until
        self.state = state
        self.givesAccess = givesAccess
        self.productID = productID
        self.originalTransactionID = originalTransactionID
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
    /// The product it rests on.
    package let productID: String
    /// The original transaction it rests on.
    package let originalTransactionID: String
    /// What the store last said of auto-renewal: nil for one-time purchases, and before it said anything.
    package let willRenew: Bool?

    /// A truth, or what somebody else holds for one and wants to compare.
    package init(
        entitlement: String, givesAccess: Bool, state: RecordState, since: Int64, until: Int64?, productID: String,
        originalTransactionID: String, willRenew: Bool?
    ) {
        self.entitlement = entitlement
        self.givesAccess = givesAccess
        self.state = state
        self.since = since
        self.until = until
        self.productID = productID
        self.originalTransactionID = originalTransactionID
        self.willRenew = willRenew
    }
}

/// One customer's true timelines, worked out once and read at many instants.
package struct CustomerRecord: Sendable {
    /// Entitlement → its intervals: in order, disjoint, without gaps from the first on, the last without end.
    package let timelines: [String: [RecordInterval]]
    private let stories: [String: Record.Story]

    fileprivate init(timelines: [String: [RecordInterval]], stories: [String: Record.Story]) {
        self.timelines = timelines
        self.stories = stories
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
                originalTransactionID: shown.originalTransactionID, willRenew: willRenew(shown, at: instant))
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
        return Set(instants.flatMap { [$0 - 1, $0, $0 + 1] }).sorted()
    }

    private func willRenew(_ shown: RecordInterval, at instant: Int64) -> Bool? {
        guard let story = stories[shown.originalTransactionID], !story.isOneTime else { return nil }
        if shown.state == .expired || shown.state == .revoked { return false }
        return story.renewalNotes.last { $0.signedDate <= instant }?.willRenew
    }
}

extension Record {
    /// Works out one customer's timelines; empty for a customer who never owned anything.
    package func customer(_ key: CustomerKey) -> CustomerRecord {
        var mine: [String: Story] = [:]
        for original in originals(of: key) { mine[original.originalTransactionID] = stories[original] }
        let owned = mine.values.flatMap(\.chapters).filter { $0.owner == key.customerID }
        let entitlements = Set(owned.flatMap { world.entitlements(of: $0.productID) })
        var timelines: [String: [RecordInterval]] = [:]
        for entitlement in entitlements {
            let intervals = timeline(of: entitlement, owner: key.customerID, stories: mine)
            if !intervals.isEmpty { timelines[entitlement] = intervals }
        }
        return CustomerRecord(timelines: timelines, stories: mine)
    }

    /// What is true of a customer at an instant.
    package func answer(
        customer: String, environment: StoreEnvironment, at instant: Int64
    ) -> [RecordAnswer] {
        self.customer(CustomerKey(environment, customer)).answer(at: instant)
    }

    /// Every instant at which something changes for a customer, and the milliseconds before and after it.
    package func boundaryInstants(_ key: CustomerKey) -> [Int64] {
        customer(key).boundaryInstants
    }

    /// Asks what holds between every two neighbouring instants at which anything at all could change.
    private func timeline(of entitlement: String, owner: String, stories: [String: Story]) -> [RecordInterval] {
        var edges = Set<Int64>()
        for chapter in stories.values.flatMap(\.chapters) {
            edges.insert(chapter.begin)
            for stage in stages(of: chapter) {
                edges.insert(stage.from)
                if stage.condition == .ranOut { edges.insert(stage.from + leeway) }
            }
            if let withdrawal = chapter.withdrawal { edges.insert(withdrawal.date) }
        }
        let ordered = edges.sorted()
        var intervals: [RecordInterval] = []
        for (index, edge) in ordered.enumerated() {
            let standings = stories.compactMap { original, story in
                standing(in: story, original: original, entitlement: entitlement, owner: owner, at: edge)
            }
            guard let shown = standings.min(by: isShownBefore) else { continue }
            let until = index + 1 < ordered.count ? ordered[index + 1] : nil
            var interval = RecordInterval(
                from: edge, until: until, state: shown.state, givesAccess: givesAccess(shown.state),
                productID: shown.productID, originalTransactionID: shown.original)
            if let previous = intervals.last, previous.state == interval.state,
                previous.productID == interval.productID,
                previous.originalTransactionID == interval.originalTransactionID
            {
                intervals.removeLast()
                interval = RecordInterval(
                    from: previous.from, until: until, state: interval.state, givesAccess: interval.givesAccess,
                    productID: interval.productID, originalTransactionID: interval.originalTransactionID)
            }
            intervals.append(interval)
        }
        return intervals
    }

    private struct Standing {
        let state: RecordState
        let end: Int64
        let productID: String
        let original: String
    }

    /// Where one original transaction stands at an instant, for one owner and one entitlement.
    private func standing(
        in story: Story, original: String, entitlement: String, owner: String, at instant: Int64
    ) -> Standing? {
        let begun = story.chapters.filter { $0.begin <= instant }
        guard
            let index = begun.lastIndex(where: {
                $0.owner == owner && world.entitlements(of: $0.productID).contains(entitlement)
                    && !stages(of: $0).isEmpty
            })
        else { return nil }
        let chapter = begun[index]
        let withdrawal = standingWithdrawal(of: chapter)
        let state: RecordState
        if index + 1 < begun.count {
            // A later payment of the same original has begun, for somebody else or for something else.
            state = .expired
        } else if let withdrawal, withdrawal.date <= instant {
            state = .revoked
        } else {
            state = self.state(of: chapter, at: instant)
        }
        var end = stages(of: chapter).first { $0.condition != .active }?.from ?? .max
        if let withdrawal { end = min(end, max(withdrawal.date, chapter.begin)) }
        if let next = story.chapters.first(where: { $0.begin > chapter.begin }) { end = min(end, next.begin) }
        return Standing(state: state, end: end, productID: chapter.productID, original: original)
    }

    private func state(of chapter: Chapter, at instant: Int64) -> RecordState {
        guard let stage = stages(of: chapter).last(where: { $0.from <= instant }) else { return .expired }
        return switch stage.condition {
        case .active: .active
        case .inGracePeriod: .inGracePeriod
        case .inBillingRetry: .inBillingRetry
        case .ranOut: instant < stage.from + leeway ? .active : .expired
        case .expired: .expired
        }
    }

    /// The stages as told, or those of the catalog's duration; none where the catalog does not know how long.
    private func stages(of chapter: Chapter) -> [Stage] {
        guard chapter.paid == .catalogDuration else { return chapter.stages }
        let mapping = world.mappings.first { $0.productID == chapter.productID }
        guard let duration = mapping?.duration.flatMap(CalendarDuration.init(iso8601:)) else { return [] }
        let end = SimulatedCalendar.adding(duration, to: chapter.begin)
        return [Stage(from: chapter.begin, condition: .active), Stage(from: end, condition: .ranOut)]
    }

    private func standingWithdrawal(of chapter: Chapter) -> Withdrawal? {
        guard let withdrawal = chapter.withdrawal else { return nil }
        return withdrawal.isProrated && world.policy.proratedRefund == .keepsAccess ? nil : withdrawal
    }

    private var leeway: Int64 { world.policy.leewaySeconds * Span.second }

    private func givesAccess(_ state: RecordState) -> Bool {
        switch state {
        case .active: true
        case .inGracePeriod: world.policy.graceGivesAccess
        case .inBillingRetry: world.policy.billingRetryGivesAccess
        case .revoked, .expired: false
        }
    }

    /// The order of display: access first, then the state, the later end of the period, the smaller original.
    private func isShownBefore(_ left: Standing, _ right: Standing) -> Bool {
        let (leftAccess, rightAccess) = (givesAccess(left.state), givesAccess(right.state))
        if leftAccess != rightAccess { return leftAccess }
        if left.state != right.state { return left.state.rank < right.state.rank }
        if left.end != right.end { return left.end > right.end }
        return left.original < right.original
    }
}
