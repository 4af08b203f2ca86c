package import EntitlementCore

/// Who asks from a device, where its key does not say whose it is.
package struct DeviceProof: Codable, Hashable, Sendable {
    /// The bundle id of the app that runs; a key that is bound to an app names it already.
    package let app: String?
    /// `nil`: the credential's own, else production; `auto`: the app transaction's.
    package let environment: ReconcileRequest.Environment?
    /// Compact JWS of the app transaction.
    package let appTransaction: String?

    package init(
        app: String? = nil, environment: ReconcileRequest.Environment? = nil, appTransaction: String? = nil
    ) {
        self.app = app
        self.environment = environment
        self.appTransaction = appTransaction
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        app = try members.text(.app, limit: ReconcileRequest.bundleIDLimit)
        environment = try members.word(.environment, ReconcileRequest.Environment.self)
        appTransaction = try members.value(.appTransaction, String.self, "a text")
    }

    private enum CodingKeys: String, CodingKey {
        case app, environment
        case appTransaction = "app_transaction"
    }

    /// As a reconciliation that posts nothing else, for that is how it is verified.
    package var posting: ReconcileRequest {
        ReconcileRequest(app: app, environment: environment, appTransaction: appTransaction)
    }
}

/// What somebody wants to buy on the web: the body of `POST /v1/customers/{id}/checkout`.
package struct CheckoutRequest: CommandBody {
    /// The longest address of a page, in bytes.
    package static let addressLimit = 2048
    /// The longest token of Apple's, in bytes: as much as Stripe keeps of it.
    package static let tokenLimit = 500

    package let productID: String
    /// Where whoever has paid is sent; `nil`: as configured.
    package let successURL: String?
    /// Where whoever has not is sent; `nil`: as configured.
    package let cancelURL: String?
    /// What Apple gave the app for a purchase outside of it.
    package let externalPurchaseToken: String?
    /// Whether it is bought though the customer has it and goes on having it.
    package let isBoughtAgain: Bool
    package let proof: DeviceProof

    package init(
        productID: String, successURL: String? = nil, cancelURL: String? = nil, externalPurchaseToken: String? = nil,
        isBoughtAgain: Bool = false, proof: DeviceProof = DeviceProof()
    ) {
        self.productID = productID
        self.successURL = successURL
        self.cancelURL = cancelURL
        self.externalPurchaseToken = externalPurchaseToken
        self.isBoughtAgain = isBoughtAgain
        self.proof = proof
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        productID = try members.required(
            .productID, members.text(.productID, limit: CatalogDocument.productIDLimit))
        successURL = try members.text(.successURL, limit: Self.addressLimit)
        cancelURL = try members.text(.cancelURL, limit: Self.addressLimit)
        externalPurchaseToken = try members.text(.externalPurchaseToken, limit: Self.tokenLimit)
        isBoughtAgain = try members.value(.isBoughtAgain, Bool.self, "true or false") ?? false
        proof = try DeviceProof(from: decoder)
    }

    package func encode(to encoder: any Encoder) throws {
        try proof.encode(to: encoder)
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(productID, forKey: .productID)
        try members.encodeIfPresent(successURL, forKey: .successURL)
        try members.encodeIfPresent(cancelURL, forKey: .cancelURL)
        try members.encodeIfPresent(externalPurchaseToken, forKey: .externalPurchaseToken)
        if isBoughtAgain { try members.encode(true, forKey: .isBoughtAgain) }
    }

    private enum CodingKeys: String, CodingKey {
        case productID = "product_id"
        case successURL = "success_url"
        case cancelURL = "cancel_url"
        case externalPurchaseToken = "external_purchase_token"
        case isBoughtAgain = "buy_again"
    }
}

/// A checkout that is open: the answer of `POST /v1/customers/{id}/checkout`.
package struct CheckoutDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "checkout"
    package private(set) var object = Self.objectName
    /// Stripe's id of the session.
    package let id: String
    /// The page on which is paid.
    package let url: String
    @Nullable package private(set) var expiresAt: Timestamp?
    package let productID: String

    package init(id: String, url: String, expiresAt: Timestamp?, productID: String) {
        self.id = id
        self.url = url
        _expiresAt = Nullable(wrappedValue: expiresAt)
        self.productID = productID
    }

    private enum CodingKeys: String, CodingKey {
        case object, id, url
        case expiresAt = "expires_at"
        case productID = "product_id"
    }
}

/// Who wants to look after what they bought on the web: the body of `POST /v1/customers/{id}/portal`.
package struct PortalRequest: CommandBody {
    /// Where the page leads back to; `nil`: as configured for whoever has not paid.
    package let returnURL: String?
    package let proof: DeviceProof

    package init(returnURL: String? = nil, proof: DeviceProof = DeviceProof()) {
        self.returnURL = returnURL
        self.proof = proof
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        returnURL = try members.text(.returnURL, limit: CheckoutRequest.addressLimit)
        proof = try DeviceProof(from: decoder)
    }

    package func encode(to encoder: any Encoder) throws {
        try proof.encode(to: encoder)
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encodeIfPresent(returnURL, forKey: .returnURL)
    }

    private enum CodingKeys: String, CodingKey {
        case returnURL = "return_url"
    }
}

/// The page on which a customer looks after what they bought: the answer of `POST /v1/customers/{id}/portal`.
package struct PortalDocument: Codable, Hashable, Sendable, NamedDocument {
    package static let objectName = "portal"
    package private(set) var object = Self.objectName
    /// Good for a short time, and for whoever has it.
    package let url: String

    package init(url: String) { self.url = url }
}
