/// An event as Stripe keeps it: what happened to which object, and how that was then.
package struct StripeEventEntry: Sendable, Equatable {
    /// `evt_…`.
    package let id: String
    package let type: String
    /// In whole seconds, as milliseconds since 1970.
    package let created: Int64
    package let object: StripeObject
    package let isLive: Bool
    /// The version of the API in which the event is listed for ever.
    package let shape: StripeShape
    /// What asked for it; nil for what Stripe did by itself.
    let request: String?
}

/// Everything that one mode of a Stripe account ever held: each object as it was at each instant, and all events.
package struct StripeBooks: Sendable {
    private struct Version: Sendable {
        let instant: Int64
        let object: StripeObject
    }

    private var versions: [String: [Version]] = [:]
    /// The ids of each collection, the oldest first.
    private var ids: [String: [String]] = [:]
    /// In the order in which they were told.
    package private(set) var events: [StripeEventEntry] = []

    package init() {}

    mutating func keep(_ object: StripeObject, at instant: Int64) {
        if versions[object.id] == nil { ids[object.collection, default: []].append(object.id) }
        let known = versions[object.id] ?? []
        let index = known.lastIndex { $0.instant <= instant }.map { $0 + 1 } ?? 0
        versions[object.id, default: []].insert(Version(instant: instant, object: object), at: index)
    }

    mutating func add(_ event: StripeEventEntry) { events.append(event) }

    /// An object as it was at an instant; nil before it was made.
    package func object(_ id: String, at instant: Int64) -> StripeObject? {
        versions[id]?.last { $0.instant <= instant }?.object
    }

    /// The objects of a collection as they were at an instant, the newest first.
    package func objects(of collection: String, at instant: Int64) -> [StripeObject] {
        let known = ids[collection] ?? []
        let born = known.compactMap { id in versions[id]?.first.map { (id, $0.instant) } }.filter { $0.1 <= instant }
        return born.enumerated().sorted { ($0.element.1, $0.offset) > ($1.element.1, $1.offset) }
            .compactMap { object($0.element.0, at: instant) }
    }

    /// The events up to an instant, the newest first.
    package func events(until instant: Int64) -> [StripeEventEntry] {
        events.filter { $0.created <= instant }.enumerated()
            .sorted { ($0.element.created, $0.offset) > ($1.element.created, $1.offset) }.map(\.element)
    }

    /// What else of the books follows another's; their ids must not meet.
    package mutating func merge(_ other: StripeBooks) {
        versions.merge(other.versions) { _, _ in preconditionFailure("two accounts have one object") }
        for (collection, others) in other.ids { ids[collection, default: []] += others }
        events += other.events
    }
}
