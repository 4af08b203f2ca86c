package import EntitlementCore

/// When the ledger heard what RevenueCat says it detected: the instants at which the events that said so were recorded.
///
/// What an event stated may have been stated again since, in words signed anew; the first hearing counts.
package struct Hearings: Sendable {
    private struct Refund: Hashable {
        let transactionID: String
        /// From when on it is refunded.
        let date: Timestamp
    }

    private var recordedAt: [Int64: Timestamp] = [:]
    private var refunds: [Refund: Timestamp] = [:]
    /// When something that was bought or given was first heard of, and last; `nil` where nothing was.
    private(set) var seen: ClosedRange<Timestamp>?

    /// - Parameters:
    ///   - events: all from which the facts are folded.
    ///   - own: those of them that are the customer's.
    package init(_ events: [HistoryEvent], own: [HistoryEvent]) {
        for event in events {
            recordedAt[event.position] = event.recordedAt
            for transaction in event.fact.transactions {
                guard let revocation = transaction.revocation else { continue }
                hear(transaction.transactionID, revocation.date, event)
            }
            if case .web(let fact) = event.fact, let original = fact.originalTransactionID {
                for refund in fact.refunds where refund.status == .known(.succeeded) {
                    hear(original, refund.created, event)
                }
            }
        }
        for event in own where event.fact.isOfPurchaseOrGrant {
            let (first, last) = (seen?.lowerBound ?? .endless, seen?.upperBound ?? .earliest)
            seen = min(first, event.recordedAt)...max(last, event.recordedAt)
        }
    }

    private mutating func hear(_ transactionID: String, _ date: Timestamp, _ event: HistoryEvent) {
        let refund = Refund(transactionID: transactionID, date: date)
        refunds[refund] = min(refunds[refund] ?? .endless, event.recordedAt)
    }

    /// When the first of some statements was heard.
    func first(of statements: [Told]) -> Timestamp? {
        statements.map { recordedAt[$0.position] ?? $0.statedAt }.min()
    }

    /// When the refund of a period was heard of; `nil` where it was not.
    func refund(of period: Period) -> Timestamp? {
        guard let revocation = period.fact.revocation else { return nil }
        let ids = period.web == nil ? period.transactionIDs : [period.fact.originalTransactionID]
        return ids.compactMap { refunds[Refund(transactionID: $0, date: revocation.date)] }.min()
    }
}

/// What a statement said, and where the log has it.
struct Told {
    let position: Int64
    let statedAt: Timestamp
}

extension LedgerFact {
    /// Whether it is about something bought or given; a link alone says only who somebody is.
    fileprivate var isOfPurchaseOrGrant: Bool {
        switch self {
        case .grant, .grantRevocation: true
        case .notification, .statements, .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .drift,
            .forgetting, .access, .storeRequest, .web:
            originalTransactionID != nil
        }
    }
}
