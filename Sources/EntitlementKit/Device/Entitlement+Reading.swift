import EntitlementAPI
import EntitlementCore
import Foundation

extension Entitlement {
    /// What a fold answers, with what the facts tell beside it.
    ///
    /// - Parameter renewing: everything that gives it and renews.
    init(
        _ answer: EntitlementAnswer, _ facts: CustomerFacts, state: State?, _ renewing: [RenewingPurchase]
    ) {
        let reading = answer.reading
        let original = reading.originalTransactionID.flatMap { facts.originals[$0] }
        self.init(
            id: answer.entitlementID, givesAccess: answer.givesAccess,
            state: state ?? State(rawValue: answer.state.rawValue),
            since: answer.since.date, until: answer.until?.date, productID: reading.productID,
            source: Source(rawValue: reading.source.rawValue),
            ownership: reading.ownership.map { Ownership($0) },
            originalTransactionID: reading.originalTransactionID, willRenew: answer.willRenew,
            offer: reading.offer.map { PurchaseOffer($0) },
            expirationReason: answer.givesAccess ? nil : ExpirationReason(reading, original),
            originalPurchaseDate: original?.firstPurchaseDate?.date,
            alsoRenews: renewing.filter { $0.originalTransactionID != reading.originalTransactionID })
    }

    /// The same where nobody has confirmed it for too long, or nobody has signed it.
    var unconfirmed: Entitlement { with(givesAccess: false, state: .unconfirmed, until: until) }

    /// The same, known until an instant at the latest.
    func ending(by end: Date) -> Entitlement {
        end < until ?? .distantFuture ? with(givesAccess: givesAccess, state: state, until: end) : self
    }

    /// The same, known until an instant at least.
    func goingOn(until end: Date) -> Entitlement {
        end > until ?? .distantFuture ? with(givesAccess: givesAccess, state: state, until: end) : self
    }

    private func with(givesAccess: Bool, state: State, until: Date?) -> Entitlement {
        Entitlement(
            id: id, givesAccess: givesAccess, state: state, since: since, until: until, productID: productID,
            source: source, ownership: ownership, originalTransactionID: originalTransactionID, willRenew: willRenew,
            offer: offer, originalPurchaseDate: originalPurchaseDate, alsoRenews: alsoRenews)
    }

    /// What gives access first, then the order of the fold's states, then what ends last.
    func isShown(before other: Entitlement) -> Bool {
        if givesAccess != other.givesAccess { return givesAccess }
        let order: [State] = [.active, .inGracePeriod, .inBillingRetry, .unconfirmed, .revoked, .expired]
        let (own, theirs) = (
            order.firstIndex(of: state) ?? order.count, order.firstIndex(of: other.state) ?? order.count
        )
        if own != theirs { return own < theirs }
        return (until ?? .distantFuture) > (other.until ?? .distantFuture)
    }
}

extension Entitlement.ExpirationReason {
    /// Why a reading gives no access, with what the store last said about the renewal.
    fileprivate init?(_ reading: Reading, _ original: OriginalState?) {
        switch reading.reason {
        case .refunded: self = .refunded
        case .familyRevoked: self = .familyRevoked
        case .grantRevoked: self = .grantRevoked
        case .billingGivenUp, .billingRetry, .gracePeriod, .renewalPending, .pastDue: self = .billingError
        case .dispute: self = .disputed
        case .cancelled: self = .cancelled
        case .paused: self = .paused
        case .upgradedElsewhere, .replaced: self = .replaced
        case .ownedByAnother: self = .ownedByAnother
        case .expired:
            if let web = original?.web {
                self = Self(lastWordOf: web, about: reading) ?? .ranOut
            } else {
                self.init(intent: original?.renewals.last?.fact.expirationIntent)
            }
        case .paidPeriod, .oneTimePurchase, .leeway, .grant: self = .ranOut
        }
    }

    /// What the payment provider last said of what was not renewed; `nil` where that is no reason.
    private init?(lastWordOf web: WebOriginal, about reading: Reading) {
        switch web.charging(of: reading, at: .endless)?.renewal {
        case .paused, .awaitsCard: self = .paused
        case .cancelled: self = .cancelled
        case .charged, .awaitsPayment, nil: return nil
        }
    }

    /// Apple's `expirationIntent`.
    private init(intent: Int64?) {
        self =
            switch intent {
            case 1: .cancelled
            case 2: .billingError
            case 3: .priceIncrease
            case 4: .productUnavailable
            default: .ranOut
            }
    }
}

extension OriginalState {
    /// When anything of it was first bought.
    fileprivate var firstPurchaseDate: Timestamp? {
        guard web != nil else { return transactions.map(\.fact.purchaseDate).min() }
        return winningStatements().map(\.fact.purchaseDate).min()
    }
}

extension Entitlement.Ownership {
    init(_ ownership: AppleOwnership) {
        switch ownership {
        case .purchased: self = .purchased
        case .familyShared: self = .familyShared
        }
    }
}

extension PurchaseOffer {
    init(_ offer: Offer) {
        let document = OfferDocument(offer)
        self.init(type: document.type, discount: document.discount, identifier: offer.identifier)
    }
}
