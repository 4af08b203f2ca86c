/// Apple's `type` of a transaction (JWSTransactionDecodedPayload).
package enum ProductKind: String, Hashable, Sendable {
    case autoRenewable = "Auto-Renewable Subscription"
    case nonConsumable = "Non-Consumable"
    case consumable = "Consumable"
    case nonRenewing = "Non-Renewing Subscription"
}

/// Apple's `transactionReason`.
package enum TransactionReason: String, Hashable, Sendable {
    case purchase = "PURCHASE"
    case renewal = "RENEWAL"
}

/// Apple's `inAppOwnershipType`.
package enum AppleOwnership: String, Hashable, Sendable {
    case purchased = "PURCHASED"
    case familyShared = "FAMILY_SHARED"
}

/// Apple's `revocationType`.
package enum RevocationKind: String, Hashable, Sendable {
    case refundFull = "REFUND_FULL"
    case refundProrated = "REFUND_PRORATED"
    case familyRevoke = "FAMILY_REVOKE"
}

/// The store took a transaction back at `date`.
package struct Revocation: Hashable, Sendable {
    package var date: Timestamp
    package var reason: Int64?
    package var kind: Known<RevocationKind>?
    /// Thousandths of a percent: 40000 is 40 %.
    package var percentage: Int64?

    package init(
        date: Timestamp, reason: Int64? = nil, kind: Known<RevocationKind>? = nil, percentage: Int64? = nil
    ) {
        self.date = date
        self.reason = reason
        self.kind = kind
        self.percentage = percentage
    }

    /// What went back where only a part did, in the middle of a sentence: `40 %`, or `a part` where nobody said how much.
    package var partInWords: String {
        guard let percentage, (1..<100_000).contains(percentage) else { return "a part" }
        var thousandths = String(percentage % 1000 + 1000).dropFirst()
        while thousandths.last == "0" { thousandths.removeLast() }
        return "\(percentage / 1000)\(thousandths.isEmpty ? "" : ".\(thousandths)") %"
    }

    /// Whether only a part went back; where nobody said what kind of refund it was, the percentage tells.
    package var isPart: Bool {
        switch kind {
        case .known(.refundProrated): true
        case .known(.refundFull), .known(.familyRevoke): false
        case .unknown, nil: percentage.map { $0 < 100_000 } ?? false
        }
    }

    /// How much of a price went back; `nil` where only a part did, and nobody said how much.
    package func part(of price: Money) -> Money? {
        guard isPart else { return price }
        return percentage.map(price.part)
    }
}

/// The offer a period was bought under.
package struct Offer: Hashable, Sendable {
    /// Apple's `offerType`: 1 introductory, 2 promotional, 3 offer code, 4 win-back.
    package var type: Int64
    package var identifier: String?
    /// Apple's `offerDiscountType`, as signed: `FREE_TRIAL`, `PAY_AS_YOU_GO`, ….
    package var discount: String?
    package var period: String?

    package init(type: Int64, identifier: String? = nil, discount: String? = nil, period: String? = nil) {
        self.type = type
        self.identifier = identifier
        self.discount = discount
        self.period = period
    }
}

/// What one signed transaction states.
///
/// The environment is the event's.
package struct TransactionFact: Hashable, Sendable {
    /// SHA-256 of the decoded payload: the statement's identity, and the last tie-breaker.
    package var payloadHash: Digest
    /// The statement's own signed date, else the notification's; `nil` sorts lowest.
    package var signedDate: Timestamp?
    package var transactionID: String
    package var originalTransactionID: String
    package var webOrderLineItemID: String?
    package var productID: String
    package var bundleID: String
    package var kind: Known<ProductKind>?
    package var purchaseDate: Timestamp
    package var expiresDate: Timestamp?
    package var revocation: Revocation?
    package var isUpgraded: Bool
    package var reason: Known<TransactionReason>?
    package var ownership: Known<AppleOwnership>?
    package var accountToken: IdentityRef?
    package var appTransaction: IdentityRef?
    package var offer: Offer?
    /// What was to be paid, whatever the quantity; `nil` where it is not stated, as in what was signed before 2023.
    package var price: Money?

    package init(
        payloadHash: Digest, signedDate: Timestamp?, transactionID: String, originalTransactionID: String,
        webOrderLineItemID: String? = nil, productID: String, bundleID: String, kind: Known<ProductKind>?,
        purchaseDate: Timestamp, expiresDate: Timestamp? = nil, revocation: Revocation? = nil,
        isUpgraded: Bool = false, reason: Known<TransactionReason>? = nil, ownership: Known<AppleOwnership>? = nil,
        accountToken: IdentityRef? = nil, appTransaction: IdentityRef? = nil, offer: Offer? = nil,
        price: Money? = nil
    ) {
        self.payloadHash = payloadHash
        self.signedDate = signedDate
        self.transactionID = transactionID
        self.originalTransactionID = originalTransactionID
        self.webOrderLineItemID = webOrderLineItemID
        self.productID = productID
        self.bundleID = bundleID
        self.kind = kind
        self.purchaseDate = purchaseDate
        self.expiresDate = expiresDate
        self.revocation = revocation
        self.isUpgraded = isUpgraded
        self.reason = reason
        self.ownership = ownership
        self.accountToken = accountToken
        self.appTransaction = appTransaction
        self.offer = offer
        self.price = price
    }
}
