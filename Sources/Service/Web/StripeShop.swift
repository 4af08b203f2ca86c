import EntitlementCore
import Foundation
package import StripeAPI

/// Where an environment's products are sold on the web.
package struct StripeShop: Sendable {
    package let client: StripeClient
    /// Where Stripe sends whoever has paid, and whoever has not.
    package let successURL: String
    package let cancelURL: String

    package init(client: StripeClient, successURL: String, cancelURL: String) {
        self.client = client.taking(.customers)
        self.successURL = successURL
        self.cancelURL = cancelURL
    }

    /// Why a page is not led to.
    enum PageRefusal: Error {
        case noAddress
        case elsewhere
    }

    /// A page that a request names, or the one that is configured.
    ///
    /// - Parameter isTrusted: whether our own server asks, which may lead anywhere; what a device asks for leads to a server
    ///   that is configured, for anybody can take an app's key out of the app.
    func page(_ named: String?, else configured: String, isTrusted: Bool) throws(PageRefusal) -> String {
        guard let named else { return configured }
        guard let origin = Self.origin(of: named) else { throw .noAddress }
        guard isTrusted || [successURL, cancelURL].contains(where: { Self.origin(of: $0) == origin }) else {
            throw .elsewhere
        }
        return named
    }

    /// Scheme, host and port; `nil` for what no browser opens safely.
    private static func origin(of page: String) -> String? {
        // What Stripe fills in is no part of an address.
        let filled = page.replacingOccurrences(of: "{CHECKOUT_SESSION_ID}", with: "cs_1")
        guard let url = URLComponents(string: filled), let host = url.host?.lowercased(), !host.isEmpty,
            url.user == nil, url.password == nil, let scheme = url.scheme?.lowercased()
        else { return nil }
        guard scheme == "https" || scheme == "http" && ["127.0.0.1", "[::1]", "::1", "localhost"].contains(host) else {
            return nil
        }
        return "\(scheme)://\(host):\(url.port ?? (scheme == "https" ? 443 : 80))"
    }
}

/// The shops of all environments, and what they ask for.
package struct StripeShops: Sendable {
    private let shops: [StoreEnvironment: StripeShop]
    let prices: WebPrices

    /// - Parameter shops: none where nothing is sold on the web.
    init(_ shops: [StoreEnvironment: StripeShop], logger: Logger, now: @escaping @Sendable () -> Timestamp) {
        self.shops = shops
        prices = WebPrices(now: now) { price, environment, error in
            logger.log(
                .warning,
                "a price of the catalog cannot be read from Stripe, and products come without it, or with what it was before",
                [
                    ("price", .string(price)), ("environment", .string(environment.rawValue)),
                    ("error", .string("\(error)")),
                ])
        } read: { id, environment in
            guard let client = shops[environment]?.client else { throw CancellationError() }
            return try StripePrice(answer: try await client.send(StripePrice.request(id)))
        }
    }

    subscript(environment: StoreEnvironment) -> StripeShop? { shops[environment] }
}
