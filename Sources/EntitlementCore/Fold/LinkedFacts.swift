/// What was known at a position of some people whom links, ever made, connect with one another: folded once for all of them.
///
/// What bears on one of them bears on the others, since links lead in both directions. So the facts of each are the others', read
/// for another; only where an app's part alone is believed, the links that are left in it may differ.
package struct LinkedFacts: Sendable {
    /// What names have in common whose facts are one fold.
    private struct Group: Hashable, Sendable {
        /// Everybody whom links that were made by then connect with them.
        let identities: Set<IdentityRef>
        /// Whose links are believed; `nil`: everybody's.
        let linked: Set<IdentityRef>?
    }

    private let environment: StoreEnvironment
    private let position: Int64
    private let recorded: [HistoryEvent]
    private let part: AppScope.Part?
    /// Everybody whom links connect, by each of their names.
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

    /// What was known of one of them: what ``CustomerHistory`` says of them alone.
    ///
    /// - Returns: the facts, and a number that those have in common whose facts are alike but for the customer.
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
