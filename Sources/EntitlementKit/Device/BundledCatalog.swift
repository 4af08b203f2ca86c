import EntitlementCore

extension Catalog {
    /// What an app says that products give.
    init(_ mappings: [EntitlementConfiguration.Mapping]) {
        self.init(
            products: mappings.map {
                CatalogProduct(
                    productID: $0.productID, entitlements: $0.entitlements,
                    duration: $0.duration.flatMap { CalendarDuration(iso8601: $0) })
            })
    }

    /// The same with what passes state that products give.
    func adding(_ stated: [PassClaims.Entitlement]) -> Catalog {
        var products = products
        for entitlement in stated {
            guard let productID = entitlement.productID else { continue }
            let index = products.firstIndex { $0.productID == productID }
            let known = index.map { products[$0] }
            let given = known?.entitlements ?? []
            guard !given.contains(entitlement.id) else { continue }
            let product = CatalogProduct(
                productID: productID, entitlements: given + [entitlement.id], duration: known?.duration)
            if let index { products[index] = product } else { products.append(product) }
        }
        return Catalog(products: products, policy: policy)
    }
}

extension EntitlementConfiguration.Mapping {
    /// Whether its duration is none, so that the product gives nothing by it.
    var isDurationUnreadable: Bool { duration.map { CalendarDuration(iso8601: $0) == nil } ?? false }
}
