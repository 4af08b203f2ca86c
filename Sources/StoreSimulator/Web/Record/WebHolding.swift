/// What follows each other and is one after the other: the paid time of a subscription's item, or one thing bought.
struct WebStrand: Sendable, Equatable {
    struct Chapter: Sendable, Equatable {
        let payment: String
        let productID: String?
        /// When it begins to be read: it may have been paid later than it began.
        var opening: Int64
        var start: Int64
        /// Nil for what the catalog decides.
        var end: Int64?
        /// Until when it was paid for; nil for a one-time purchase.
        var paidUntil: Int64?
        /// From when on what paid for it is taken back.
        var takenBackAt: Int64?
        /// Something took its place before it was over.
        var isReplaced = false

        /// Until when nothing else of the item holds; nil for what the catalog decides.
        fileprivate var heldUntil: Int64? { end.map { min($0, max(takenBackAt ?? .max, start)) } }
    }

    /// Nil for a one-time purchase.
    let item: String?
    var chapters: [Chapter]
    /// When another item was paid for that took its place.
    var yieldsAt: Int64?
}

extension WebStory {
    /// The strands of it, in the order of their items, those that it no longer has behind the others.
    func strands(under policy: SimulatedAccessPolicy) -> [WebStrand] {
        let sorted = Set(stretches.map(\.item)).sorted()
        func isHeld(_ item: String) -> Bool { statements.last.map { $0.periodEnds[item] != nil } ?? true }
        let items = sorted.filter(isHeld) + sorted.filter { !isHeld($0) }
        var ofItem: [String: WebStrand] = [:]
        // An item whose place another takes was paid for before that one.
        func start(_ item: String) -> Int64 { stretches.filter { $0.item == item }.map(\.start).min() ?? 0 }
        for item in items.sorted(by: { (start($0), $0) < (start($1), $1) }) {
            let predecessors = ofItem.values.filter { before in
                let end = before.chapters.last?.end
                return before.item.flatMap { name in end.map { heirs(of: name, after: $0) } }?.contains(item) ?? false
            }
            ofItem[item] = WebStrand(
                item: item,
                chapters: chapters(
                    stretches.filter { $0.item == item }, after: predecessors.map(\.chapters), under: policy))
        }
        let ofItems = items.compactMap { ofItem[$0] }.map { yielding($0, to: ofItem) }
        let payment = payments.keys.sorted().first ?? ""
        return ofItems
            + purchases.map { purchase in
                WebStrand(
                    item: nil,
                    chapters: [
                        WebStrand.Chapter(
                            payment: payment, productID: purchase.productID, opening: purchase.from,
                            start: purchase.from, takenBackAt: withdrawal(of: payment, under: policy))
                    ])
            }
    }

    /// The items that came one after the other in the place of one, as long as none was paid for before an instant.
    func heirs(of item: String, after end: Int64) -> [String] {
        var (found, next) = ([String](), heirs[item])
        func isPaid(_ item: String) -> Bool {
            stretches.contains { stretch in
                stretch.item == item && stretch.start < end
                    && !stops.contains { $0.item == item && $0.at <= stretch.start }
            }
        }
        while let heir = next, !isPaid(heir) {
            found.append(heir)
            next = heirs[heir]
        }
        return found
    }

    /// A strand, with when another item was paid for that took its place.
    private func yielding(_ strand: WebStrand, to others: [String: WebStrand]) -> WebStrand {
        guard let item = strand.item, let end = strand.chapters.last?.end else { return strand }
        var strand = strand
        // Any of its payments is one for what goes on, also one that comes before that for an earlier period.
        strand.yieldsAt = heirs(of: item, after: end).flatMap { others[$0]?.chapters ?? [] }.map(\.opening).min()
        return strand
    }

