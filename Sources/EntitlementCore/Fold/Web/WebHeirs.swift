/// Which items of a subscription replaced other items whose paid time was over.
///
/// A change of price may delete one item and add another in the same update. Then the paid time belongs to the first
/// item and the next invoice to the second, though it is one subscription that goes on.
struct WebHeirs {
    /// When the paid time of each item begins first, and ends last.
    private let spans: [String: (start: Timestamp, end: Timestamp)]
    /// The items that took each one's place, of those that were paid for.
    private var successors: [String: Set<String>] = [:]

    /// - Parameter chains: the paid lines of each item.
    init(of chains: [String?: [WebDraft]], _ history: [WebStated<WebSubscription>]) {
        var spans: [String: (start: Timestamp, end: Timestamp)] = [:]
        for (item, drafts) in chains {
            guard let item, let start = drafts.first?.start, let end = drafts.last?.end else { continue }
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

    /// The items that the first statement without this item lists, and the last statement with it did not.
    private static func replacements(
        of item: String, in history: [WebStated<WebSubscription>]
    ) -> Set<String> {
        let last = history.lastIndex { $0.value.holds(item) }
        let first = last.map { $0 + 1 } ?? history.startIndex
        guard first < history.endIndex else { return [] }
        let before = Set(last.map { history[$0].value.items.map(\.item) } ?? [])
        return Set(history[first].value.items.map(\.item)).subtracting(before)
    }

    /// The items that replaced an item and were not paid for before `end`, at which one of its periods ends; and the
    /// items that replaced those.
    func heirs(of item: String?, after end: Timestamp) -> Set<String> {
        guard let item, successors[item]?.isEmpty == false else { return [] }
        var found: Set<String> = []
        var frontier = [item]
        while let next = frontier.popLast() {
            for heir in successors[next] ?? [] where heir != item {
                // An item that was paid for already runs beside this one, and does not follow it.
                guard spans[heir].map({ end <= $0.start }) ?? true else { continue }
                if found.insert(heir).inserted { frontier.append(heir) }
            }
        }
        return found
    }

    /// The same for the end of all paid time of the item.
    func heirs(of item: String?) -> Set<String> {
        item.flatMap { spans[$0] }.map { heirs(of: item, after: $0.end) } ?? []
    }

    /// Every item that replaced others in this way and was paid for, with the items that it replaced, in the order in
    /// which their paid times begin.
    var predecessors: [(heir: String, items: [String])] {
        var found: [String: [String]] = [:]
        for item in spans.keys {
            for heir in heirs(of: item) where spans[heir] != nil { found[heir, default: []].append(item) }
        }
        func start(_ heir: String) -> Timestamp { spans[heir]?.start ?? .endless }
        return found.sorted { (start($0.key), $0.key) < (start($1.key), $1.key) }.map { ($0.key, $0.value) }
    }
}
