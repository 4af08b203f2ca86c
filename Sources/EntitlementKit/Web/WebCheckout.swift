public import Foundation

/// How an app sells on the web: who may be offered a link, and how a page is shown.
///
/// The page is a checkout that the server has made (`POST /v1/customers/{id}/checkout`). What is bought there reaches the
/// ledger by the payment provider's own message, and the device with the server's answers.
public struct WebCheckout: Sendable {
    /// Shows a page and returns when it was left; called once for each attempt to buy, from any thread.
    public typealias Opener = @Sendable (_ page: CheckoutPage) async -> CheckoutReturn

    /// Where a link may be offered; the United States unless told.
    public var linkPolicy: WebLinkPolicy
    /// Where the page leads after it was paid, such as a universal link of your app; `nil`: what the server is configured
    /// with.
    ///
    /// It is an `https` address on the server that yours is configured with, and not the one of ``cancelURL``; ``problems`` says
    /// what is wrong with them.
    public var successURL: URL?
    /// Where it leads somebody who changes their mind; `nil`: what the server is configured with.
    public var cancelURL: URL?
    /// Whether the App Store's sheet stays shut while nobody can say what the customer bought on the web.
    ///
    /// That is where the server has never answered this device about them, or not since what they have from the web was to be
    /// renewed, and it goes on no longer by ``EntitlementConfiguration/renewalLeeway``, and cannot be asked now
    /// (``PurchaseError/Reason/ownershipUnknown``). With a token provider it has to be an answer to somebody who proved who
    /// they are.
    ///
    /// Whoever subscribed on the web, has a new phone and buys while your server is away is charged twice unless this is `true`;
    /// then nobody who is new can buy anything until the server is back. `false` unless told.
    public var refusesUnknownOwnership: Bool
    /// Shows a page.
    public var open: Opener

    /// Puts one together from its parts.
    public init(
        linkPolicy: WebLinkPolicy = .unitedStates, successURL: URL? = nil, cancelURL: URL? = nil,
        refusesUnknownOwnership: Bool = false, open: @escaping Opener
    ) {
        self.linkPolicy = linkPolicy
        self.successURL = successURL
        self.cancelURL = cancelURL
        self.refusesUnknownOwnership = refusesUnknownOwnership
        self.open = open
    }
}

/// A page on which a customer pays for one product.
public struct CheckoutPage: Sendable, Hashable {
    /// The server's id of the checkout.
    public let checkoutID: String
    /// What is paid for.
    public let productID: String
    /// Where the page is.
    ///
    /// Whoever has it can pay, and sees what is sold: show it, and keep it nowhere.
    public let url: URL
    /// Until when it can be paid.
    public let expiresAt: Date
    /// Apple's tokens that went with it, where the store gave any: then Apple may ask for a notice before the page is shown
    /// (`ExternalPurchaseCustomLink.showNotice`), which is your app's to show.
    public let externalPurchaseTokens: [ExternalLinkToken]

    /// Puts one together from its parts.
    public init(
        checkoutID: String, productID: String, url: URL, expiresAt: Date,
        externalPurchaseTokens: [ExternalLinkToken] = []
    ) {
        self.checkoutID = checkoutID
        self.productID = productID
        self.url = url
        self.expiresAt = expiresAt
        self.externalPurchaseTokens = externalPurchaseTokens
    }
}

/// How a page was left, as far as the app knows.
///
/// None of them proves anything: what was paid, the server says. A later major version may add cases; write `default:` where
/// you switch over it.
public enum CheckoutReturn: Sendable, Hashable {
    /// It led to ``WebCheckout/successURL``.
    case completed
    /// It led to ``WebCheckout/cancelURL``, or the person said otherwise that they do not want to pay.
    case cancelled
    /// It was closed, or is open in a browser outside of the app: nobody knows whether it was, or will be, paid.
    case left
    /// It could not be shown, so nothing can have been paid.
    case notOpened
}

/// In which of the App Store's countries an app may offer a link to a page of its own.
///
/// Apple's rules say that, country by country, and change; what holds for your app only you can say. Where the storefront is
/// not known, no link is offered.
public struct WebLinkPolicy: Sendable {
    private let isAllowed: @Sendable (String) -> Bool

    /// Decides by the storefront's country, in ISO 3166-1 alpha-3, such as `USA`.
    public init(_ isAllowed: @escaping @Sendable (_ storefront: String) -> Bool) { self.isAllowed = isAllowed }

    /// In the United States alone.
    public static let unitedStates = WebLinkPolicy.storefronts(["USA"])