    /// - Parameter predecessors: what was paid for of the items whose place this one took.
    private func chapters(
        _ stretches: [Stretch], after predecessors: [[WebStrand.Chapter]], under policy: SimulatedAccessPolicy
    ) -> [WebStrand.Chapter] {
        let ordered = stretches.sorted { left, right in
            (left.start, left.replaces ? 1 : 0, left.replaces ? Int64(left.order) : left.end)
                < (right.start, right.replaces ? 1 : 0, right.replaces ? Int64(right.order) : right.end)
        }
        var chapters: [WebStrand.Chapter] = []
        // What was before the stretches that begin at one instant.
        var earlier: [WebStrand.Chapter] = []
        for (index, stretch) in ordered.enumerated() {
            if index == 0 || ordered[index - 1].start < stretch.start { earlier = chapters }
            var chapter = WebStrand.Chapter(
                payment: stretch.payment, productID: stretch.productID, opening: stretch.start, start: stretch.start,
                end: stretch.end, paidUntil: stretch.end,
                takenBackAt: withdrawal(of: stretch.payment, under: policy))
            if stretch.replaces || chapters.isEmpty {
                // What takes the place of something that runs opens as that does; of what nobody has paid for yet, as while a
                // charge fails, when either is paid.
                let given = stops.filter { $0.item == stretch.item && $0.at < stretch.start }
                let running =
                    earlier.isEmpty
                    ? predecessors.joined().filter { before in
                        before.start < stretch.start && stretch.start <= before.end ?? 0
                            && stretch.start < before.paidUntil ?? 0
                    }
                    : [earlier.last { $0.start < stretch.start }].compactMap(\.self).filter { before in
                        before.end ?? 0 > stretch.start && !given.contains { before.start < $0.at }
                    }
                if !earlier.isEmpty || !predecessors.isEmpty {
                    let held = running.map { max(stretch.start, $0.opening) }.min() ?? .max
                    chapter.opening = min(max(stretch.start, stretch.paidAt), held)
                }
                for index in chapters.indices where chapters[index].end ?? 0 > stretch.start {
                    chapters[index].end = stretch.start
                    chapters[index].isReplaced = true
                }
                chapters.removeAll { $0.end ?? 0 <= $0.start }
            } else if let before = chapters.compactMap(\.heldUntil).max() {
                // Nobody has a claim to time for which the money went back, but whoever paid for it again.
                chapter.start = max(stretch.start, before)
                chapter.opening = max(chapter.start, stretch.paidAt)
            }
            if chapter.start < stretch.end { chapters.append(chapter) }
        }
        for stop in stops where stop.item == stretches.first?.item {
            // What was sold in the instant in which it was given up held for no time.
            chapters.removeAll { stop.at <= $0.start }
            for index in chapters.indices {
                guard chapters[index].start < stop.at, let end = chapters[index].end, stop.at < end else { continue }
                chapters[index].end = stop.at
                chapters[index].isReplaced = true
            }
        }
        guard let endedAt else { return chapters }
        return chapters.filter { $0.start < endedAt }
    }
}

/// One strand that a customer has or had, read under a world's catalog and policy.
struct WebHolding {
    let key: SimulatedOriginalKey
    private let story: WebStory
    private let strand: WebStrand
    private let world: StoreWorld
    /// The longest that a renewal may take.
    private static let pending = 72 * Span.hour
    /// How long a renewal is believed in of which nothing was heard.
    private static let unheard = Span.hour
    private static let givenUp = 60 * Span.day

    init(_ key: SimulatedOriginalKey, _ story: WebStory, _ strand: WebStrand, _ world: StoreWorld) {
        (self.key, self.story, self.world) = (key, story, world)
        var strand = strand
        if strand.item == nil {
            for index in strand.chapters.indices {
                let chapter = strand.chapters[index]
                let duration = world.mappings.first { $0.productID == chapter.productID }?.duration
                strand.chapters[index].end =
                    duration.flatMap(SimulatedCalendarDuration.init(iso8601:)).map {
                        SimulatedCalendar.adding($0, to: chapter.start)
                    } ?? .max
            }
        }
        self.strand = strand
    }

    var entitlements: [String] { strand.chapters.flatMap { entitlements(of: $0) } }

    private func entitlements(of chapter: WebStrand.Chapter) -> [String] {
        chapter.productID.map(world.entitlements(of:)) ?? []
    }

    /// Every instant at which something could change.
    var edges: [Int64] {
        var edges: [Int64] = story.statements.flatMap { [$0.created] + $0.periodEnds.values }
        if let endedAt = story.endedAt { edges.append(endedAt) }
        if let yieldsAt = strand.yieldsAt { edges.append(yieldsAt) }
        for chapter in strand.chapters {
            edges += [chapter.opening, chapter.takenBackAt].compactMap(\.self)
            guard let end = chapter.end, end < .max else { continue }
            edges += [0, leeway, grace, Self.pending, Self.unheard, Self.givenUp].map { end + $0 }
        }
        return edges.filter { $0 >= strand.chapters.map(\.opening).min() ?? .max }
    }

    /// What is shown of it for an entitlement; nil before it ever gave that.
    func shown(for entitlement: String, at instant: Int64) -> (state: RecordState, end: Int64, productID: String)? {
        guard let present = strand.chapters.lastIndex(where: { $0.opening <= instant }) else { return nil }
        let giving = strand.chapters[...present].indices.last { index in
            // What was paid when something later held already was never read.
            let isRead = strand.chapters[index...].dropFirst().allSatisfy {
                strand.chapters[index].opening < $0.opening
            }
            return isRead && entitlements(of: strand.chapters[index]).contains(entitlement)
        }
        guard let giving, let productID = strand.chapters[giving].productID else { return nil }
        let chapter = strand.chapters[giving]
        return (giving == present ? state(of: chapter, at: instant) : .expired, end(of: chapter), productID)
    }

