/// Which items of a subscription took the place of others when the time that was paid for those was over.
///
/// Another price may come with another item: one is deleted and one added in the same update. What was paid for is then of
/// one item, and what is due next of the other, though it is one subscription that goes on.
struct WebHeirs {
    private var heirs: [String: Set<String>] = [:]

    /// - Parameter chains: what was paid for of each item.
    init(of chains: [String?: [WebDraft]], _ history: [WebStated<WebSubscription>]) {
        for (item, drafts) in chains {
            guard let item, let end = drafts.map(\.end).max() else { continue }
            var found: Set<String> = []
            var frontier = [item]
            while let next = frontier.popLast() {
                for heir in Self.replacements(of: next, in: history) where heir != item {
                    // What was paid for already runs beside it, and follows nothing.
                    guard chains[heir]?.allSatisfy({ end <= $0.start }) ?? true else { continue }
                    if found.insert(heir).inserted { frontier.append(heir) }
                }
            }
            if !found.isEmpty { heirs[item] = found }
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

    /// What took an item's place and was not paid for before that one's time was over, and what took the place of such.
    func heirs(of item: String?) -> Set<String> { item.flatMap { heirs[$0] } ?? [] }

    /// Whether an item took another's place in this way.
    func isHeir(_ item: String?) -> Bool {
        guard let item else { return false }
        return heirs.values.contains { $0.contains(item) }
    }
}
