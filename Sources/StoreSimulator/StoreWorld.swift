/// The two environments of the store, whose facts never meet.
package enum SimulatedStoreEnvironment: String, Sendable, Hashable, CaseIterable {
    case production
    case sandbox

    /// The name the store writes into its payloads.
    package var payloadName: String {
        switch self {
        case .production: "Production"
        case .sandbox: "Sandbox"
        }
    }
}

/// The four kinds of in-app purchase.
package enum SimulatedProductKind: String, Sendable {
    case autoRenewable = "Auto-Renewable Subscription"
    case nonConsumable = "Non-Consumable"
    case consumable = "Consumable"
    case nonRenewing = "Non-Renewing Subscription"
}

/// A product as the simulated store sells it.
package struct SimulatedStoreProduct: Sendable, Equatable {
    /// The product id.
    package let id: String
    /// What kind of purchase it is.
    package let kind: SimulatedProductKind
    /// The subscription group, of auto-renewable products only.
    package let groupID: String?
    /// The rank inside the group; 1 is the highest, as in App Store Connect.
    package let level: Int
    /// How long one payment lasts, of auto-renewable products only.
    package let period: SimulatedCalendarDuration?
    /// The price in thousandths of the currency.
    package let price: Int64

    /// An auto-renewable product; `period` is an ISO 8601 duration.
    package static func subscription(
        _ id: String, group: String, level: Int, period: String, price: Int64
    ) -> SimulatedStoreProduct {
        SimulatedStoreProduct(
            id: id, kind: .autoRenewable, groupID: group, level: level,
            period: SimulatedCalendarDuration(iso8601: period), price: price)
    }

    /// A product that is bought once at a time.
    package static func once(_ id: String, _ kind: SimulatedProductKind, price: Int64) -> SimulatedStoreProduct {
        SimulatedStoreProduct(id: id, kind: kind, groupID: nil, level: 0, period: nil, price: price)
    }
}

/// One line of the catalog: what a product grants, and for how long where the store does not say.
package struct CatalogMapping: Sendable, Equatable {
    /// The product id.
    package let productID: String
    /// The entitlements the product grants.
    package let entitlements: [String]
    /// The ISO 8601 duration of one purchase, for consumables and non-renewing purchases.
    package let duration: String?
    /// How it is sold on the web; nil for what only the App Store sells.
    package var web: WebListing?
    /// Whether the App Store sells it.
    package var isInAppStore = true

    /// Maps a product to what it grants.
    package init(_ productID: String, _ entitlements: [String], duration: String? = nil) {
        self.productID = productID
        self.entitlements = entitlements
        self.duration = duration
    }
}

/// What a prorated refund does to access.
package enum ProratedRefund: String, Sendable {
    case endsAccess = "ends_access"
    case keepsAccess = "keeps_access"
}

/// The access policy the record is read under.
package struct SimulatedAccessPolicy: Sendable, Equatable {
    /// Whether a grace period gives access.
    package var graceGivesAccess = true
    /// Whether billing retry gives access.
    package var billingRetryGivesAccess = false
    /// How long access outlives a period that simply ran out, in seconds.
    package var leewaySeconds: Int64 = 0
    /// What a prorated refund does.
    package var proratedRefund = ProratedRefund.endsAccess
    /// How long a failed charge on the web leaves access open, in days after what was paid for.
    package var webGraceDays: Int64 = 7
    /// What an open dispute does.
    package var webDispute = SimulatedWebDisputePolicy.suspendsAccess

    /// The defaults: grace gives access, billing retry does not, no leeway, a prorated refund ends access; a week of grace
    /// on the web, and a dispute suspends.
    package init() {}
}

/// Products, their meaning, and the app that sells them.
package struct StoreWorld: Sendable, Equatable {
    /// The bundle id of the app.
    package var bundleID = "com.example.app"
    /// The app's id in the store, stated in production only.
    package var appAppleID: Int64 = 6_400_000_001
    /// The products on sale.
    package var products: [SimulatedStoreProduct]
    /// What the products grant.
    package var mappings: [CatalogMapping]
    /// The access policy.
    package var policy: SimulatedAccessPolicy
    /// The instant at which simulated lives begin.
    package var start: Int64

    /// The product of that id, which must be on sale.
    package func product(_ id: String) -> SimulatedStoreProduct {
        guard let product = products.first(where: { $0.id == id }) else {
            preconditionFailure("the simulated store does not sell \(id); it sells \(products.map(\.id))")
        }
        return product
    }

    /// The entitlements a product grants; none for a product the catalog does not know.
    package func entitlements(of productID: String) -> [String] {
        mappings.filter { $0.productID == productID }.flatMap(\.entitlements)
    }

    /// The catalog as the file that `rightful catalog apply` and `PUT /v1/catalog` take.
    package var catalogFile: PayloadValue {
        let products = mappings.map { mapping in
            var line: [String: PayloadValue] = [
                "product_id": .string(mapping.productID),
                "entitlements": .array(mapping.entitlements.map(PayloadValue.string)),
            ]
            line["duration"] = mapping.duration.map(PayloadValue.string)
            line["stripe"] = mapping.web?.catalogEntry
            if !mapping.isInAppStore { line["app_store"] = .boolean(false) }
            return PayloadValue.object(line)
        }
        var policies: [String: PayloadValue] = [
            "grace_gives_access": .boolean(policy.graceGivesAccess),
            "billing_retry_gives_access": .boolean(policy.billingRetryGivesAccess),
            "leeway_seconds": .integer(policy.leewaySeconds),
            "prorated_refund": .string(policy.proratedRefund.rawValue),
        ]
        if mappings.contains(where: { $0.web != nil }) {
            policies["web_grace_days"] = .integer(policy.webGraceDays)
            policies["web_dispute"] = .string(policy.webDispute.rawValue)
        }
        return .object(["products": .array(products), "policy": .object(policies)])
    }
}

