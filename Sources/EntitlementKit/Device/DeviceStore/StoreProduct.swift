public import Foundation

/// A product as the store sells it on this device.
public struct StoreProduct: Sendable, Hashable {
    /// What it is called.
    public let id: String
    /// Its name, in the customer's language.
    public let displayName: String
    /// As the store formats it for this customer.
    public let displayPrice: String
    /// What it is, in the customer's language.
    public var description = ""
    /// What kind of thing it is; `nil` where the store does not tell.
    public var kind: PurchaseKind?
    /// The price in ``currencyCode``, of one period for a subscription; `nil` where the store does not tell.
    public var price: Decimal?
    /// The currency of all prices, in ISO 4217.
    public var currencyCode: String?
    /// What belongs to a subscription alone.
    public var subscription: Subscription?

    /// What is particular to a subscription.
    public struct Subscription: Sendable, Hashable {
        /// The group; a customer has one subscription of it at a time.
        public var groupID: String
        /// How long one period is.
        public var period: SubscriptionPeriod
        /// What somebody new to the group is offered, if anything.
        public var introductoryOffer: SubscriptionOffer?
        /// Whether this customer may have the introductory offer.
        public var isEligibleForIntroductoryOffer: Bool
        /// What your server may sign for those who subscribe, or did.
        public var promotionalOffers: [SubscriptionOffer]
        /// What is offered to some of those who left; none before iOS 18, macOS 15, tvOS 18, watchOS 11 and visionOS 2.
        public var winBackOffers: [SubscriptionOffer]
        /// The ids of those that this customer may have, the best first.
        public var eligibleWinBackOfferIDs: [String]

        /// Puts one together from its parts.
        public init(
            groupID: String, period: SubscriptionPeriod, introductoryOffer: SubscriptionOffer? = nil,
            isEligibleForIntroductoryOffer: Bool = false, promotionalOffers: [SubscriptionOffer] = [],
            winBackOffers: [SubscriptionOffer] = [], eligibleWinBackOfferIDs: [String] = []
        ) {
            self.groupID = groupID
            self.period = period
            self.introductoryOffer = introductoryOffer
            self.isEligibleForIntroductoryOffer = isEligibleForIntroductoryOffer
            self.promotionalOffers = promotionalOffers
            self.winBackOffers = winBackOffers
            self.eligibleWinBackOfferIDs = eligibleWinBackOfferIDs
        }

        /// The introductory offer that a paywall is to show: `nil` for whoever may not have it.
        public var offerForThisCustomer: SubscriptionOffer? {
            isEligibleForIntroductoryOffer ? introductoryOffer : nil
        }

        /// The win-back offers that a paywall is to show to this customer, the best first.
        public var winBackOffersForThisCustomer: [SubscriptionOffer] {
            eligibleWinBackOfferIDs.compactMap { id in winBackOffers.first { $0.id == id } }
        }
    }

    /// Puts one together from its parts.
    public init(
        id: String, displayName: String, displayPrice: String, description: String = "", kind: PurchaseKind? = nil,
        price: Decimal? = nil, currencyCode: String? = nil, subscription: Subscription? = nil
    ) {
        self.id = id
        self.displayName = displayName
        self.displayPrice = displayPrice
        self.description = description
        self.kind = kind
        self.price = price
        self.currencyCode = currencyCode
        self.subscription = subscription
    }
}

/// How long something runs, by the calendar.
public struct SubscriptionPeriod: Sendable, Hashable {
    /// A unit of the calendar.
    public enum Unit: String, Sendable, Hashable, CaseIterable {
        case day, week, month, year
    }

    /// The unit.
    public let unit: Unit
    /// How many of it.
    public let count: Int

    /// Puts one together from its parts.
    public init(_ count: Int, _ unit: Unit) {
        self.unit = unit
        self.count = count
    }

    /// When a period ends that begins at an instant; months and years count as in the Gregorian calendar, in UTC.
    public func end(from start: Date) -> Date {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(identifier: "UTC") ?? calendar.timeZone
        let (component, factor): (Calendar.Component, Int) =
            switch unit {
            case .day: (.day, 1)
            case .week: (.day, 7)
            case .month: (.month, 1)
            case .year: (.year, 1)
            }
        return calendar.date(byAdding: component, value: count * factor, to: start) ?? start
    }
}

/// A subscription for less.
public struct SubscriptionOffer: Sendable, Hashable {
    /// The offer's own id; `nil` for introductory ones.
    public let id: String?
    /// How it is cheaper: `free_trial`, `pay_as_you_go`, `pay_up_front`; `unknown` for what this version does not know.
    public let discount: String
    /// What is paid: once, or in each period where it is `pay_as_you_go`.
    public let price: Decimal
    /// The same as the store formats it.
    public let displayPrice: String
    /// How long one of its periods is.
    public let period: SubscriptionPeriod
    /// How many periods it runs.
    public let periodCount: Int

    /// Whether nothing is paid.
    public var isTrial: Bool { discount == "free_trial" }

    /// Puts one together from its parts.
    public init(
        id: String?, discount: String, price: Decimal, displayPrice: String, period: SubscriptionPeriod,
        periodCount: Int = 1
    ) {
        self.id = id
        self.discount = discount
        self.price = price
        self.displayPrice = displayPrice
        self.period = period
        self.periodCount = periodCount
    }
}
