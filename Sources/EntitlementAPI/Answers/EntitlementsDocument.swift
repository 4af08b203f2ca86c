package import EntitlementCore

/// What a customer holds, and held, at an instant: the answer of `GET /v1/customers/{id}/entitlements`.
package struct EntitlementsDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "entitlements"
    package private(set) var object = Self.objectName
    package let customerID: String
    package let environment: StoreEnvironment
    package let at: Timestamp
    /// The position the answer rests on.
    package let knownAt: Int64
    package let foldVersion: Int
    /// In the order of their ids; lapsed ones included.
    package let entitlements: [EntitlementDocument]
    /// Where an empty answer's customer is known instead; left out otherwise.
    package let alsoIn: [StoreEnvironment]?

    package init(
        customerID: String, environment: StoreEnvironment, at: Timestamp, knownAt: Int64,
        entitlements: [EntitlementDocument], alsoIn: [StoreEnvironment] = []
    ) {
        self.customerID = customerID
        self.environment = environment
        self.at = at
        self.knownAt = knownAt
        foldVersion = OriginalState.foldVersion
        self.entitlements = entitlements
        self.alsoIn = alsoIn.isEmpty ? nil : alsoIn
    }

    private enum CodingKeys: String, CodingKey {
        case object, environment, at, entitlements
        case customerID = "customer_id"
        case knownAt = "known_at"
        case foldVersion = "fold_version"
        case alsoIn = "also_in"
    }
}

/// One entitlement at an instant, and why it reads as it does.
package struct EntitlementDocument: Codable, Hashable, Sendable {
    /// The rule that decided, and the events it rests on.
    package struct Reason: Codable, Hashable, Sendable {
        package let code: ReasonCode
        package let positions: [Int64]
    }

    package let id: String
    package let givesAccess: Bool
    package let state: EntitlementState
    /// Of the unbroken run of the same `gives_access`.
    package let since: Timestamp
    @Nullable package private(set) var until: Timestamp?
    @Nullable package private(set) var productID: String?
    package let source: EntitlementOrigin
    @Nullable package private(set) var ownership: OwnershipWord?
    @Nullable package private(set) var originalTransactionID: String?
    @Nullable package private(set) var willRenew: Bool?
    @Nullable package private(set) var offer: OfferDocument?
    package let reason: Reason

    package init(_ answer: EntitlementAnswer) {
        let reading = answer.reading
        id = answer.entitlementID
        givesAccess = answer.givesAccess
        state = answer.state
        since = answer.since
        source = reading.source
        reason = Reason(code: reading.reason, positions: reading.positions)
        _until = Nullable(wrappedValue: answer.until)
        _productID = Nullable(wrappedValue: reading.productID)
        _ownership = Nullable(wrappedValue: reading.ownership.map { OwnershipWord($0) })
        _originalTransactionID = Nullable(wrappedValue: reading.originalTransactionID)
        _willRenew = Nullable(wrappedValue: answer.willRenew)
        _offer = Nullable(wrappedValue: reading.offer.map { OfferDocument($0) })
    }

    private enum CodingKeys: String, CodingKey {
        case id, state, since, until, source, ownership, offer, reason
        case givesAccess = "gives_access"
        case productID = "product_id"
        case originalTransactionID = "original_transaction_id"
        case willRenew = "will_renew"
    }
}

/// How the customer came by a purchase.
package enum OwnershipWord: String, Codable, Hashable, Sendable, CaseIterable {
    case purchased
    case familyShared = "family_shared"

    package init(_ ownership: AppleOwnership) {
        switch ownership {
        case .purchased: self = .purchased
        case .familyShared: self = .familyShared
        }
    }
}

/// The offer a period was bought under.
package struct OfferDocument: Codable, Hashable, Sendable {
    /// `introductory`, `promotional`, `offer_code`, `win_back`, or `unknown` for a kind this version does not know.
    package let type: String
    /// Apple's `offerDiscountType` in lower case: `free_trial`, `pay_as_you_go`, ….
    @Nullable package private(set) var discount: String?

    package init(_ offer: Offer) {
        switch offer.type {
        case 1: type = "introductory"
        case 2: type = "promotional"
        case 3: type = "offer_code"
        case 4: type = "win_back"
        default: type = "unknown"
        }
        _discount = Nullable(wrappedValue: offer.discount?.lowercased())
    }
}
