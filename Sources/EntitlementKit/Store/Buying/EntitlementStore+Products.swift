extension EntitlementStore {
    // MARK: Looking around

    /// How old the web's prices may be in a list, in milliseconds.
    private static let priceAge: Int64 = 60_000

    /// The products of ``EntitlementConfiguration/productIDs``, in that order, with everywhere they can be bought.
    ///
    /// It returns after ten seconds at the latest. Where the store did not tell by then, ``EntitlementProduct/isStoreKnown`` is
    /// `false` for all of them.
    public func products() async -> [EntitlementProduct] {
        await ready()
        let ids = configuration.productIDs
        let adapter = store
        async let onSale = bounded(Self.storePatience) { try? await adapter.products(ids) }
        async let mayBuy = store.canMakePayments()
        async let onWeb = webOffers()
        let told = await onSale ?? nil
        if told == nil { log(.error, .purchase, "the store did not tell what it sells") }
        let sold = Dictionary((told ?? []).map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        let (canBuy, web) = (await mayBuy, await onWeb)
        return ids.map { id in
            let (price, refusal): (WebPrice?, WebUnavailability?) =
                switch web {
                case .failure(let refusal): (nil, refusal.reason)
                case .success(let shelf): shelf.rows[id]?.price.map { ($0, nil) } ?? (nil, .noPrice)
                }
            return EntitlementProduct(
                id: id, displayName: sold[id]?.displayName, entitlements: entitlements(of: id),
                storeKitAvailable: sold[id] != nil && canBuy, appStorePrice: sold[id]?.displayPrice,
                webPrice: price?.formatted(), web: price, webUnavailability: refusal, storeProduct: sold[id],
                isStoreKnown: told != nil)
        }
    }

    /// What is sold on the web, where a link may be offered at all.
    private func webOffers() async -> Result<WebShelf, ServerRefusal> {
        func none(_ why: WebUnavailability) -> Result<WebShelf, ServerRefusal> { .failure(ServerRefusal(reason: why)) }
        guard let web = configuration.webCheckout, server != nil else { return none(.notConfigured) }
        guard await store.canMakePayments() else { return none(.notAllowed) }
        if let refusal = await linkRefusal(web) { return none(refusal) }
        guard let buyer = await buyerOnWeb() else { return none(.customerUnknown) }
        return await webShelf(buyer.environment, maximumAge: Self.priceAge)
    }
}
