/// What a purchase needs so that it is the customer's whom a team's own list names.
package enum ListedOwnerDecision: Hashable, Sendable {
    /// Nothing: it is theirs.
    case theirs
    /// It is an Apple account's with which nobody is linked: that account is to be linked, so that what it buys later is theirs, too.
    case link(LinkFact)
    /// It is nobody's: it is to be theirs.
    case transfer(TransferFact)
    /// Nothing is to be done: it is somebody else's, and the list takes nothing from anybody.
    case others(Set<IdentityRef>)
    /// Nothing is to be done: it was theirs in this way before, and somebody took that back.
    case takenBack
    /// Nothing is known of it in the app.
    case unknown
}

extension CustomerFacts {
    /// Decides whose a list makes a purchase; it never takes one from anybody.
    ///
    /// - Parameters:
    ///   - listed: whom the list names, links not followed.
    ///   - app: whose purchase it must be.
    ///   - accounts: those among the owners who are default customers of app transactions.
    ///   - links: every link that was ever made about the owners or about whom the list names.
    ///   - forgotten: those among the owners whom nobody knows any more.
    package func decideListed(
        owner listed: IdentityRef, of originalTransactionID: String, in app: AppScope, accounts: Set<IdentityRef>,
        links: [RecordedLink], forgotten: Set<IdentityRef> = []
    ) -> ListedOwnerDecision {
        let periods = originals[originalTransactionID]?.winningFacts() ?? []
        guard !periods.isEmpty, periods.allSatisfy(app.isOfApp) else { return .unknown }
        let person = ownership.customer(of: listed)
        let owners = Set(periods.compactMap { ownership.currentOwner(of: $0) })
        let others = owners.subtracting([person])
        guard let other = others.first else {
            return owners.isEmpty ? decideListedTransfer(of: originalTransactionID, to: listed) : .theirs
        }
        guard others.count == 1, accounts.contains(other), !forgotten.contains(other),
            !ownership.isTaken(appTransaction: other, links: links)
        else { return .others(others) }
        if ownership.wereLinked(other, listed, links: links) { return .takenBack }
        let link = LinkFact(identity: other, customer: listed)
        guard let decision = try? ownership.decide(link) else { return .others(others) }
        return decision == .record ? .link(link) : .theirs
    }

    /// Decides about giving somebody what is nobody's.
    private func decideListedTransfer(
        of originalTransactionID: String, to listed: IdentityRef
    ) -> ListedOwnerDecision {
        // It had an owner by a transfer, which was undone.
        guard ownership.transfers(of: originalTransactionID).isEmpty else { return .takenBack }
        var facts = self
        facts.customer = ownership.customer(of: listed)
        guard let transfer = try? facts.decideTransfer(of: originalTransactionID, to: listed) else {
            return .others([])
        }
        return .transfer(transfer)
    }

    /// The customer who is an Apple account's default one, and has a purchase that is nobody else's; `nil` where somebody is linked
    /// with the account, and where it is not the only owner.
    package func loneAccount(
        of originalTransactionID: String, accounts: Set<IdentityRef>, links: [RecordedLink]
    ) -> IdentityRef? {
        let periods = originals[originalTransactionID]?.winningFacts() ?? []
        let owners = Set(periods.compactMap { ownership.currentOwner(of: $0) })
        guard owners.count == 1, let owner = owners.first, accounts.contains(owner),
            !ownership.isTaken(appTransaction: owner, links: links)
        else { return nil }
        return owner
    }
}
