import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StripeAPI

extension CheckoutHandlers {
    /// `GET /v1/products`: the catalog's products, and what they cost on the web.
    func products(_ call: Call) async throws -> HTTPResponse {
        let environment = try call.environment()
        let (catalog, _, position) = try await context.reader.catalog()
        var prices: [String: WebPrices.Known] = [:]
        if shops[environment] != nil {
            prices = await shops.prices.prices(
                catalog.products.compactMap { $0.stripe?.price(in: environment) }, in: environment,
                patience: context.limits.pricePatience)
        }
        let items = catalog.products.map { product in
            ProductDocument(
                productID: product.productID, entitlements: product.entitlements, isInAppStore: product.isInAppStore,
                web: product.stripe.flatMap { prices[$0.price(in: environment)] }.flatMap {
                    ProductDocument.WebPrice($0)
                })
        }
        return try .document(
            ListDocument(items: items, hasMore: false, nextAfter: nil), position: position,
            headers: [("Cache-Control", "private, max-age=60")])
    }
}

extension ProductDocument.WebPrice {
    /// `nil` for what cannot be bought any more.
    fileprivate init?(_ known: WebPrices.Known) {
        guard known.price.isActive else { return nil }
        self.init(
            amount: known.price.amount, currency: known.price.currency, interval: known.price.interval?.unit,
            intervalCount: known.price.interval?.count, asOf: known.readAt)
    }
}