    /// How it stands, whatever that gives; nil before it began.
    func standing(at instant: Int64) -> (state: RecordState, productID: String?)? {
        guard let present = strand.chapters.last(where: { $0.opening <= instant }) else { return nil }
        return (state(of: present, at: instant), present.productID)
    }

    /// What was last said of its renewal by an instant; what is no longer part of the subscription does not renew.
    func willRenew(at instant: Int64) -> Bool? {
        guard let item = strand.item, let said = story.statements.last(where: { $0.created <= instant }) else {
            return nil
        }
        let present = strand.chapters.last { $0.opening <= instant } ?? strand.chapters.last
        let end = present?.end ?? 0
        return said.willRenew && periodEnd(said, item, end) != nil
    }

    private var leeway: Int64 { world.policy.leewaySeconds * Span.second }
    private var grace: Int64 { world.policy.webGraceDays * Span.day }

    /// Where access ends that was paid for.
    private func end(of chapter: WebStrand.Chapter) -> Int64 {
        let withdrawn = chapter.takenBackAt.map { max($0, chapter.start) }
        return min(chapter.end ?? .max, withdrawn ?? .max, story.endedAt ?? .max)
    }

    private func state(of chapter: WebStrand.Chapter, at instant: Int64) -> RecordState {
        if let withdrawal = chapter.takenBackAt, withdrawal <= instant { return .revoked }
        let end = chapter.end ?? .max
        if let endedAt = story.endedAt, endedAt < end, endedAt <= instant { return .expired }
        if instant < end { return .active }
        if chapter.isReplaced { return .expired }
        guard let item = strand.item else { return instant < end + leeway ? .active : .expired }
        let isSimplyOver = bridge(item, from: end, at: end) == .simplyOver
        if isSimplyOver, instant < end + leeway { return .active }
        switch bridge(item, from: end, at: instant) {
        case .reads(let state): return state
        case .simplyOver: return .expired
        }
    }

    /// What holds after what was paid for, leeway aside.
    private enum Bridge: Equatable {
        case reads(RecordState)
        /// Nothing was to follow.
        case simplyOver
    }

    private func bridge(_ item: String, from end: Int64, at instant: Int64) -> Bridge {
        if let yieldsAt = strand.yieldsAt, yieldsAt <= instant { return .reads(.expired) }
        if instant >= end + Self.givenUp { return .reads(.expired) }
        if let endedAt = story.endedAt, endedAt <= instant { return .simplyOver }
        let words = story.statements.filter { $0.created >= end }
        guard let first = words.first else {
            guard let last = story.statements.last, isToGoOn(last, item, end),
                last.standing == .goesOn || last.standing == .pastDue
            else { return .simplyOver }
            return .reads(instant < end + Self.unheard ? .active : .expired)
        }
        let word = words.last { $0.created <= instant } ?? first
        let periodEnd = periodEnd(word, item, end)
        if word.standing == .over || word.standing != .paused && periodEnd == nil { return .simplyOver }
        if word.standing == .goesOn, !isToGoOn(word, item, end), periodEnd ?? 0 <= end { return .simplyOver }
        return .reads(say(word, of: item, since: end, at: instant))
    }

    /// Whether another period of an item was to follow.
    private func isToGoOn(_ statement: WebStory.Statement, _ item: String, _ end: Int64) -> Bool {
        guard let periodEnd = periodEnd(statement, item, end) else { return false }
        return statement.isToEndAt.map { periodEnd < $0 } ?? true
    }

    /// When the period of an item is over, or of what came in its place; nil where it has neither.
    private func periodEnd(_ statement: WebStory.Statement, _ item: String, _ end: Int64) -> Int64? {
        ([item] + story.heirs(of: item, after: end)).lazy.compactMap { statement.periodEnds[$0] }.first
    }

    private func say(
        _ statement: WebStory.Statement, of item: String, since end: Int64, at instant: Int64
    ) -> RecordState {
        switch statement.standing {
        case .paused, .over: return .expired
        case .goesOn, .pastDue, .unpaid: break
        }
        guard let periodEnd = periodEnd(statement, item, end) else { return .expired }
        switch statement.standing {
        case .paused, .over: return .expired
        case .unpaid: return .inBillingRetry
        case .pastDue: return instant < end + grace ? .inGracePeriod : .inBillingRetry
        case .goesOn:
            if periodEnd <= end { return instant < end + Self.unheard ? .active : .expired }
            return instant < min(end + Self.pending, periodEnd) ? .active : .inBillingRetry
        }
    }
}