extension StoreWorld {
    /// The ids of the products in the standard world.
    package enum ProductID {
        /// The plan most people have: monthly, grants `premium` and `plus`.
        package static let proMonthly = "com.example.pro.monthly"
        /// The same plan by the year.
        package static let proYearly = "com.example.pro.yearly"
        /// Another plan of the same rank and length: grants `premium` and `studio`.
        package static let studioMonthly = "com.example.studio.monthly"
        /// The second tier: grants `plus` alone.
        package static let plusMonthly = "com.example.plus.monthly"
        /// A subscription of a second group: grants `news`.
        package static let newsMonthly = "com.example.news.monthly"
        /// The second group's higher rank: grants `news` and `premium`.
        package static let newsBundleYearly = "com.example.newsbundle.yearly"
        /// A non-consumable: `premium` for ever.
        package static let lifetime = "com.example.lifetime"
        /// A consumable without a duration, which grants nothing.
        package static let coins = "com.example.coins.100"
        /// A consumable with a duration: `premium` for a day.
        package static let dayPass = "com.example.daypass"
        /// A non-renewing subscription of 90 days: `season`.
        package static let season = "com.example.season"
        /// A non-renewing subscription of a calendar month: `season`.
        package static let term = "com.example.term"
        /// A non-renewing subscription whose catalog line lacks a duration.
        package static let openSeason = "com.example.season.open"
        /// A non-consumable that no catalog line mentions.
        package static let mystery = "com.example.mystery"
    }

    /// Two groups, a lifetime purchase, consumables and seasons; entitlements and products map many to many.
    package static let standard = StoreWorld(
        products: [
            .subscription(ProductID.proMonthly, group: "21000001", level: 1, period: "P1M", price: 9_990),
            .subscription(ProductID.proYearly, group: "21000001", level: 1, period: "P1Y", price: 99_990),
            .subscription(ProductID.studioMonthly, group: "21000001", level: 1, period: "P1M", price: 10_990),
            .subscription(ProductID.plusMonthly, group: "21000001", level: 2, period: "P1M", price: 4_990),
            .subscription(ProductID.newsMonthly, group: "21000002", level: 2, period: "P1M", price: 2_990),
            .subscription(ProductID.newsBundleYearly, group: "21000002", level: 1, period: "P1Y", price: 59_990),
            .once(ProductID.lifetime, .nonConsumable, price: 249_990),
            .once(ProductID.coins, .consumable, price: 990),
            .once(ProductID.dayPass, .consumable, price: 1_990),
            .once(ProductID.season, .nonRenewing, price: 19_990),
            .once(ProductID.term, .nonRenewing, price: 7_990),
            .once(ProductID.openSeason, .nonRenewing, price: 14_990),
            .once(ProductID.mystery, .nonConsumable, price: 3_990),
        ],
        mappings: [
            CatalogMapping(ProductID.proMonthly, ["premium", "plus"]),
            CatalogMapping(ProductID.proYearly, ["premium", "plus"]),
            CatalogMapping(ProductID.studioMonthly, ["premium", "studio"]),
            CatalogMapping(ProductID.plusMonthly, ["plus"]),
            CatalogMapping(ProductID.newsMonthly, ["news"]),
            CatalogMapping(ProductID.newsBundleYearly, ["news", "premium"]),
            CatalogMapping(ProductID.lifetime, ["premium"]),
            CatalogMapping(ProductID.coins, ["coins"]),
            CatalogMapping(ProductID.dayPass, ["premium"], duration: "P1D"),
            CatalogMapping(ProductID.season, ["season"], duration: "P90D"),
            CatalogMapping(ProductID.term, ["season"], duration: "P1M"),
            CatalogMapping(ProductID.openSeason, ["season"]),
        ],
        policy: SimulatedAccessPolicy(),
        start: SimulatedCalendar.instant(2026, 1, 1))

    /// The same world under another policy.
    package func with(policy change: (inout SimulatedAccessPolicy) -> Void) -> StoreWorld {
        var world = self
        change(&world.policy)
        return world
    }
}
