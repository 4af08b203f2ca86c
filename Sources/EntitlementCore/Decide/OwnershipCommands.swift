/// Why a link is not made.
package enum LinkRefusal: Error, Hashable, Sendable {
    /// A link to itself takes a link back, and there is none.
    case notLinked
    /// The links at these positions already lead from the customer to the identity.
    case closesCircle([Int64])
    /// The link to be taken back is not about whoever asks.
    case notTheirs
    /// Another link of the identity has taken its place, or none has.
    case notInForce
}

/// Why an original transaction is not transferred.
package enum TransferRefusal: Error, Hashable, Sendable {
    /// No statement about it is known.
    case unknownOriginal
    /// It has no owner, so the command has to be addressed to whoever is to have it.
    case nobodys
    /// It was sold by the App Store to somebody who was forgotten since.
    case boughtByForgotten
    /// The customer who would give it owns no part of it.
    case anothers
    /// By the transfer at this position it is somebody's who was forgotten since.
    case ofForgotten(Int64)
    /// The giver and the receiver are one customer.
    case sameCustomer
    /// The transfer to be taken back never moved anything from or to whoever asks.
    case notTheirs
    /// The transfer was taken back, or another came after it.
    case notInForce
    /// It would be given back to somebody who was forgotten since, so the one who has it would lose it to nobody.
    case giverForgotten
}

/// Why a grant is not taken back.
package enum GrantRefusal: Error, Hashable, Sendable {
    /// The customer was given no such grant.
    case unknownGrant
    /// It ran out by itself.
    case ended(Timestamp)
    /// It runs out by itself before the instant from which it would be taken back.
    case endsBefore(Timestamp, takenBackAt: Timestamp)
}

/// What a link comes to.
package enum LinkDecision: Hashable, Sendable {
    case record
    /// The event at this position says so already.
    case standing(Int64)
}

extension OwnershipMap {
    /// Decides about a link; one to itself takes the link in force back.
    package func decide(_ link: LinkFact) throws(LinkRefusal) -> LinkDecision {
        if link.identity == link.customer {
            guard alias(of: link.identity) != nil else { throw .notLinked }
            return .record
        }
        if closesCircle(link) {
            let path = path(of: link.customer).prefix { $0 != link.identity }
            throw .closesCircle(path.compactMap { alias(of: $0)?.position })
        }
        if let alias = alias(of: link.identity), alias.customer == link.customer { return .standing(alias.position) }
        return .record
    }

    /// Decides about taking back the link recorded at a position: what held before it is to hold again.
    ///
    /// - Parameters:
    ///   - person: whoever asks; the link must name them.
    ///   - before: the links before that position.
    ///   - links: every link that was ever made about the identity.
    package func decideUndo(
        of link: LinkFact, at position: Int64, for person: IdentityRef, before: OwnershipMap, links: [RecordedLink]
    ) throws(LinkRefusal) -> LinkFact {
        guard link.identity == person || link.customer == person else { throw .notTheirs }
        guard alias(of: link.identity)?.position == position else { throw .notInForce }
        let earlier = before.alias(of: link.identity)
        let restored = LinkFact(
            identity: link.identity, customer: earlier?.customer ?? link.identity,
            cause: links.first { $0.position == earlier?.position }?.fact.cause.whenRestored ?? .command)
        // Since then the earlier customer may have become an alias of the identity itself.
        _ = try decide(restored)
        return restored
    }
}

extension CustomerFacts {
    /// Decides about a transfer by this customer, or about giving them a purchase that has no owner.
    ///
    /// A device can never claim a web purchase, and may never come to claim one of the App Store's, so a command does.
    ///
    /// - Parameters:
    ///   - receiver: whose it is to be, links not followed.
    ///   - forgotten: those among the owners whom nobody knows any more: what is theirs is nobody's.
    package func decideTransfer(
        of originalTransactionID: String, to receiver: IdentityRef, forgotten: Set<IdentityRef> = []
    ) throws(TransferRefusal) -> TransferFact {
        let all = try owners(of: originalTransactionID)
        let owners = all.subtracting(forgotten)
        if all.isEmpty || owners.isEmpty && originals[originalTransactionID]?.web != nil {
            guard ownership.customer(of: receiver) == customer else { throw .nobodys }
            return TransferFact(originalTransactionID: originalTransactionID, customer: receiver, hadNoOwner: true)
        }
        if owners.isEmpty, !all.isEmpty, let transfer = ownership.transferInForce(of: originalTransactionID) {
            throw .ofForgotten(transfer.position)
        }
        guard owners.contains(customer) else { throw owners.isEmpty ? .boughtByForgotten : .anothers }
        guard ownership.customer(of: receiver) != customer else { throw .sameCustomer }
        return TransferFact(originalTransactionID: originalTransactionID, customer: receiver)
    }

