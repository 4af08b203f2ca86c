/// What was known of purchases earlier, which facts do not say: of what is stated again and again they keep the newest, and
/// of an owner they do not say since when.
package struct PurchaseHearings: Sendable {
    private let events: [HistoryEvent]

    /// - Parameter events: all that bear on a customer, in the order of their positions.
    package init(_ events: [HistoryEvent]) { self.events = events }

    /// What was known of one original transaction, whoever's it was, and of who owned what, after each event up to a position.
    ///
    /// It goes through all events, so it is asked only where the answer decides something.
    ///
    /// - Parameters:
    ///   - instant: when the position was read.
    ///   - catalog: what is sold; that of today, for it says what a period gives.
    package func moments(
        of originalTransactionID: String, knownAt position: Int64, at instant: Timestamp, under catalog: Catalog
    ) -> PurchaseMoments {
        PurchaseMoments(
            events.filter { event in
                guard event.position <= position else { return false }
                if case .link = event.fact { return true }
                return event.fact.originalTransactionID == originalTransactionID
            }, originalTransactionID, until: instant, under: catalog)
    }
}

/// What was known of one original transaction, event by event.
package struct PurchaseMoments: Sequence, IteratorProtocol {
    package struct Moment {
        /// Of the one original transaction; about nobody.
        package let facts: CustomerFacts
        package let state: OriginalState
        /// From when it was known until something else was.
        package let span: ClosedRange<Timestamp>
    }

    private let events: [HistoryEvent]
    private let originalTransactionID: String
    private let end: Timestamp
    private let catalog: Catalog
    private var index = 0
    private var state = OriginalState()
    private var ownership = OwnershipMap()

    fileprivate init(
        _ events: [HistoryEvent], _ originalTransactionID: String, until end: Timestamp, under catalog: Catalog
    ) {
        (self.events, self.originalTransactionID) = (events, originalTransactionID)
        (self.end, self.catalog) = (end, catalog)
    }

    package mutating func next() -> Moment? {
        guard index < events.count else { return nil }
        let event = events[index]
        index += 1
        ownership.apply(event.fact, position: event.position, recordedAt: event.recordedAt)
        if event.fact.originalTransactionID == originalTransactionID {
            state.join(
                event.fact, originalTransactionID: originalTransactionID, source: event.statementSource,
                position: event.position)
        }
        let facts = CustomerFacts(
            customer: IdentityRef(0), originals: [originalTransactionID: state], ownership: ownership, catalog: catalog)
        let until = index < events.count ? events[index].recordedAt : end
        return Moment(facts: facts, state: state, span: event.recordedAt...Swift.max(event.recordedAt, until))
    }
}
