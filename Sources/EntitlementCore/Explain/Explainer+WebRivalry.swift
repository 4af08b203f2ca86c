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
            if owner == facts.customer, facts.ownsPeriod(of: id) {
                sentence =
                    rivalry.isGiven
                    ? "On \(date) it became known that the purchase \(id) names another customer; it was given to this one "
                        + "before, as nobody's. A transfer would give it to the other."
                    : "On \(date) it became known that the purchase \(id) names two customers. It belongs to this one, who is "
                        + "named where that counts more; a transfer would give it to the other."
            } else if rival == facts.customer, !facts.ownsPeriod(of: id) {
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
