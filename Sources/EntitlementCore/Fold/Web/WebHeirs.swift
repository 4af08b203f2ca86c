/// Which items of a subscription took the place of others when the time that was paid for those was over.
///
/// Another price may come with another item: one is deleted and one added in the same update. What was paid for is then of
/// one item, and what is due next of the other, though it is one subscription that goes on.
struct WebHeirs {
    /// When what was paid for of each item begins first, and ends.
    private let spans: [String: (start: Timestamp, end: Timestamp)]
    /// The items that took each one's place, of those that were paid for.
    private var successors: [String: Set<String>] = [:]

    /// - Parameter chains: what was paid for of each item.
    init(of chains: [String?: [WebDraft]], _ history: [WebStated<WebSubscription>]) {
        var spans: [String: (start: Timestamp, end: Timestamp)] = [:]
        for (item, drafts) in chains {
            guard let item, let start = drafts.map(\.start).min(), let end = drafts.map(\.end).max() else { continue }
            spans[item] = (start, end)
        }
        self.spans = spans
        var frontier = Array(spans.keys)
        while let item = frontier.popLast() {
            guard successors[item] == nil else { continue }
            let found = Self.replacements(of: item, in: history)
            successors[item] = found
            frontier += found
        }
    }

    /// What the first statement without an item has, and the last with it had not.
    private static func replacements(
        of item: String, in history: [WebStated<WebSubscription>]
    ) -> Set<String> {
        let last = history.lastIndex { $0.value.holds(item) }
        let first = last.map { $0 + 1 } ?? history.startIndex
        guard first < history.endIndex else { return [] }
        let before = Set(last.map { history[$0].value.items.map(\.item) } ?? [])
        return Set(history[first].value.items.map(\.item)).subtracting(before)
    }

    /// What took an item's place and was not paid for before an instant, at which one of that item's periods ends; and what
    /// took the place of such.
    func heirs(of item: String?, after end: Timestamp) -> Set<String> {
        guard let item, successors[item]?.isEmpty == false else { return [] }
        var found: Set<String> = []
        var frontier = [item]
        while let next = frontier.popLast() {
            for heir in successors[next] ?? [] where heir != item {
                // What was paid for already runs beside it, and follows nothing.
                guard spans[heir].map({ end <= $0.start }) ?? true else { continue }
                if found.insert(heir).inserted { frontier.append(heir) }
            }
        }
        return found
    }

    /// The same, when all that was paid for of the item itself was over.
    func heirs(of item: String?) -> Set<String> {
        item.flatMap { spans[$0] }.map { heirs(of: item, after: $0.end) } ?? []
    }

    /// The items that took others' places in this way and were paid for, in the order in which they began, each with the items
    /// whose place it took.
    var predecessors: [(heir: String, items: [String])] {
        var found: [String: [String]] = [:]
        for item in spans.keys {
            for heir in heirs(of: item) where spans[heir] != nil { found[heir, default: []].append(item) }
        }
        func start(_ heir: String) -> Timestamp { spans[heir]?.start ?? .endless }
        return found.sorted { (start($0.key), $0.key) < (start($1.key), $1.key) }.map { ($0.key, $0.value) }
    }
}
