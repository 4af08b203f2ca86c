// What could be known at an instant is not what the log held then: a notification that arrived late speaks of a time when
// nobody had heard it. So facts are also read without what had not happened yet.

extension CustomerHistory {
    /// The facts without what had not happened by an instant: later purchases, refunds, renewal statements and transfers.
    ///
    /// A statement that was signed later still counts for what had happened by then, unless an earlier one about the same
    /// transaction is known. A link counts whenever it was made, since it says whose something always was.
    ///
    /// - Parameter position: events from here on are left out.
    package func facts(asOf instant: Timestamp, before position: Int64 = .max) -> CustomerFacts {
        let events = self.events.prefix { $0.position < position }
        var spokenOf: Set<String> = []
        for event in events {
            for fact in event.fact.transactions where fact.isSigned(by: instant) { spokenOf.insert(fact.transactionID) }
        }
        func then(_ fact: TransactionFact) -> TransactionFact? {
            guard fact.purchaseDate <= instant, fact.isSigned(by: instant) || !spokenOf.contains(fact.transactionID)
            else { return nil }
            var fact = fact
            if let revocation = fact.revocation, revocation.date > instant { fact.revocation = nil }
            return fact
        }
        func then(_ fact: RenewalFact) -> RenewalFact? {
            (fact.signedDate ?? .earliest) <= instant ? fact : nil
        }
        var known: [HistoryEvent] = []
        for event in events {
            switch event.fact {
            case .notification(var fact):
                fact.transaction = fact.transaction.flatMap(then)
                fact.renewal = fact.renewal.flatMap(then)
                known.append(event.with(.notification(fact)))
            case .statements(var fact):
                fact.transactions = fact.transactions.compactMap(then)
                fact.renewals = fact.renewals.compactMap(then)
                known.append(event.with(.statements(fact)))
            case .transfer, .transferUndo:
                if event.recordedAt <= instant { known.append(event) }
            case .web(let fact):
                if fact.statedAt <= instant { known.append(event) }
            case .catalog, .link, .claim, .conflict, .grant, .grantRevocation, .drift, .forgetting, .access,
                .storeRequest:
                known.append(event)
            }
        }
        return CustomerFacts(folding: known, of: customer)
    }
}

extension TransactionFact {
    fileprivate func isSigned(by instant: Timestamp) -> Bool { (signedDate ?? .earliest) <= instant }
}

extension HistoryEvent {
    fileprivate func with(_ fact: LedgerFact) -> HistoryEvent {
        HistoryEvent(
            position: position, recordedAt: recordedAt, environment: environment, source: source,
            statementSource: statementSource, type: type, occurredAt: occurredAt, fact: fact, evidenceHash: evidenceHash
        )
    }
}
