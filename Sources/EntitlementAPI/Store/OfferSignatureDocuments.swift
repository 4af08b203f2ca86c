import EntitlementCore

/// Which promotional offer is to be signed: the body of `POST /v1/offer_signatures`.
package struct OfferSignatureRequest: CommandBody {
    package let productID: String
    package let offerID: String
    /// What the purchase will bear; `nil`: nothing.
    package let accountToken: String?
    /// The app's bundle id; `nil`: the key's own, or the only one.
    package let app: String?

    package init(productID: String, offerID: String, accountToken: String? = nil, app: String? = nil) {
        self.productID = productID
        self.offerID = offerID
        self.accountToken = accountToken
        self.app = app
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        productID = try members.required(.productID, members.storeName(.productID))
        offerID = try members.required(.offerID, members.storeName(.offerID))
        accountToken = try members.text(.accountToken, limit: CommandLimits.storeID)
        if let accountToken, !CustomerID.isUUID(accountToken) {
            throw members.refusal(.accountToken, "must be a UUID: the store takes no other")
        }
        app = try members.text(.app, limit: CommandLimits.bundleID)
    }

    private enum CodingKeys: String, CodingKey {
        case app
        case productID = "product_id"
        case offerID = "offer_id"
        case accountToken = "app_account_token"
    }
}

extension KeyedDecodingContainer {
    /// A name from App Store Connect, which is ASCII: what is signed separates its parts by a character beyond that.
    fileprivate func storeName(_ key: Key) throws -> String? {
        guard let name = try text(key, limit: CommandLimits.storeID) else { return nil }
        guard name.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw refusal(key, "must be an id of App Store Connect, which has neither spaces nor other than ASCII")
        }
        return name
    }
}

/// A signed promotional offer: the answer of `POST /v1/offer_signatures`.
package struct OfferSignatureDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "offer_signature"
    package private(set) var object = Self.objectName
    let app: String
    let productID: String
    let offerID: String
    let keyID: String
    /// In lower case.
    let nonce: String
    /// In milliseconds since 1970, as the store wants it.
    let timestamp: Int64
    /// In Base64.
    let signature: String

    package init(
        app: String, productID: String, offerID: String, keyID: String, nonce: String, timestamp: Int64,
        signature: String
    ) {
        self.app = app
        self.productID = productID
        self.offerID = offerID
        self.keyID = keyID
        self.nonce = nonce
        self.timestamp = timestamp
        self.signature = signature
    }

    private enum CodingKeys: String, CodingKey {
        case object, app, nonce, timestamp, signature
        case productID = "product_id"
        case offerID = "offer_id"
        case keyID = "key_id"
    }
}
