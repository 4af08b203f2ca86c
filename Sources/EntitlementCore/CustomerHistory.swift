/// An event as an explanation cites it.
package struct HistoryEvent: Hashable, Sendable {
    package let position: Int64
    package let recordedAt: Timestamp
    /// `nil` for what concerns no environment, or all of them.
    package let environment: StoreEnvironment?
    /// Who stated it, in the log's own word.
    package let source: String
    /// Whose word its signed statements are.
    package let statementSource: StatementSource
    /// The ledger's label; it decides nothing.
    package let type: String
    /// The statement's own signed date.
    package let occurredAt: Timestamp?
    package let fact: LedgerFact
    package let evidenceHash: Digest?

    package init(
        position: Int64, recordedAt: Timestamp, environment: StoreEnvironment?, source: String,
        statementSource: StatementSource, type: String, occurredAt: Timestamp?, fact: LedgerFact,
        evidenceHash: Digest? = nil
    ) {
        self.position = position
        self.recordedAt = recordedAt
        self.environment = environment
        self.source = source
        self.statementSource = statementSource
        self.type = type
        self.occurredAt = occurredAt
        self.fact = fact
        self.evidenceHash = evidenceHash
    }

    var catalog: Catalog? {
        if case .catalog(let catalog) = fact { catalog } else { nil }
    }
}

/// The events that bear on one customer in one environment, up to some position.
///
/// Facts are folded from all of them or from any part of them by the same code, wherever they were read from.
package struct CustomerHistory: Sendable {
    /// How many catalogs are kept: as far back as an explanation looks for the change that made a difference.
    package static let catalogLimit = 8

    /// Who was asked about, links not followed; `nil` for somebody the log does not know.
    package let customer: IdentityRef?
    package let environment: StoreEnvironment
    /// Up to where the log is believed.
    package let position: Int64
    /// In the order of their positions.
    package let events: [HistoryEvent]

    /// Keeps what concerns the environment and lies at or before `position`.
    package init(
        of customer: IdentityRef?, environment: StoreEnvironment, position: Int64, events: [HistoryEvent]
    ) {
        self.customer = customer
        self.environment = environment
        self.position = position
        let known = events.filter {
            $0.position <= position && ($0.environment == nil || $0.environment == environment)
        }.sorted { $0.position < $1.position }
        let catalogs = known.filter { $0.catalog != nil }.suffix(Self.catalogLimit)
        let first = catalogs.first?.position ?? 0
        self.events = known.filter { $0.catalog == nil || $0.position >= first }
    }

    /// Whether anything at all is known of the customer here.
    package var knowsCustomer: Bool { events.contains { $0.catalog == nil } }

    /// The catalogs, oldest first; the last is in force.
    package var catalogs: [(event: HistoryEvent, catalog: Catalog)] {
        events.compactMap { event in event.catalog.map { (event, $0) } }
    }

    /// What the events say: all of them, or only those at the positions given.
    package func facts(believing positions: Set<Int64>? = nil) -> CustomerFacts {
        var originals: [String: OriginalState] = [:]
        var grants: [String: GrantState] = [:]
        var ownership = OwnershipMap()
        var catalog = Catalog.empty
        for event in events where positions?.contains(event.position) ?? true {
            if let originalID = event.fact.originalTransactionID {
                originals[originalID, default: OriginalState()].join(
                    event.fact, originalTransactionID: originalID, source: event.statementSource,
                    position: event.position)
            }
            ownership.apply(event.fact, position: event.position, recordedAt: event.recordedAt)
            switch event.fact {
            case .catalog(let applied):
                catalog = applied
            case .grant(let fact):
                grants[fact.grantID] = GrantState(fact: fact, position: event.position, recordedAt: event.recordedAt)
            case .grantRevocation(let fact):
                // Once it is taken back nothing is left to take.
                if grants[fact.grantID]?.revokedAt == nil {
                    grants[fact.grantID]?.revokedAt = event.recordedAt
                    grants[fact.grantID]?.revokedPosition = event.position
                }
            case .notification, .link, .claim, .transfer:
                break
            }
        }
        return CustomerFacts(
            customer: ownership.customer(of: customer ?? IdentityRef(0)), originals: originals,
            grants: Array(grants.values), ownership: ownership, catalog: catalog)
    }
}
