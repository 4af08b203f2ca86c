/// Tells whether what the store said when it was asked is something that the ledger should have heard before.
package enum StoreDrift {
    /// Why an event is a difference between store and ledger; `nil` where it is none.
    ///
    /// What happened before the ledger listened to an app's stream is history, and no difference.
    ///
    /// - Parameters:
    ///   - before: what was known of the original transaction before the event; `nil` where nothing was.
    ///   - since: since when the ledger has listened.
    package static func cause(
        of fact: LedgerFact, occurredAt: Timestamp?, before: OriginalState?, listeningSince since: Timestamp
    ) -> DriftCause? {
        switch fact {
        case .notification(let notification):
            // A notification that is about no purchase changes nobody's access.
            guard fact.originalTransactionID != nil, let date = occurredAt ?? notification.signedDate, date >= since
            else { return nil }
            return .foundInHistory
        case .statements(let statements):
            let isRecent = statements.transactions.contains { transaction in
                transaction.purchaseDate >= since || (transaction.revocation.map { $0.date >= since } ?? false)
            }
            guard let before, !before.transactions.isEmpty else { return isRecent ? .foundWhenAsked : nil }
            let isTold = !before.renewals.isEmpty && !statements.renewals.isEmpty
            guard isRecent || isTold else { return nil }
            var after = before
            after.join(
                fact, originalTransactionID: statements.originalTransactionID, source: .serverAPI,
                position: before.lastPosition)
            return after.tellsOtherwise(than: before) ? .foundWhenAsked : nil
        case .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift,
            .forgetting, .access, .storeRequest, .web:
            return nil
        }
    }

    /// Whether a notification that was delivered is what a question to the store had brought before.
    ///
    /// - Parameters:
    ///   - found: what was recorded when the store was asked.
    ///   - foundAt: when.
    package static func isDelivered(_ found: LedgerFact, foundAt: Timestamp, by notification: HistoryEvent) -> Bool {
        guard notification.statementSource == .notification, case .notification = notification.fact,
            let date = notification.occurredAt, date <= foundAt
        else { return false }
        let transactions = Set(found.transactions.map(\.transactionID))
        return transactions.isEmpty
            || notification.fact.transactions.contains { transactions.contains($0.transactionID) }
    }
}

extension OriginalState {
    /// Whether anything reads otherwise than by another state, the events that it rests on aside.
    fileprivate func tellsOtherwise(than other: OriginalState) -> Bool {
        func read(_ state: OriginalState) -> [[Segment]] {
            state.chains(.empty).map { chain in
                state.segments(of: chain, policy: Catalog.empty.policy).map { segment in
                    var segment = segment
                    segment.positions = []
                    return segment
                }
            }
        }
        func products(_ state: OriginalState) -> [[String]] {
            state.chains(.empty).map { $0.periods.map(\.fact.productID) }
        }
        if read(self) != read(other) || products(self) != products(other) { return true }
        guard let old = other.renewals.last?.fact, let new = renewals.last?.fact else { return false }
        return RenewalContent(old) != RenewalContent(new)
    }
}
