/// What somebody pays, in the currency of their storefront.
package struct StorePrice: Sendable, Hashable {
    /// In thousandths of the currency.
    package let amount: Int64
    /// ISO 4217.
    package let currency: String
    /// The storefront, by ISO 3166-1 alpha-3, and the store's number of it.
    let storefront: String
    let storefrontID: String

    /// What a product costs the buyer of an original transaction: everybody stays in one storefront, told from the id alone.
    init(of product: SimulatedStoreProduct, offer: SimulatedStoreOffer?, original: String) {
        let isFree = offer?.discount == "FREE_TRIAL"
        func price(_ amount: Int64, _ currency: String, _ storefront: String, _ id: String) -> StorePrice {
            StorePrice(isFree ? 0 : amount, currency, storefront, id)
        }
        switch original.utf8.reduce(0, { $0 + Int($1) }) % 5 {
        case 0: self = price(product.price + 500, "EUR", "DEU", "143443")
        case 1: self = price(product.price / 10 * 1500, "JPY", "JPN", "143462")
        case 2: self = price(product.price * 3 / 10, "KWD", "KWT", "143493")
        default: self = price(product.price, "USD", "USA", "143441")
        }
    }

    private init(_ amount: Int64, _ currency: String, _ storefront: String, _ storefrontID: String) {
        (self.amount, self.currency, self.storefront, self.storefrontID) = (amount, currency, storefront, storefrontID)
    }
}
