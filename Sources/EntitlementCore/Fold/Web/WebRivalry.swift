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

extension Explainer {
    /// The web purchases that name this customer and another one, each with the last event by which that is known.
    var namedBesideOthers: [RefusedClaim] {
        var last: [String: RefusedClaim] = [:]
        for rivalry in history.rivalries {
            let (owner, rival) = (
                facts.ownership.customer(of: rivalry.owner), facts.ownership.customer(of: rivalry.rival)
            )
            guard owner != rival else { continue }
            let (id, date) = (rivalry.originalTransactionID, rivalry.event.recordedAt.inWords)
            let sentence: String
            if owner == facts.customer, facts.owns(id) {
                sentence =
                    rivalry.isGiven
                    ? "On \(date) it became known that the purchase \(id) names another customer; it was given to this one "
                        + "before, as nobody's. A transfer would give it to the other."
                    : "On \(date) it became known that the purchase \(id) names two customers. It belongs to this one, who is "
                        + "named where that counts more; a transfer would give it to the other."
            } else if rival == facts.customer, !facts.owns(id) {
                sentence =
                    rivalry.isGiven
                    ? "On \(date) it became known that the purchase \(id) names this customer; it was given to another "
                        + "before, as nobody's. A transfer would make it this customer's."
                    : "On \(date) it became known that the purchase \(id) names two customers. It belongs to the other, who "
                        + "is named where that counts more; a transfer would make it this customer's."
            } else {
                continue
            }
            last[id] = RefusedClaim(event: rivalry.event, originalTransactionID: id, sentence: sentence)
        }
        return Array(last.values)
    }
}