    /// In these countries.
    public static func storefronts(_ countries: Set<String>) -> WebLinkPolicy {
        WebLinkPolicy { countries.contains($0) }
    }

    /// Whether a link may be offered.
    public func allows(_ storefront: String) -> Bool { isAllowed(storefront) }
}

/// A token of Apple's for a purchase outside of the App Store, which is to be reported with it.
public struct ExternalLinkToken: Sendable, Hashable {
    /// Apple's word for what it is for, such as `ACQUISITION` or `SERVICES`.
    public let type: String
    /// As Apple made it.
    public let value: String

    /// Puts one together from its parts.
    public init(type: String, value: String) {
        self.type = type
        self.value = value
    }
}

/// Why a product cannot be bought on the web now; new reasons may come, so it is no enumeration.
public struct WebUnavailability: RawRepresentable, Error, Sendable, Hashable {
    /// The word itself.
    public let rawValue: String

    /// Takes any word, known to this version or not.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The app sells nothing on the web (``EntitlementConfiguration/webCheckout``), or syncs with no server.
    public static let notConfigured = WebUnavailability(rawValue: "not_configured")
    /// This device, or the person, is not allowed to buy anything.
    public static let notAllowed = WebUnavailability(rawValue: "not_allowed")
    /// The store does not tell its country, so no link may be offered.
    public static let storefrontUnknown = WebUnavailability(rawValue: "storefront_unknown")
    /// No link may be offered in this country, by ``WebCheckout/linkPolicy``.
    public static let linkNotAllowed = WebUnavailability(rawValue: "link_not_allowed")
    /// Nobody is known to be here yet, or in which environment, so there is nobody to sell to.
    public static let customerUnknown = WebUnavailability(rawValue: "customer_unknown")
    /// Offers of the App Store, and quantities, are not sold there.
    public static let optionsNotSold = WebUnavailability(rawValue: "options_not_sold")
    /// The product has no price on the web.
    public static let noPrice = WebUnavailability(rawValue: "no_price")
    /// The server is of a version that sells nothing on the web.
    public static let notOffered = WebUnavailability(rawValue: "not_offered")
    /// The server could not be reached.
    public static let unreachable = WebUnavailability(rawValue: "unreachable")
    /// The server, or the payment provider behind it, could not do it now.
    public static let serverFailed = WebUnavailability(rawValue: "server_failed")
    /// The server has no account of the payment provider's for this environment, such as none for the sandbox: it is the
    /// server's configuration that is to be mended.
    public static let environmentNotConfigured = WebUnavailability(rawValue: "environment_not_configured")
    /// The server makes no page that leads to ``WebCheckout/successURL``, ``WebCheckout/cancelURL`` or where the customer is to
    /// come back to: it is no `https` address, or on another server than the pages that are configured there.
    public static let pageNotAllowed = WebUnavailability(rawValue: "page_not_allowed")
    /// There is nothing to manage: it is not known that this customer paid for anything on the web.
    public static let nothingBought = WebUnavailability(rawValue: "nothing_bought")
    /// The server did not make a page for this customer, or one that no app should open.
    public static let refused = WebUnavailability(rawValue: "refused")
    /// What was begun could not be kept on disk, and would have been forgotten with the app's end.
    public static let notKept = WebUnavailability(rawValue: "not_kept")
    /// The app could not show the page.
    public static let notOpened = WebUnavailability(rawValue: "not_opened")
}

/// A page that was opened, and of which it is not known yet what became.
public struct UnfinishedCheckout: Sendable, Hashable, Identifiable {
    /// The server's id of the checkout.
    public let id: String
    /// What is paid for.
    public let productID: String
    /// When the page was made.
    public let startedAt: Date
    /// Until when it can be paid.
    public let expiresAt: Date
    /// Whether the page has led to ``WebCheckout/successURL``: the payment is under way, and a bank may take days.
    public let isCompleted: Bool

    /// Puts one together from its parts.
    public init(id: String, productID: String, startedAt: Date, expiresAt: Date, isCompleted: Bool) {
        self.id = id
        self.productID = productID
        self.startedAt = startedAt
        self.expiresAt = expiresAt
        self.isCompleted = isCompleted
    }
}

extension UnfinishedCheckout {
    init(_ checkout: Checkout) {
        self.init(
            id: checkout.id, productID: checkout.productID, startedAt: checkout.beganAt.date,
            expiresAt: checkout.expiresAt.date, isCompleted: checkout.state != .open)
    }
}
