/// A chart: figures over time that belong together.
package enum ChartName: String, Hashable, Sendable, CaseIterable, Codable {
    case active
    case trials
    case renewals
    case billingRetry = "billing_retry"
    case refunds
    case churn
    case retention
    case revenue

    /// Its figures, in the order in which they are shown.
    package var figures: [ChartFigure] { ChartFigure.allCases.filter { $0.chart == self } }
}

/// One figure of a chart.
///
/// The numbers are those of the table; none is ever given to another figure.
package enum ChartFigure: UInt8, Hashable, Sendable, CaseIterable {
    // Of `active`: how many subscriptions are in a state.
    case active = 1
    case inGracePeriod = 2
    case inBillingRetry = 3
    // Of `trials`.
    case trialStarted = 4
    case trialConverted = 5
    case trialConvertedOfStarted = 6
    // Of `renewals`.
    case renewalDue = 7
    case renewalCancelled = 8
    case renewalMade = 9
    case renewalMadeOfDue = 10
    // Of `billing_retry`.
    case retryEntered = 11
    case retryRecovered = 12
    case retryLost = 13
    // Of `refunds`.
    case refunded = 14
    case refundedInPart = 15
    case disputed = 16
    // Of `churn`.
    case subscribed = 17
    case begun = 18
    case takenOver = 27
    case resumed = 19
    case churned = 20
    // Of `retention`, by cohort.
    case cohortBegun = 21
    case retained = 22
    // Of `revenue`: amounts of money, by currency, and how many amounts are not known.
    case charged = 23
    case paidBack = 24
    case heldBack = 25
    case unpriced = 26

    /// Its place among all figures, in the order in which they are shown.
    package var place: Int { Self.places[self] ?? 0 }

    private static let places = Dictionary(uniqueKeysWithValues: allCases.enumerated().map { ($0.element, $0.offset) })

    package var chart: ChartName {
        switch self {
        case .active, .inGracePeriod, .inBillingRetry: .active
        case .trialStarted, .trialConverted, .trialConvertedOfStarted: .trials
        case .renewalDue, .renewalCancelled, .renewalMade, .renewalMadeOfDue: .renewals
        case .retryEntered, .retryRecovered, .retryLost: .billingRetry
        case .refunded, .refundedInPart, .disputed: .refunds
        case .subscribed, .begun, .takenOver, .resumed, .churned: .churn
        case .cohortBegun, .retained: .retention
        case .charged, .paidBack, .heldBack, .unpriced: .revenue
        }
    }

    /// As answers call it; unique within its chart.
    package var name: String {
        switch self {
        case .active: "active"
        case .inGracePeriod: "in_grace_period"
        case .inBillingRetry: "in_billing_retry"
        case .trialStarted: "started"
        case .trialConverted: "converted"
        case .trialConvertedOfStarted: "converted_of_started"
        case .renewalDue: "due"
        case .renewalCancelled: "cancelled"
        case .renewalMade: "made"
        case .renewalMadeOfDue: "made_of_due"
        case .retryEntered: "entered"
        case .retryRecovered: "recovered"
        case .retryLost: "lost"
        case .refunded: "refunded"
        case .refundedInPart: "refunded_in_part"
        case .disputed: "disputed"
        case .subscribed: "subscribed"
        case .begun: "begun"
        case .takenOver: "taken_over"
        case .resumed: "resumed"
        case .churned: "churned"
        case .cohortBegun: "begun"
        case .retained: "retained"
        case .charged: "charged"
        case .paidBack: "refunded"
        case .heldBack: "disputed"
        case .unpriced: "unpriced"
        }
    }

    /// Whether it says how many there are at the end of an interval; else how many things happened within it.
    package var isStanding: Bool {
        switch self {
        case .active, .inGracePeriod, .inBillingRetry, .subscribed, .retained: true
        case .trialStarted, .trialConverted, .trialConvertedOfStarted, .renewalDue, .renewalCancelled, .renewalMade,
            .renewalMadeOfDue, .retryEntered, .retryRecovered, .retryLost, .refunded, .refundedInPart, .disputed,
            .begun, .takenOver, .resumed, .churned, .cohortBegun, .charged, .paidBack, .heldBack, .unpriced:
            false
        }
    }

    /// What tells its lines apart beside products.
    package var detail: Detail? {
        switch self {
        case .cohortBegun, .retained: .cohort
        case .charged, .paidBack, .heldBack: .currency
        case .active, .inGracePeriod, .inBillingRetry, .trialStarted, .trialConverted, .trialConvertedOfStarted,
            .renewalDue, .renewalCancelled, .renewalMade, .renewalMadeOfDue, .retryEntered, .retryRecovered,
            .retryLost, .refunded, .refundedInPart, .disputed, .subscribed, .begun, .takenOver, .resumed, .churned,
            .unpriced:
            nil
        }
    }

    package enum Detail: Sendable {
        /// The month in which those began who are counted.
        case cohort
        /// In which the money was paid; numbers are thousandths of its unit.
        case currency
    }
}

/// What was sold, free of the catalog: charts keep it as the stores name it, and the catalog that is asked under says
/// which product that is.
package struct ChartProduct: Hashable, Sendable {
    package let origin: EntitlementOrigin
    /// The App Store's product id; on the web our own product, where metadata names it, else empty.
    package let productID: String
    /// In Stripe's ids, where nothing else names it.
    package let sold: WebProduct?

    package init(appStore productID: String) { (origin, self.productID, sold) = (.appStore, productID, nil) }

    package init(web productID: String?, _ sold: WebProduct?) {
        (origin, self.productID, self.sold) = (.webCheckout, productID ?? "", productID == nil ? sold : nil)
    }

    /// The product's id under a catalog; what the catalog does not know is told by the provider's name for it.
    package func id(_ catalog: Catalog) -> String {
        guard let sold else { return productID }
        return catalog.productID(of: sold) ?? sold.product ?? sold.price ?? ""
    }
}

/// What was sold, and in which app.
///
/// A life sells one thing or a few, and states it in hundreds of numbers, so these share it by reference.
package struct ChartArticle: Hashable, Sendable {
    private struct Name: Hashable, Sendable {
        let product: ChartProduct
        let app: String
    }

    private let name: Shared<Name>

    package init(_ product: ChartProduct, app: String) { name = Shared(Name(product: product, app: app)) }

    package var product: ChartProduct { name.value.product }

    /// The bundle id; empty for what was bought on the web, which is each app's.
    package var app: String { name.value.app }
}

/// One line of a chart before products are named: a figure of one thing sold, in one app.
package struct ChartSeries: Hashable, Sendable {
    package let figure: ChartFigure
    private let article: ChartArticle
    /// The cohort's month, such as `2026-03`, or the currency's code; empty where a figure has neither.
    package let detail: String

    package init(_ figure: ChartFigure, _ article: ChartArticle, detail: String = "") {
        self.figure = figure
        self.article = article
        self.detail = detail
    }

    package var product: ChartProduct { article.product }

    /// See ``ChartArticle/app``.
    package var app: String { article.app }
}
