@testable import EntitlementCore

/// What a test's log holds, in order.
enum Entry {
    case statement(Statement)
    case fact(LedgerFact, recorded: Double)

    func event(at position: Int64) -> HistoryEvent {
        switch self {
        case .statement(.transaction(let fact, let source)):
            return HistoryEvent(
                notifying: fact, nil, source: source, position: position, signed: fact.signedDate)
        case .statement(.renewal(let fact, let source)):
            return HistoryEvent(
                notifying: nil, fact, source: source, position: position, signed: fact.signedDate)
        case .fact(let fact, let recorded):
            let isCatalog = if case .catalog = fact { true } else { false }
            return HistoryEvent(
                position: position, recordedAt: day(recorded), environment: isCatalog ? nil : .production,
                source: "api", statementSource: .notification, type: "told", occurredAt: nil, fact: fact)
        }
    }
}

extension HistoryEvent {
    init(
        notifying transaction: TransactionFact?, _ renewal: RenewalFact?, source: StatementSource, position: Int64,
        signed: Timestamp?
    ) {
        self.init(
            position: position, recordedAt: signed ?? day(0), environment: .production,
            source: "app_store_notification", statementSource: source, type: "told", occurredAt: signed,
            fact: .notification(
                NotificationFact(
                    type: "TEST", subtype: nil, uuid: "uuid-\(position)", signedDate: signed, payloadHash: .zero,
                    bundleID: "com.example", transaction: transaction, renewal: renewal, remarks: [])))
    }
}

extension CustomerHistory {
    /// The tests' catalog at position 1, and what is told from position 2 on.
    init(of customer: IdentityRef = alice, policy: AccessPolicy = AccessPolicy(), _ told: [Entry]) {
        let all = [Entry.fact(.catalog(Catalog(products: products, policy: policy)), recorded: -10)] + told
        let events = all.enumerated().map { $1.event(at: Int64($0 + 1)) }
        self.init(of: customer, environment: .production, position: Int64(events.count), events: events)
    }

    func explanation(at instant: Double, _ entitlementID: String = "premium") -> Explanation {
        Explainer(self, at: day(instant)).explanation(of: entitlementID)
    }
}

extension Explanation {
    var cited: [Int64] { events.map(\.position) }
}

func granted(_ id: String = "g1", until: Double? = nil, to customer: IdentityRef = alice) -> LedgerFact {
    .grant(
        GrantFact(
            grantID: id, customer: customer, entitlementID: "premium", until: until.map { day($0) },
            reason: "for alice@example.com"))
}

func takenBack(_ id: String = "g1", from customer: IdentityRef = alice) -> LedgerFact {
    .grantRevocation(GrantRevocationFact(grantID: id, customer: customer, reason: "a mistake"))
}
