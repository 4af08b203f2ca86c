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
    /// Everybody whom any link, in force or not, connects with the customer; the fold may need their events.
    ///
    /// Those who are not among ``person`` are other customers now.
    package let identities: Set<IdentityRef>
    /// All events of the environment, whomever they are about.
    private let recorded: [HistoryEvent]
    /// Those of them that are about the app that was asked for, or hold in every app.
    private let known: [HistoryEvent]

    /// Keeps what bears on the customer in the environment at or before `position`; `events` may hold more than that.
    ///
    /// - Parameter app: keeps only what is about this app, or holds in every app.
    package init(
        of customer: IdentityRef?, environment: StoreEnvironment, position: Int64, events: [HistoryEvent],
        app: AppScope? = nil
    ) {
        let recorded = Self.recorded(events, in: environment, upTo: position)
        self.init(
            of: customer, environment: environment, position: position, recorded: recorded,
            // Of all links, also of those that the app's part leaves out: these give nothing in this app to anybody.
            identities: Self.identities(linkedTo: customer, by: recorded),
            known: app?.part(of: recorded, about: customer) ?? recorded)
    }

    /// The events of an environment up to a position, in their order.
    static func recorded(
        _ events: [HistoryEvent], in environment: StoreEnvironment, upTo position: Int64
    ) -> [HistoryEvent] {
        events.filter {
            $0.position <= position && ($0.environment == nil || $0.environment == environment)
        }.sorted { $0.position < $1.position }
    }

    /// - Parameters:
    ///   - recorded: the events of the environment up to the position, in their order.
    ///   - identities: everybody whom links in them connect with the customer.
    ///   - known: those of them that are believed.
    init(
        of customer: IdentityRef?, environment: StoreEnvironment, position: Int64, recorded: [HistoryEvent],
        identities: Set<IdentityRef>, known: [HistoryEvent]
    ) {
        self.customer = customer
        self.environment = environment
        self.position = position
        (self.recorded, self.identities, self.known) = (recorded, identities, known)
        let catalogs = known.filter { $0.catalog != nil }.suffix(Self.catalogLimit)
        let shared = Self.groups(of: known).filter { $0.key != nil && Self.isShared($0.value, by: identities) }
        self.events = known.filter { event in
            if event.catalog != nil { return event.position >= catalogs.first?.position ?? 0 }
            return shared[event.fact.originalTransactionID] != nil || event.fact.isWord(ofAny: identities)
        }
    }

    static func identities(linkedTo customer: IdentityRef?, by events: [HistoryEvent]) -> Set<IdentityRef> {
        guard let customer else { return [] }
        var neighbours: [IdentityRef: [IdentityRef]] = [:]
        for event in events {
            guard case .link(let link) = event.fact else { continue }
            neighbours[link.identity, default: []].append(link.customer)
            neighbours[link.customer, default: []].append(link.identity)
        }
        var found: Set<IdentityRef> = [customer]
        var frontier = [customer]
        while let next = frontier.popLast() {
            for neighbour in neighbours[next] ?? [] where found.insert(neighbour).inserted {
                frontier.append(neighbour)
            }
        }
        return found
    }

    /// Everybody who is this customer by the links in force at the position.
    package var person: Set<IdentityRef> {
        guard let customer, identities.count > 1 else { return identities }
        var links = OwnershipMap()
        for event in recorded {
            if case .link = event.fact {
                links.apply(event.fact, position: event.position, recordedAt: event.recordedAt)
            }
        }
        let whose = links.customer(of: customer)
        return identities.filter { links.customer(of: $0) == whose }
    }

    /// Web purchases that name the customer beside their owner, or name somebody else beside the customer as their
    /// owner; links and transfers may have settled it since.
    var rivalries: [WebRivalry] { Self.rivalries(in: Self.groups(of: known), over: identities) }

    private static func groups(of events: [HistoryEvent]) -> [String?: [HistoryEvent]] {
        Dictionary(grouping: events) { $0.fact.originalTransactionID }
    }

    /// The events that may be handed out: those of people who were linked with the customer once, and are other
    /// customers now, are left out.
    ///
    /// Links are always kept, because they name nobody but by numbers, and without the undone ones the others would
    /// fold to another answer.
    package var handedOut: [HistoryEvent] {
        let person = person
        guard person != identities else { return events }
        let shared = Self.groups(of: events).filter { $0.key != nil && Self.isShared($0.value, by: person) }
        return events.filter { event in
            if case .link = event.fact { return true }
            return event.catalog != nil || shared[event.fact.originalTransactionID] != nil
                || event.fact.isWord(ofAny: person)
        }
    }

    /// Whether the customer has, or had, a part in the original transaction whose events these are.
    ///
    /// A claim gives no part in a purchase that bears somebody else's identity or that another claimed first, so the
    /// claimant is shown nothing of it.
    private static func isShared(_ events: [HistoryEvent], by identities: Set<IdentityRef>) -> Bool {
        var firstClaim: IdentityRef?
        var bearsNoIdentity = false
        var sold: WebOriginal?
        for event in events {
            switch event.fact {
            case .notification, .statements:
                if event.fact.transactions.contains(where: { $0.statedOwner == nil }) { bearsNoIdentity = true }
                if event.fact.isWord(ofAny: identities) { return true }
            case .transfer(let fact):
                if identities.contains(fact.customer) { return true }
            case .claim(let fact):
                firstClaim = firstClaim ?? fact.customer
            case .web, .forgetting:
                sold = sold ?? event.fact.originalTransactionID.map { WebOriginal($0) }
                sold?.join(event.fact, position: event.position)
            case .catalog, .link, .transferUndo, .conflict, .grant, .grantRevocation, .drift, .access, .storeRequest:
                continue
            }
        }
        if let owner = sold?.statedOwner { return identities.contains(owner) }
        return bearsNoIdentity && (firstClaim.map { identities.contains($0) } ?? false)
    }

    /// Whether anything at all is known of the customer here, if only that a web purchase of another's names them.
    package var knowsCustomer: Bool {
        if events.contains(where: { $0.catalog == nil }) { return true }
        let person = person
        return known.contains { event in
            guard case .web(let fact) = event.fact else { return false }
            return fact.owners.contains { person.contains($0.customer) }
        }
    }

    /// The catalogs, oldest first; the last is in force.
    package var catalogs: [(event: HistoryEvent, catalog: Catalog)] {
        events.compactMap { event in event.catalog.map { (event, $0) } }
    }

    /// What the events say: all of them, or only those at the positions given.
    package func facts(believing positions: Set<Int64>? = nil) -> CustomerFacts {
        CustomerFacts(
            folding: positions.map { believed in events.filter { believed.contains($0.position) } } ?? events,
            of: customer)
    }
}

