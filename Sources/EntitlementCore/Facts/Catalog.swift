/// What a product gives, and for how long where the store does not say.
package struct CatalogProduct: Hashable, Sendable {
    package let productID: String
    package let entitlements: [String]
    /// How long a consumable or non-renewing purchase runs; the store signs no end for these.
    package let duration: CalendarDuration?

    package init(productID: String, entitlements: [String], duration: CalendarDuration? = nil) {
        self.productID = productID
        self.entitlements = entitlements
        self.duration = duration
    }
}

/// What a prorated refund does to the access it was paid for.
package enum ProratedRefundPolicy: String, Hashable, Sendable, Codable {
    case endsAccess = "ends_access"
    case keepsAccess = "keeps_access"
}

/// Which states give access.
package struct AccessPolicy: Hashable, Sendable {
    package var graceGivesAccess: Bool
    package var billingRetryGivesAccess: Bool
    package var leewaySeconds: Int64
    package var proratedRefund: ProratedRefundPolicy

    package init(
        graceGivesAccess: Bool = true, billingRetryGivesAccess: Bool = false, leewaySeconds: Int64 = 0,
        proratedRefund: ProratedRefundPolicy = .endsAccess
    ) {
        self.graceGivesAccess = graceGivesAccess
        self.billingRetryGivesAccess = billingRetryGivesAccess
        self.leewaySeconds = leewaySeconds
        self.proratedRefund = proratedRefund
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

    /// Of two products with one id the later is kept; validation of input is the edge's.
    package init(products: [CatalogProduct], policy: AccessPolicy = AccessPolicy()) {
        let byID = Dictionary(products.map { ($0.productID, $0) }, uniquingKeysWith: { _, later in later })
        self.byID = byID
        self.products = byID.values.sorted { $0.productID < $1.productID }
        self.policy = policy
    }

    /// Before any catalog was applied nothing is mapped.
    package static let empty = Catalog(products: [])

    package func product(_ id: String) -> CatalogProduct? { byID[id] }
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
