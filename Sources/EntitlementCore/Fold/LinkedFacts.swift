/// What was known, at a position, of people whom links connect, in force or not; it is folded once for all of them.
///
/// A fact about one of them is a fact about each of them, so they share one fold, which is read for each customer.
/// Where only one app's part of the log is believed, the links that are left in it may differ, and each set of links
/// has a fold of its own.
package struct LinkedFacts: Sendable {
    /// Identities with an equal group share one fold.
    private struct Group: Hashable, Sendable {
        /// Everybody whom links up to the position connect with them.
        let identities: Set<IdentityRef>
        /// The identities whose links are believed; `nil`: all.
        let linked: Set<IdentityRef>?
    }

    private let environment: StoreEnvironment
    private let position: Int64
    private let recorded: [HistoryEvent]
    private let part: AppScope.Part?
    /// Everybody whom links connect, under each of their identities.
    private var identities: [IdentityRef: Set<IdentityRef>] = [:]
    private var numbers: [Group: Int] = [:]
    private var folded: [CustomerFacts] = []

    /// - Parameters:
    ///   - events: all that bears on any of them, and possibly more.
    ///   - app: as in ``CustomerHistory``.
    package init(
        environment: StoreEnvironment, position: Int64, events: [HistoryEvent], app: AppScope? = nil
    ) {
        (self.environment, self.position) = (environment, position)
        recorded = CustomerHistory.recorded(events, in: environment, upTo: position)
        part = app.map { [recorded] in AppScope.Part(of: recorded, scope: $0) }
    }

    /// The facts about one of them, as ``CustomerHistory`` gives them for that customer alone.
    ///
    /// - Returns: the facts, and the number of their fold: where it is the same, the facts differ only in the customer.
    package mutating func facts(of identity: IdentityRef) -> (facts: CustomerFacts, group: Int) {
        let group = Group(identities: people(around: identity), linked: part?.linked(with: identity))
        let number: Int
        if let known = numbers[group] {
            number = known
        } else {
            let history = CustomerHistory(
                of: identity, environment: environment, position: position, recorded: recorded,
                identities: group.identities,
                known: group.linked.flatMap { linked in part?.events(linkedBy: linked) } ?? recorded)
            number = folded.count
            folded.append(history.facts())
            numbers[group] = number
        }
        var facts = folded[number]
        facts.customer = facts.ownership.customer(of: identity)
        return (facts, number)
    }

    private mutating func people(around identity: IdentityRef) -> Set<IdentityRef> {
        if let known = identities[identity] { return known }
        let found = CustomerHistory.identities(linkedTo: identity, by: recorded)
        for name in found { identities[name] = found }
        return found
    }
}