extension CustomerFacts {
    /// What some events say, in the order of their positions.
    ///
    /// - Parameter asked: who was asked about, links not followed.
    init(folding events: [HistoryEvent], of asked: IdentityRef?) {
        var originals: [String: OriginalState] = [:]
        var grants = GrantBook()
        var ownership = OwnershipMap()
        var catalog = Catalog.empty
        for event in events {
            if let originalID = event.fact.originalTransactionID {
                originals[originalID, default: OriginalState()].join(
                    event.fact, originalTransactionID: originalID, source: event.statementSource,
                    position: event.position)
            }
            ownership.apply(event.fact, position: event.position, recordedAt: event.recordedAt)
            grants.apply(event.fact, position: event.position, recordedAt: event.recordedAt)
            if case .catalog(let applied) = event.fact { catalog = applied }
        }
        self.init(
            customer: ownership.customer(of: asked ?? IdentityRef(0)), originals: originals,
            grants: Array(grants.grants.values), ownership: ownership, catalog: catalog)
    }
}

extension LedgerFact {
    /// The identities that the fact itself is about; of a transaction the account token, else the app transaction id.
    package var subjects: [IdentityRef] {
        switch self {
        case .notification, .statements:
            transactions.compactMap(\.statedOwner) + [appTransaction].compactMap(\.self)
        case .link(let fact): [fact.identity, fact.customer]
        case .claim(let fact): [fact.customer]
        case .transfer(let fact): [fact.customer]
        case .conflict(let fact): [fact.claimant]
        case .grant(let fact): [fact.customer]
        case .grantRevocation(let fact): [fact.customer]
        case .drift(let fact): [fact.customer]
        // It may name somebody who is not the owner; only everything that is known of the original tells.
        case .web: []
        case .catalog, .transferUndo, .forgetting, .access, .storeRequest: []
        }
    }

    fileprivate func isWord(ofAny identities: Set<IdentityRef>) -> Bool {
        subjects.contains(where: identities.contains)
    }
}
