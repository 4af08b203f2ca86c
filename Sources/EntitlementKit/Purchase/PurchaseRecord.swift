import EntitlementCore
public import Foundation

/// The offer something was bought under.
public struct PurchaseOffer: Sendable, Hashable {
    /// `introductory`, `promotional`, `offer_code`, `win_back`, or `unknown` for a kind this version does not know.
    public let type: String
    /// How it was cheaper: `free_trial`, `pay_as_you_go`, `pay_up_front`, `one_time`; `nil` where the store did not say.
    public let discount: String?
    /// The offer's own id; `nil` for introductory ones, and where only the server knows of it.
    public let identifier: String?

    /// Puts one together from its parts.
    public init(type: String, discount: String?, identifier: String? = nil) {
        self.type = type
        self.discount = discount
        self.identifier = identifier
    }

    /// Whether nothing was paid.
    public var isTrial: Bool { discount == "free_trial" }
}

/// One purchase or renewal, as far as store and server have told: what messages and offers are chosen by.
public struct PurchaseRecord: Sendable, Hashable, Identifiable {
    /// What it is called.
    public var id: String { transactionID }

    /// The store's id of the transaction; on the web the payment provider's of the line that was paid (`il_…`), or of the
    /// payment.
    public let transactionID: String
    /// The original transaction it rests on; on the web the payment provider's id of the subscription (`sub_…`) or of the payment
    /// (`pi_…`).
    public let originalTransactionID: String
    /// The product, by your catalog's name for it; what that does not know from the web is called as the payment provider calls
    /// it.
    public let productID: String
    /// What was bought, such as `Auto-Renewable Subscription`: Apple's word for it, also of what was bought on the web.
    public let kind: String?
    /// When it was bought, or renewed.
    public let purchaseDate: Date
    /// `nil` for what does not end.
    public let expiresDate: Date?
    /// When it was refunded, wholly or in part, or taken back.
    ///
    /// `nil`: it was not. ``revokedShare`` says how much of it was.
    public let revocationDate: Date?
    /// How it was taken back, in Apple's word, such as `REFUND_FULL`, `REFUND_PRORATED` (a part of the price) and
    /// `FAMILY_REVOKE`; `nil` where it was not, or nobody said.
    public let revocationType: String?
    /// How much of the price went back, of all that were bought at once, in per cent: 40 is 40 %; `nil` where nothing did, or
    /// nobody said.
    public let revocationPercentage: Double?
    /// Whether it renewed what was bought before.
    public let isRenewal: Bool
    /// Whether a later purchase took its place at once.
    public let isUpgraded: Bool
    /// How the customer came by it.
    public let ownership: Entitlement.Ownership
    /// The offer it was bought under.
    public let offer: PurchaseOffer?
    /// How many were bought at once; 1 where only the server knows of it.
    public let quantity: Int
    /// Whether the server holds it, too.
    public let isSynced: Bool
    /// Where it was bought.
    public let source: Entitlement.Source

    /// The account token it was bought with; `nil` where it bears none, and where only the server knows of it.
    public let appAccountToken: UUID?

    /// How much of it was taken back, from 0 (nothing) to 1 (all): of three bought at once of which one was refunded, a third.
    ///
    /// `nil`: a part, and nobody said how large it is.
    public var revokedShare: Double? {
        guard revocationDate != nil else { return 0 }
        let thousandths = revocationPercentage.flatMap { Int64(exactly: ($0 * 1000).rounded()) }
        let revocation = Revocation(
            date: .earliest, kind: revocationType.map { Known($0) }, percentage: thousandths)
        guard revocation.isPart else { return 1 }
        return revocationPercentage.flatMap { (0...100).contains($0) ? $0 / 100 : nil }
    }

    /// Whether it was a free trial.
    public var isTrial: Bool { offer?.isTrial ?? false }

    /// Puts one together from its parts.
    public init(
        transactionID: String, originalTransactionID: String, productID: String, kind: String?, purchaseDate: Date,
        expiresDate: Date?, revocationDate: Date?, isRenewal: Bool, isUpgraded: Bool,
        ownership: Entitlement.Ownership, offer: PurchaseOffer?, quantity: Int = 1, isSynced: Bool,
        source: Entitlement.Source = .appStore, appAccountToken: UUID? = nil, revocationType: String? = nil,
        revocationPercentage: Double? = nil
    ) {
        self.transactionID = transactionID
        self.originalTransactionID = originalTransactionID
        self.productID = productID
        self.kind = kind
        self.purchaseDate = purchaseDate
        self.expiresDate = expiresDate
        self.revocationDate = revocationDate
        self.isRenewal = isRenewal
        self.isUpgraded = isUpgraded
        self.ownership = ownership
        self.offer = offer
        self.quantity = quantity
        self.isSynced = isSynced
        self.source = source
        self.appAccountToken = appAccountToken
        self.revocationType = revocationType
        self.revocationPercentage = revocationPercentage
    }
}
