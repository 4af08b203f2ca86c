import EntitlementCore

// What a catalog looks like, for descriptions; `CatalogDocument` reads and writes it, and knows its members from here.

/// The catalog as `GET /v1/catalog` answers it.
package struct CatalogForm: Decodable, NamedDocument {
    package static let objectName = "catalog"
    let object: String
    /// The position at which it was written; 0 where none was.
    let position: Int64
    let products: [CatalogProductForm]
    let policy: CatalogPolicyForm
    /// What a person should look at who sent it; left out where there is nothing.
    let remarks: [String]?
}

/// The catalog as `PUT /v1/catalog` takes it.
package struct CatalogBodyForm: CommandBody {
    let products: [CatalogProductForm]
    let policy: CatalogPolicyForm?

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        products = try members.required(
            .products,
            members.list(.products, of: CatalogProductForm.self, "an object", limit: CatalogDocument.productLimit))
        policy = try members.decodeIfPresent(CatalogPolicyForm.self, forKey: .policy)
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case products, policy
    }

    /// Those of its members, and what an answer adds, so that one can be sent back as it came.
    static let names = Set(CodingKeys.allCases.map(\.rawValue)).union(["object", "position", "remarks"])
}

/// A product of a catalog.
package struct CatalogProductForm: CommandBody {
    let productID: String
    let entitlements: [String]
    let duration: String?
    let stripe: CatalogStripeForm?
    let appStore: Bool?

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        productID = try members.required(
            .productID, members.text(.productID, limit: CatalogDocument.productIDLimit))
        entitlements = try members.required(
            .entitlements,
            members.list(.entitlements, of: String.self, "a text", limit: CatalogDocument.entitlementLimit))
        duration = try members.decodeIfPresent(String.self, forKey: .duration)
        stripe = try members.decodeIfPresent(CatalogStripeForm.self, forKey: .stripe)
        appStore = try members.decodeIfPresent(Bool.self, forKey: .appStore)
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case entitlements, duration, stripe
        case productID = "product_id"
        case appStore = "app_store"
    }

    static let names = Set(CodingKeys.allCases.map(\.rawValue))
}

/// How Stripe sells a product.
package struct CatalogStripeForm: CommandBody {
    let price: String
    let product: String?
    let mode: StripeProduct.Mode
    let sandboxPrice: String?
    let sandboxProduct: String?

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        let limit = CatalogDocument.stripeIDLimit
        price = try members.required(.price, members.text(.price, limit: limit))
        product = try members.text(.product, limit: limit)
        mode = try members.required(.mode, members.word(.mode, StripeProduct.Mode.self))
        sandboxPrice = try members.text(.sandboxPrice, limit: limit)
        sandboxProduct = try members.text(.sandboxProduct, limit: limit)
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case price, product, mode
        case sandboxPrice = "sandbox_price"
        case sandboxProduct = "sandbox_product"
    }

    static let names = Set(CodingKeys.allCases.map(\.rawValue))
}

/// What gives access and what does not; what is left out takes its default.
package struct CatalogPolicyForm: CommandBody {
    let graceGivesAccess: Bool?
    let billingRetryGivesAccess: Bool?
    let leewaySeconds: Int64?
    let proratedRefund: ProratedRefundPolicy?
    let webGraceDays: Int64?
    let webDispute: WebDisputePolicy?

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        graceGivesAccess = try members.decodeIfPresent(Bool.self, forKey: .graceGivesAccess)
        billingRetryGivesAccess = try members.decodeIfPresent(Bool.self, forKey: .billingRetryGivesAccess)
        leewaySeconds = try members.wholeNumber(
            .leewaySeconds, in: 0...CatalogDocument.leewayLimit, "a whole number of seconds")
        proratedRefund = try members.word(.proratedRefund, ProratedRefundPolicy.self)
        webGraceDays = try members.wholeNumber(
            .webGraceDays, in: 0...CatalogDocument.webGraceLimit, "a whole number of days")
        webDispute = try members.word(.webDispute, WebDisputePolicy.self)
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case graceGivesAccess = "grace_gives_access"
        case billingRetryGivesAccess = "billing_retry_gives_access"
        case leewaySeconds = "leeway_seconds"
        case proratedRefund = "prorated_refund"
        case webGraceDays = "web_grace_days"
        case webDispute = "web_dispute"
    }

    static let names = Set(CodingKeys.allCases.map(\.rawValue))
}
