/// What a product gives, and for how long where the store does not say.
package struct CatalogProduct: Hashable, Sendable {
    package let productID: String
    package let entitlements: [String]
    /// How long a consumable or non-renewing purchase runs; the store signs no end for these.
    package let duration: CalendarDuration?
    /// How it is sold on the web; `nil` where it is not.
    package let stripe: StripeProduct?
    /// Whether the App Store sells it, too.
    package let isInAppStore: Bool

    package init(
        productID: String, entitlements: [String], duration: CalendarDuration? = nil, stripe: StripeProduct? = nil,
        isInAppStore: Bool = true
    ) {
        self.productID = productID
        self.entitlements = entitlements
        self.duration = duration
        self.stripe = stripe
        self.isInAppStore = isInAppStore
    }

    fileprivate var isOfAppStoreAlone: Bool { stripe == nil && isInAppStore }
}

/// What Stripe calls a product of the catalog.
package struct StripeProduct: Hashable, Sendable {
    /// How it is sold: Stripe's `mode` of a checkout session.
    package enum Mode: String, Hashable, Sendable, Codable, CaseIterable {
        case subscription
        case payment
    }

    /// `price_…`: what a checkout sells; a paid line is matched by this id first.
    package let price: String
    /// `prod_…`: every other price of it counts as this product, too.
    package let product: String?
    package let mode: Mode
    /// The same in Stripe's test mode, where it has ids of its own; `nil`: those above.
    package let sandboxPrice: String?
    package let sandboxProduct: String?

    package init(
        price: String, product: String? = nil, mode: Mode, sandboxPrice: String? = nil, sandboxProduct: String? = nil
    ) {
        self.price = price
        self.product = product
        self.mode = mode
        self.sandboxPrice = sandboxPrice
        self.sandboxProduct = sandboxProduct
    }

    /// What a checkout of an environment sells.
    package func price(in environment: StoreEnvironment) -> String {
        switch environment {
        case .production: price
        case .sandbox: sandboxPrice ?? price
        }
    }
}

/// What a dispute does to the access that was paid for, while nobody has won it.
package enum WebDisputePolicy: String, Hashable, Sendable, Codable, CaseIterable {
    /// From its beginning on there is none.
    case suspendsAccess = "suspends_access"
    /// It stays until the dispute is lost.
    case keepsAccess = "keeps_access"
}

/// What a prorated refund does to the access it was paid for.
package enum ProratedRefundPolicy: String, Hashable, Sendable, Codable, CaseIterable {
    case endsAccess = "ends_access"
    case keepsAccess = "keeps_access"
}

/// Which states give access.
package struct AccessPolicy: Hashable, Sendable {
    package var graceGivesAccess: Bool
    package var billingRetryGivesAccess: Bool
    package var leewaySeconds: Int64
    package var proratedRefund: ProratedRefundPolicy
    /// How many days a subscription bought on the web is in its grace period while its charge is tried again; Stripe names
    /// no end.
    package var webGraceDays: Int64
    package var webDispute: WebDisputePolicy

    package init(
        graceGivesAccess: Bool = true, billingRetryGivesAccess: Bool = false, leewaySeconds: Int64 = 0,
        proratedRefund: ProratedRefundPolicy = .endsAccess, webGraceDays: Int64 = Self.defaultWebGraceDays,
        webDispute: WebDisputePolicy = .suspendsAccess
    ) {
        self.graceGivesAccess = graceGivesAccess
        self.billingRetryGivesAccess = billingRetryGivesAccess
        self.leewaySeconds = leewaySeconds
        self.proratedRefund = proratedRefund
        self.webGraceDays = webGraceDays
        self.webDispute = webDispute
    }

    package static let defaultWebGraceDays: Int64 = 7

    fileprivate var saysNothingOfWeb: Bool {
        webGraceDays == Self.defaultWebGraceDays && webDispute == .suspendsAccess
    }

    package func givesAccess(_ state: EntitlementState) -> Bool {
        switch state {
        case .active: true
        case .inGracePeriod: graceGivesAccess
        case .inBillingRetry: billingRetryGivesAccess
        case .expired, .revoked: false
        }
    }
}

/// Products to entitlements, and the access policy.
///
/// One catalog answers for every instant, so a change is retroactive; what was answered under the one before stays
/// readable by position.
package struct Catalog: Hashable, Sendable {
    /// In the order of their ids.
    package let products: [CatalogProduct]
    package let policy: AccessPolicy
    private let byID: [String: CatalogProduct]
    /// The ids of products by what Stripe calls them; empty where nothing is sold on the web.
    private let byPrice: [String: String]
    private let byStripeProduct: [String: String]

    /// Of two products with one id the later is kept; callers validate what comes from outside.
    package init(products: [CatalogProduct], policy: AccessPolicy = AccessPolicy()) {
        let byID = Dictionary(products.map { ($0.productID, $0) }, uniquingKeysWith: { _, later in later })
        self.byID = byID
        self.products = byID.values.sorted { $0.productID < $1.productID }
        self.policy = policy
        var byPrice: [String: String] = [:]
        var byStripeProduct: [String: String] = [:]
        // Where several products name the same Stripe id, the one with the smallest product id wins.
        for product in self.products.reversed() {
            guard let stripe = product.stripe else { continue }
            for price in [stripe.price, stripe.sandboxPrice].compactMap(\.self) { byPrice[price] = product.productID }
            for name in [stripe.product, stripe.sandboxProduct].compactMap(\.self) {
                byStripeProduct[name] = product.productID
            }
        }
        (self.byPrice, self.byStripeProduct) = (byPrice, byStripeProduct)
    }

    /// Before any catalog was applied nothing is mapped.
    package static let empty = Catalog(products: [])

    package func product(_ id: String) -> CatalogProduct? { byID[id] }

    /// Our id of a product that was sold on the web, found by its Stripe price, else by its Stripe product; `nil` where
    /// the catalog names neither.
    package func productID(of sold: WebProduct) -> String? {
        sold.price.flatMap { byPrice[$0] } ?? sold.product.flatMap { byStripeProduct[$0] }
    }

    /// The prices and the products of Stripe's by which `productID(of:)` finds what was sold.
    package var stripePrices: [String] { Array(byPrice.keys) }
    package var stripeProducts: [String] { Array(byStripeProduct.keys) }

    /// Whether it says anything of what is sold on the web.
    package var speaksOfWeb: Bool {
        !policy.saysNothingOfWeb || !products.allSatisfy(\.isOfAppStoreAlone)
    }
}

/// How an entitlement reads at an instant.
package enum EntitlementState: String, Hashable, Sendable, Codable, CaseIterable {
    case active
    case inGracePeriod = "in_grace_period"
    case inBillingRetry = "in_billing_retry"
    case revoked
    case expired

    /// The order in which overlapping states are shown, first wins.
    var precedence: Int {
        switch self {
        case .active: 0
        case .inGracePeriod: 1
        case .inBillingRetry: 2
        case .revoked: 3
        case .expired: 4
        }
    }
}
