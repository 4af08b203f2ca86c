package import EntitlementCore

/// What is wrong with a catalog, and where.
package struct CatalogDocumentError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Such as `products[3].duration`; empty for the document as a whole.
    package let path: String
    package let reason: String

    package var description: String { path.isEmpty ? "the catalog \(reason)" : "\(path) \(reason)" }
}

extension CatalogDocumentError {
    fileprivate init(_ fault: WireJSON.Fault) {
        switch fault {
        case .notJSON: self.init(path: "", reason: "is not JSON")
        case .tooDeep: self.init(path: "", reason: "has more than \(WireJSON.depthLimit) levels")
        case .unreadable(let path):
            self.init(path: path, reason: "is a number that is too large, or has half of a surrogate pair")
        }
    }
}

/// The catalog as files and `/v1/catalog` write it.
package struct CatalogDocument: Hashable, Sendable {
    /// The most products.
    package static let productLimit = 5000
    /// The most entitlements of one product.
    package static let entitlementLimit = 64
    /// The longest product id, in bytes.
    package static let productIDLimit = 255
    /// The longest entitlement id, in bytes.
    package static let entitlementIDLimit = 128
    /// The longest leeway, in seconds: 30 days.
    package static let leewayLimit: Int64 = 30 * 86_400
    /// The longest grace period of what is sold on the web, in days: after 60 nothing is collected any more.
    package static let webGraceLimit: Int64 = 60
    /// The longest id of Stripe's, in bytes.
    package static let stripeIDLimit = 255

    /// Where a document comes from, which says how strictly it is read.
    package enum Origin: Sendable {
        /// A person wrote it: members that mean nothing here are refused, because they are most likely misspelt.
        case file
        /// Such members are ignored.
        case request
        /// Besides, ids may have control characters: those that the log has had for long may have some.
        case answer
    }

    package private(set) var catalog: Catalog
    /// Where members stood that mean nothing here and were ignored, such as `policy.grace_gives_acces`; the first few.
    package private(set) var ignoredMembers: [String] = []

    package init(_ catalog: Catalog) { self.catalog = catalog }

    /// The same with another catalog, and what is to be remarked of this one.
    package func replacing(_ catalog: Catalog) -> CatalogDocument {
        var document = self
        document.catalog = catalog
        return document
    }

    /// What a person should look at who sent it.
    package var remarks: [String] { ignoredMembers.map { "unknown_member:\($0)" } }

    /// The document as it is answered: with the position at which the catalog was written, and with what is to be remarked.
    package func encoded(writtenAt position: Int64) throws -> [UInt8] {
        var members = self.members
        members["object"] = .string("catalog")
        members["position"] = .int(position)
        if !remarks.isEmpty { members["remarks"] = .array(remarks.map(WireValue.string)) }
        return try WireJSON.encode(WireValue.object(members))
    }

    var members: [String: WireValue] {
        [
            "products": .array(
                catalog.products.map { product in
                    var members: [String: WireValue] = [
                        "product_id": .string(product.productID),
                        "entitlements": .array(product.entitlements.map(WireValue.string)),
                    ]
                    if let duration = product.duration { members["duration"] = .string(duration.text) }
                    if let stripe = product.stripe { members["stripe"] = Self.members(of: stripe) }
                    if !product.isInAppStore { members["app_store"] = .bool(false) }
                    return .object(members)
                }),
            "policy": .object(policyMembers),
        ]
    }

    /// What is said of the web stands there only in a catalog that speaks of it: any other is written as it always was, so
    /// that exports and answers made before still say what the log does.
    private var policyMembers: [String: WireValue] {
        let policy = catalog.policy
        var members: [String: WireValue] = [
            "grace_gives_access": .bool(policy.graceGivesAccess),
            "billing_retry_gives_access": .bool(policy.billingRetryGivesAccess),
            "leeway_seconds": .int(policy.leewaySeconds),
            "prorated_refund": .string(policy.proratedRefund.rawValue),
        ]
        if catalog.speaksOfWeb {
            members["web_grace_days"] = .int(policy.webGraceDays)
            members["web_dispute"] = .string(policy.webDispute.rawValue)
        }
        return members
    }

    private static func members(of stripe: StripeProduct) -> WireValue {
        var members: [String: WireValue] = [
            "price": .string(stripe.price), "mode": .string(stripe.mode.rawValue),
        ]
        if let product = stripe.product { members["product"] = .string(product) }
        if let price = stripe.sandboxPrice { members["sandbox_price"] = .string(price) }
        if let product = stripe.sandboxProduct { members["sandbox_product"] = .string(product) }
        return .object(members)
    }

    /// Reads a document and holds it to its limits.
    ///
    /// What of the policy is left out takes its default.
    package init(parsing bytes: [UInt8], from origin: Origin) throws(CatalogDocumentError) {
        let document: WireValue
        do throws(WireJSON.Fault) {
            document = try WireJSON.value(of: bytes)
        } catch {
            throw CatalogDocumentError(error)
        }
        var unknown = UnknownCatalogMembers(in: origin)
        let members = try CatalogMembers(document, path: "", known: CatalogBodyForm.names, &unknown)
        let listed = try members.array("products", limit: Self.productLimit)
        var products: [CatalogProduct] = []
        var seen: Set<String> = []
        var prices: Set<String> = []
        for (index, value) in listed.enumerated() {
            let product = try Self.product(value, path: "products[\(index)]", &unknown)
            guard seen.insert(product.productID).inserted else {
                throw CatalogDocumentError(
                    path: "products[\(index)].product_id", reason: "is the id of an earlier product too")
            }
            for (name, price) in [("price", product.stripe?.price), ("sandbox_price", product.stripe?.sandboxPrice)] {
                guard let price, !prices.insert(price).inserted else { continue }
                throw CatalogDocumentError(
                    path: "products[\(index)].stripe.\(name)", reason: "is a price that was named before")
            }
            products.append(product)
        }
        let policy = members["policy"] ?? .object([:])
        catalog = Catalog(products: products, policy: try Self.policy(policy, &unknown))
        ignoredMembers = unknown.ignored
    }

    private static func product(
        _ value: WireValue, path: String, _ unknown: inout UnknownCatalogMembers
    ) throws(CatalogDocumentError) -> CatalogProduct {
        let members = try CatalogMembers(value, path: path, known: CatalogProductForm.names, &unknown)
        let productID = try members.identifier("product_id", limit: productIDLimit)
        var entitlements: [String] = []
        for (index, value) in try members.array("entitlements", limit: entitlementLimit).enumerated() {
            let place = "\(path).entitlements[\(index)]"
            let id = try members.identifier(value, path: place, limit: entitlementIDLimit)
            guard !entitlements.contains(id) else {
                throw CatalogDocumentError(path: place, reason: "names an entitlement that the product names already")
            }
            entitlements.append(id)
        }
        var duration: CalendarDuration?
        if let value = members["duration"] {
            guard case .string(let text) = value, let read = CalendarDuration(iso8601: text) else {
                throw CatalogDocumentError(
                    path: path + ".duration", reason: "must be a positive ISO 8601 duration, such as P90D or P1M")
            }
            duration = read
        }
        var stripe: StripeProduct?
        if let value = members["stripe"] { stripe = try stripeProduct(value, path: path + ".stripe", &unknown) }
        let isInAppStore = try members.bool("app_store") ?? true
        guard isInAppStore || stripe != nil else {
            throw CatalogDocumentError(
                path: path + ".app_store", reason: "is false, and nothing says how it is sold instead: add stripe")
        }
        return CatalogProduct(
            productID: productID, entitlements: entitlements, duration: duration, stripe: stripe,
            isInAppStore: isInAppStore)
    }

    private static func stripeProduct(
        _ value: WireValue, path: String, _ unknown: inout UnknownCatalogMembers
    ) throws(CatalogDocumentError) -> StripeProduct {
        let members = try CatalogMembers(value, path: path, known: CatalogStripeForm.names, &unknown)
        func id(_ name: String) throws(CatalogDocumentError) -> String? {
            members[name] == nil ? nil : try members.identifier(name, limit: stripeIDLimit)
        }
        let price = try members.identifier("price", limit: stripeIDLimit)
        guard case .string(let word)? = members["mode"], let mode = StripeProduct.Mode(rawValue: word) else {
            throw CatalogDocumentError(path: path + ".mode", reason: "must be \"subscription\" or \"payment\"")
        }
        return StripeProduct(
            price: price, product: try id("product"), mode: mode, sandboxPrice: try id("sandbox_price"),
            sandboxProduct: try id("sandbox_product"))
    }

    private static func policy(
        _ value: WireValue, _ unknown: inout UnknownCatalogMembers
    ) throws(CatalogDocumentError) -> AccessPolicy {
        let members = try CatalogMembers(value, path: "policy", known: CatalogPolicyForm.names, &unknown)
        var policy = AccessPolicy()
        if let value = try members.bool("grace_gives_access") { policy.graceGivesAccess = value }
        if let value = try members.bool("billing_retry_gives_access") { policy.billingRetryGivesAccess = value }
        if let value = members["leeway_seconds"] {
            guard case .int(let seconds) = value, (0...leewayLimit).contains(seconds) else {
                throw CatalogDocumentError(
                    path: "policy.leeway_seconds", reason: "must be a whole number from 0 to \(leewayLimit)")
            }
            policy.leewaySeconds = seconds
        }
        if let value = members["prorated_refund"] {
            guard case .string(let text) = value, let word = ProratedRefundPolicy(rawValue: text) else {
                throw CatalogDocumentError(
                    path: "policy.prorated_refund", reason: "must be \"ends_access\" or \"keeps_access\"")
            }
            policy.proratedRefund = word
        }
        if let value = members["web_grace_days"] {
            guard case .int(let days) = value, (0...webGraceLimit).contains(days) else {
                throw CatalogDocumentError(
                    path: "policy.web_grace_days", reason: "must be a whole number from 0 to \(webGraceLimit)")
            }
            policy.webGraceDays = days
        }
        if let value = members["web_dispute"] {
            guard case .string(let text) = value, let word = WebDisputePolicy(rawValue: text) else {
                throw CatalogDocumentError(
                    path: "policy.web_dispute", reason: "must be \"suspends_access\" or \"keeps_access\"")
            }
            policy.webDispute = word
        }
        return policy
    }
}
