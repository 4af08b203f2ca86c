/// A purchase on the web that names somebody beside its owner.
struct WebRivalry: Hashable, Sendable {
    let originalTransactionID: String
    /// Who it was sold to, or given to when it named nobody; links not followed.
    let owner: IdentityRef
    let rival: IdentityRef
    /// It was given to the owner before anybody was named.
    let isGiven: Bool
    /// The event by which the rival became known.
    let event: HistoryEvent
}

extension CustomerHistory {
    /// The rivalries that the events of some originals state, in which the owner or the rival is one of these people.
    static func rivalries(
        in groups: [String?: [HistoryEvent]], over identities: Set<IdentityRef>
    ) -> [WebRivalry] {
        groups.flatMap { original, events -> [WebRivalry] in
            guard let original else { return [] }
            var sold = WebOriginal(original)
            var known: [IdentityRef: HistoryEvent] = [:]
            if let gift = gift(in: events) {
                for event in events where gift.position < event.position {
                    guard case .web(let fact) = event.fact else { continue }
                    for owner in fact.owners where known[owner.customer] == nil { known[owner.customer] = event }
                }
                return known.filter { $0.key != gift.receiver }.filter {
                    identities.contains(gift.receiver) || identities.contains($0.key)
                }.map { rival, event in
                    WebRivalry(
                        originalTransactionID: original, owner: gift.receiver, rival: rival, isGiven: true, event: event
                    )
                }
            }
            for event in events {
                sold.join(event.fact, position: event.position)
                guard event.fact.bearsOnOwner else { continue }
                let rivals = sold.contradictingOwners
                known = known.filter { rivals.contains($0.key) }
                for rival in rivals where known[rival] == nil { known[rival] = event }
            }
            guard let owner = sold.statedOwner else { return [] }
            return known.filter { identities.contains(owner) || identities.contains($0.key) }.map { rival, event in
                WebRivalry(
                    originalTransactionID: original, owner: owner, rival: rival, isGiven: false, event: event)
            }
        }.sorted { ($0.event.position, $0.rival) < ($1.event.position, $1.rival) }
    }

    /// The customer to whom an original without an owner was transferred, where that transfer is in force.
    private static func gift(in events: [HistoryEvent]) -> (receiver: IdentityRef, position: Int64)? {
        var standing: [(fact: TransferFact, position: Int64)] = []
        for event in events {
            switch event.fact {
            case .transfer(let fact): standing.append((fact, event.position))
            case .transferUndo(let undo): if standing.last?.position == undo.undoes { standing.removeLast() }
            case .notification, .statements, .catalog, .link, .claim, .conflict, .grant, .grantRevocation, .drift,
                .forgetting, .access, .storeRequest, .web:
                continue
            }
        }
        guard let last = standing.last, last.fact.hadNoOwner else { return nil }
        return (last.fact.customer, last.position)
    }
}

extension LedgerFact {
    /// Whether it says whom a purchase on the web names, or that one of these was forgotten.
    fileprivate var bearsOnOwner: Bool {
        switch self {
        case .web(let fact): !fact.owners.isEmpty
        case .forgetting: true
        case .notification, .statements, .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant,
            .grantRevocation, .drift, .access, .storeRequest:
            false
        }
    }
}
