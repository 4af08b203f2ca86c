/// Where the store's facts live.
///
/// Part of every key; facts of the two never meet.
package enum StoreEnvironment: String, Hashable, Sendable, CaseIterable, Codable {
    case production
    case sandbox
}

/// Stands for one customer identity in facts, so that the log never holds the identity itself.
///
/// An account token and an app transaction id stand for their default customers (the token in lower case, and
/// `apple:<appTransactionId>`), so one kind of reference serves all three. Inside an `EventDraft` it is an index into
/// the draft's list of identities; inside the log it is the ledger's own number.
package struct IdentityRef: Hashable, Comparable, Sendable {
    package let number: Int64

    package init(_ number: Int64) { self.number = number }

    package static func < (left: IdentityRef, right: IdentityRef) -> Bool { left.number < right.number }
}

/// Who delivered a signed statement.
///
/// A device's word alone does not withdraw what the store itself said.
package enum StatementSource: UInt8, Hashable, Sendable {
    case notification = 1
    case serverAPI = 2
    case device = 3
}

/// A value of one of Apple's enumerations: one the fold knows, or the raw text of one it does not.
package enum Known<Value: RawRepresentable & Hashable & Sendable>: Hashable, Sendable
where Value.RawValue == String {
    case known(Value)
    case unknown(String)

    package init(_ raw: String) { self = Value(rawValue: raw).map(Known.known) ?? .unknown(raw) }

    package var raw: String {
        switch self {
        case .known(let value): value.rawValue
        case .unknown(let raw): raw
        }
    }

    /// Whether this version knows the value.
    package var isKnown: Bool {
        switch self {
        case .known: true
        case .unknown: false
        }
    }
}

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

    /// How much of a price went back; `nil` where only a part did, and nobody said how much.
    package func part(of price: Money) -> Money? {
        guard kind == .known(.refundProrated) else { return price }
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

/// What one signed renewal information states about the subscription of an original transaction.
package struct RenewalFact: Hashable, Sendable {
    package var payloadHash: Digest
    /// The statement's own signed date, else the notification's; `nil` sorts lowest.
    package var signedDate: Timestamp?
    package var originalTransactionID: String
    package var autoRenewProductID: String?
    package var autoRenews: Bool?
    package var isInBillingRetry: Bool
    package var graceEnd: Timestamp?
    package var expirationIntent: Int64?
    /// It came in a grace notification and states no grace end, which reads as billing retry.
    package var isGraceWithoutEnd: Bool

    package init(
        payloadHash: Digest, signedDate: Timestamp?, originalTransactionID: String,
        autoRenewProductID: String? = nil, autoRenews: Bool? = nil, isInBillingRetry: Bool = false,
        graceEnd: Timestamp? = nil, expirationIntent: Int64? = nil, isGraceWithoutEnd: Bool = false
    ) {
        self.payloadHash = payloadHash
        self.signedDate = signedDate
        self.originalTransactionID = originalTransactionID
        self.autoRenewProductID = autoRenewProductID
        self.autoRenews = autoRenews
        self.isInBillingRetry = isInBillingRetry
        self.graceEnd = graceEnd
        self.expirationIntent = expirationIntent
        self.isGraceWithoutEnd = isGraceWithoutEnd
    }

    /// The retry flag, or the notification's word for a grace period it did not date.
    var readsBillingRetry: Bool { isInBillingRetry || (isGraceWithoutEnd && graceEnd == nil) }
}

/// What one App Store notification states: its label, and the statements it carries.
package struct NotificationFact: Hashable, Sendable {
    package var type: String
    package var subtype: String?
    package var uuid: String
    package var signedDate: Timestamp?
    package var payloadHash: Digest
    package var bundleID: String
    package var transaction: TransactionFact?
    package var renewal: RenewalFact?
    /// Whose copy of the app it is about, where it carries an app transaction: it tells whose consent was withdrawn.
    package var appTransaction: IdentityRef?
    /// Things an operator should look at, such as `unknown_type:X`; they change nothing by themselves.
    package var remarks: [String]

    package init(
        type: String, subtype: String?, uuid: String, signedDate: Timestamp?, payloadHash: Digest, bundleID: String,
        transaction: TransactionFact?, renewal: RenewalFact?, appTransaction: IdentityRef? = nil, remarks: [String]
    ) {
        self.type = type
        self.subtype = subtype
        self.uuid = uuid
        self.signedDate = signedDate
        self.payloadHash = payloadHash
        self.bundleID = bundleID
        self.transaction = transaction
        self.renewal = renewal
        self.appTransaction = appTransaction
        self.remarks = remarks
    }
}

/// What signed statements about one original transaction state that came by themselves, not in a notification: posted
/// by a device, or found through the Server API.
package struct StatementsFact: Hashable, Sendable {
    package var originalTransactionID: String
    package var transactions: [TransactionFact]
    package var renewals: [RenewalFact]
    /// Things an operator should look at, such as `unknown_field:transaction.x`; they change nothing by themselves.
    package var remarks: [String]

    package init(
        originalTransactionID: String, transactions: [TransactionFact], renewals: [RenewalFact], remarks: [String]
    ) {
        self.originalTransactionID = originalTransactionID
        self.transactions = transactions
        self.renewals = renewals
        self.remarks = remarks
    }

    /// What an event of such statements is called: nothing says what they report but themselves.
    package static let label = "device_report"

    /// The date of the newest of them; `nil` where none bears one.
    package var latestSignedDate: Timestamp? {
        (transactions.map(\.signedDate) + renewals.map(\.signedDate)).compactMap { $0 }.max()
    }
}