    /// Decides about taking back the transfer recorded at a position, asked for by this customer.
    package func decideUndo(
        of transfer: TransferFact, at position: Int64
    ) throws(TransferRefusal) -> TransferUndoFact {
        let originalID = transfer.originalTransactionID
        let holders = ownership.transfers(of: originalID).compactMap(\.customer).map(ownership.customer(of:))
        let givers =
            periods(of: originalID).compactMap { ownership.owner(of: $0) }
            + [originals[originalID]?.web?.statedOwner.map(ownership.customer(of:))].compactMap(\.self)
        guard (holders + givers).contains(customer) else { throw .notTheirs }
        guard ownership.transferInForce(of: originalID)?.position == position else { throw .notInForce }
        return TransferUndoFact(originalTransactionID: originalID, undoes: position)
    }

    /// Who gets an original transaction back when its transfer in force ends, every link followed: this customer where
    /// they are among several, else whose the latest period is; `nil` where it is nobody's then.
    package func receiver(ofUndone undo: TransferUndoFact) -> IdentityRef? {
        var map = ownership
        // Whose it is now does not depend on when it became so.
        map.apply(.transferUndo(undo), position: .max, recordedAt: .endless)
        if let web = originals[undo.originalTransactionID]?.web { return map.currentOwner(of: web) }
        let owners = periods(of: undo.originalTransactionID).compactMap { map.currentOwner(of: $0) }
        return owners.contains(customer) ? customer : owners.last
    }

    /// The grant of this customer that is to be revoked; where it was revoked before, its `revokedPosition` says by
    /// which event.
    ///
    /// - Parameter date: of the event that would take it back, which is later than `now` where a clock was ahead once.
    package func decideRevocation(
        of grantID: String, now: Timestamp, date: Timestamp
    ) throws(GrantRefusal) -> GrantState {
        let grant = grants.first { $0.grantID == grantID && ownership.customer(of: $0.customer) == customer }
        guard let grant else { throw .unknownGrant }
        if grant.revokedPosition == nil, let until = grant.until {
            if until <= now { throw .ended(until) }
            if until <= date { throw .endsBefore(until, takenBackAt: date) }
        }
        return grant
    }

    /// How many grants a customer may have in force at a time: each of them is folded for every answer about them.
    package static let grantLimit = 1000

    /// Whether one more grant may be given.
    package func mayBeGranted(at instant: Timestamp) -> Bool {
        grants.count { ownership.customer(of: $0.customer) == customer && instant < $0.end } < Self.grantLimit
    }

    /// Whether any of an original transaction is this customer's now.
    package func holds(_ originalTransactionID: String) -> Bool {
        (try? owners(of: originalTransactionID).contains(customer)) ?? false
    }

    /// Everybody whose a period of an original transaction is now, every link followed; of what was bought on the web, whose
    /// it is, be it paid or not.
    package func owners(of originalTransactionID: String) throws(TransferRefusal) -> Set<IdentityRef> {
        if let web = originals[originalTransactionID]?.web {
            return Set([ownership.currentOwner(of: web)].compactMap(\.self))
        }
        let periods = periods(of: originalTransactionID)
        guard !periods.isEmpty else { throw .unknownOriginal }
        return Set(periods.compactMap { ownership.currentOwner(of: $0) })
    }

    /// Everybody on whose links it depends whose an original transaction is: whom its statements, its claim and its transfers
    /// name, and whom these are linked to.
    package func namedOwners(of originalTransactionID: String) -> Set<IdentityRef> {
        let stated =
            periods(of: originalTransactionID).map(\.statedOwner) + [originals[originalTransactionID]?.web?.statedOwner]
        return ownership.holders(of: originalTransactionID)
            .union(stated.compactMap(\.self).flatMap(ownership.path(of:)))
    }

    /// The winning statement of each period, the earliest purchase first.
    private func periods(of originalTransactionID: String) -> [TransactionFact] {
        (originals[originalTransactionID]?.winningStatements().map(\.fact) ?? [])
            .sorted { $0.isBought(before: $1) }
    }
}
