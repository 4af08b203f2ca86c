/// How a product of the catalog is sold on the web.
package struct WebListing: Sendable, Equatable {
    package enum Mode: String, Sendable {
        case subscription
        case payment
    }

    /// `price_…`: what a checkout sells.
    package let price: String
    /// `prod_…`: every other price of it counts as this product, too.
    package let product: String?
    package let mode: Mode

    package init(price: String, product: String?, mode: Mode) {
        self.price = price
        self.product = product
        self.mode = mode
    }

    /// As the catalog's file has it.
    var catalogEntry: PayloadValue {
        var entry: [String: PayloadValue] = ["price": .string(price), "mode": .string(mode.rawValue)]
        entry["product"] = product.map(PayloadValue.string)
        return .object(entry)
    }
}

/// What a dispute of a payment on the web does to access.
package enum SimulatedWebDisputePolicy: String, Sendable {
    /// It ends access when it is opened.
    case suspendsAccess = "suspends_access"
    /// It ends access when it is lost.
    case keepsAccess = "keeps_access"
}

/// A price as the simulated Stripe sells it.
package struct SimulatedWebPrice: Sendable, Hashable {
    /// `price_…`.
    package let id: String
    /// `prod_…`.
    package let product: String
    /// What the shop means by it: the catalog's product; nil for what the catalog does not know.
    package let catalogProductID: String?
    /// In the currency's smallest unit.
    package let amount: Int64
    package let currency: String
    /// How long one payment lasts, as an ISO 8601 duration; nil for what is paid once.
    package let interval: String?

    init(
        _ id: String, of product: String, as catalogProductID: String?, _ amount: Int64, currency: String = "usd",
        every interval: String? = nil
    ) {
        (self.id, self.product, self.catalogProductID) = (id, product, catalogProductID)
        (self.amount, self.currency, self.interval) = (amount, currency, interval)
    }

    /// The same with another length of its periods, for whoever does not want to wait a month.
    func lasting(_ interval: String) -> SimulatedWebPrice {
        SimulatedWebPrice(id, of: product, as: catalogProductID, amount, currency: currency, every: interval)
    }

    /// The end of a period that begins at an instant, in milliseconds.
    func end(from start: Int64) -> Int64 {
        guard let duration = interval.flatMap(SimulatedCalendarDuration.init(iso8601:)) else {
            preconditionFailure("\(id) is paid once")
        }
        return SimulatedCalendar.adding(duration, to: start)
    }
}

/// What the simulated Stripe sells: prices of the standard world's products, older ones among them, and others' prices.
package enum SimulatedShop {
    package static let proMonthly = SimulatedWebPrice(
        "price_pro_month", of: "prod_pro", as: StoreWorld.ProductID.proMonthly, 999, every: "P1M")
    package static let proYearly = SimulatedWebPrice(
        "price_pro_year", of: "prod_pro", as: StoreWorld.ProductID.proYearly, 9999, every: "P1Y")
    /// Named in no catalog, so that its product speaks: of those that share it the smallest id.
    package static let proEarly = SimulatedWebPrice(
        "price_pro_early", of: "prod_pro", as: StoreWorld.ProductID.proMonthly, 499, currency: "eur", every: "P1M")
    package static let studioMonthly = SimulatedWebPrice(
        "price_studio_month", of: "prod_studio", as: StoreWorld.ProductID.studioMonthly, 1099, every: "P1M")
    package static let plusMonthly = SimulatedWebPrice(
        "price_plus_month", of: "prod_plus", as: StoreWorld.ProductID.plusMonthly, 499, every: "P1M")
    package static let newsMonthly = SimulatedWebPrice(
        "price_news_month", of: "prod_news", as: StoreWorld.ProductID.newsMonthly, 299, every: "P1M")
    package static let newsBundleYearly = SimulatedWebPrice(
        "price_newsbundle_year", of: "prod_newsbundle", as: StoreWorld.ProductID.newsBundleYearly, 5999, every: "P1Y")
    package static let teamMonthly = SimulatedWebPrice(
        "price_team_month", of: "prod_team", as: teamProductID, 3900, every: "P1M")
    /// Free of charge, as plans that one begins with are.
    package static let freeMonthly = SimulatedWebPrice(
        "price_free_month", of: "prod_free", as: freeProductID, 0, every: "P1M")
    package static let strangeMonthly = SimulatedWebPrice(
        "price_strange_month", of: "prod_strange", as: nil, 700, every: "P1M")
    package static let lifetime = SimulatedWebPrice(
        "price_lifetime", of: "prod_lifetime", as: StoreWorld.ProductID.lifetime, 24999)
    package static let season = SimulatedWebPrice(
        "price_season", of: "prod_season", as: StoreWorld.ProductID.season, 1999)
    package static let term = SimulatedWebPrice("price_term", of: "prod_season", as: StoreWorld.ProductID.term, 799)
    package static let dayPass = SimulatedWebPrice(
        "price_daypass", of: "prod_daypass", as: StoreWorld.ProductID.dayPass, 199)
    /// Paid once for what is sold as a subscription, which the shop means nothing by.
    package static let proOnce = SimulatedWebPrice("price_pro_once", of: "prod_pro", as: nil, 4999)
    package static let strangeOnce = SimulatedWebPrice("price_strange", of: "prod_strange", as: nil, 100)

    /// A product that the App Store does not sell.
    package static let teamProductID = "com.example.team.monthly"
    package static let freeProductID = "com.example.free.monthly"

    package static let all = [
        proMonthly, proYearly, proEarly, studioMonthly, plusMonthly, newsMonthly, newsBundleYearly, teamMonthly,
        freeMonthly, strangeMonthly, lifetime, season, term, dayPass, proOnce, strangeOnce,
    ]

    /// The same, and what is sold by the month or year is renewed after so many minutes; 0 leaves it as it is.
    package static func all(periodMinutes: Int) -> [SimulatedWebPrice] {
        all.map { periodMinutes == 0 || $0.interval == nil ? $0 : $0.lasting("PT\(periodMinutes)M") }
    }

    package static func price(_ id: String) -> SimulatedWebPrice? { all.first { $0.id == id } }
}

extension StoreWorld {
    /// The standard world, sold on the web as well.
    package static let standardOnWeb: StoreWorld = {
        var world = StoreWorld.standard
        world.mappings.append(CatalogMapping(SimulatedShop.teamProductID, ["studio", "team"]))
        world.mappings.append(CatalogMapping(SimulatedShop.freeProductID, ["plus"]))
        for index in world.mappings.indices {
            let id = world.mappings[index].productID
            guard let price = SimulatedShop.all.first(where: { $0.catalogProductID == id }) else { continue }
            world.mappings[index].web = WebListing(
                price: price.id, product: price.product, mode: price.interval == nil ? .payment : .subscription)
            world.mappings[index].isInAppStore =
                id != SimulatedShop.teamProductID && id != SimulatedShop.freeProductID
        }
        return world
    }()
}
