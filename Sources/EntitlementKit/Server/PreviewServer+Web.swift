import EntitlementAPI
import EntitlementCore
public import Foundation

/// What a ``PreviewServer`` sells on the web, and what is being bought there.
struct PreviewWeb {
    struct Page {
        let id: String
        let customerID: CustomerID
        let productID: String
        let expiresAt: Timestamp
        var isPaid = false
    }

    var prices: [String: WebPrice] = [:]
    var pages: [Page] = []
    /// The pages by the attempts that they were made for.
    var attempts: [String: String] = [:]
    /// How long a page can be paid, in milliseconds.
    static let life: Int64 = 86_400_000
}

extension PreviewServer {
    // MARK: What a test does

    /// Sells a product on the web; without it there is no web checkout.
    ///
    /// - Parameters:
    ///   - productID: one of the catalog.
    ///   - price: with the interval `day`, `week`, `month` or `year` for a subscription.
    public func sell(_ productID: String, for price: WebPrice) {
        web.prices[productID] = price
        catalog = Catalog(
            products: catalog.products.map { product in
                guard product.productID == productID else { return product }
                return CatalogProduct(
                    productID: productID, entitlements: product.entitlements, duration: product.duration,
                    stripe: StripeProduct(
                        price: "price_" + productID, mode: price.interval == nil ? .payment : .subscription))
            }, policy: catalog.policy)
    }

    /// The customer pays on a page, and the server hears of it at once; devices do when they next ask.
    ///
    /// - Returns: whether it could be paid: once, and as long as it is good.
    @discardableResult
    public func pay(_ page: CheckoutPage) -> Bool {
        guard let index = web.pages.firstIndex(where: { $0.id == page.checkoutID }), !web.pages[index].isPaid,
            web.pages[index].expiresAt > now
        else { return false }
        web.pages[index].isPaid = true
        let (paid, instant) = (web.pages[index], now)
        position += 1
        var fact = WebFact(
            type: "checkout.session.completed", eventID: "evt_\(position)", statedAt: instant,
            payloadHash: PortableSHA256.hash(Array(paid.id.utf8)), originalTransactionID: "pi_" + paid.id,
            owners: [WebOwner(place: .purchase, customer: number(of: paid.customerID.value))])
        if let end = period(of: paid.productID)?.end(from: instant.date) {
            fact.originalTransactionID = "sub_" + paid.id
            let line = WebLine(
                lineID: "il_" + paid.id, item: "si_" + paid.id,
                product: WebProduct(price: "price_" + paid.productID, product: nil), start: instant,
                end: Timestamp(end), isProration: false, amount: 1)
            fact.invoices = [WebInvoice(invoiceID: "in_" + paid.id, paidAt: instant, amountPaid: 1, lines: [line])]
        } else {
            fact.payment = WebPayment(
                paidAt: instant, isPaidByEvent: true, amount: nil, catalogProductID: paid.productID, products: [])
        }
        let original = fact.originalTransactionID ?? paid.id
        states[original, default: OriginalState()].join(
            .web(fact), originalTransactionID: original, source: .notification, position: position)
        return true
    }

    private func period(of productID: String) -> SubscriptionPeriod? {
        switch web.prices[productID]?.interval {
        case "day"?: SubscriptionPeriod(1, .day)
        case "week"?: SubscriptionPeriod(1, .week)
        case "month"?: SubscriptionPeriod(1, .month)
        case "year"?: SubscriptionPeriod(1, .year)
        default: nil
        }
    }

    // MARK: What the Kit asks for

    /// What ``sell(_:for:)`` said.
    public func products(environment: String) throws -> EntitlementServerResponse {
        if let refusal = try refusal(of: nil) { return refusal }
        guard !web.prices.isEmpty else { return EntitlementServerResponse(status: 404, body: Data()) }
        let items = catalog.products.map { product in
            WireValue.object([
                "product_id": .string(product.productID),
                "entitlements": .array(product.entitlements.map { .string($0) }), "app_store": .bool(true),
                "web": web.prices[product.productID].map(Self.stated) ?? .null,
            ])
        }
        return try Self.answer(.object(["object": .string("list"), "items": .array(items)]))
    }

    private static func stated(_ price: WebPrice) -> WireValue {
        .object([
            "amount": .int(price.minorUnits), "currency": .string(price.currencyCode.lowercased()),
            "interval": price.interval.map { .string($0) } ?? .null,
        ])
    }

    private static func answer(_ value: WireValue) throws -> EntitlementServerResponse {
        EntitlementServerResponse(status: 200, body: Data(try WireJSON.encode(value)))
    }

    /// Makes a page, which ``pay(_:)`` pays.
    public func checkout(
        customerID: String, token: String?, idempotencyKey: String, body: Data
    ) throws -> EntitlementServerResponse {
        if let refusal = try refusal(of: token) { return refusal }
        let request = try WireJSON.decode(WireValue.self, from: Array(body))
        guard let productID = request["product_id"]?.text, web.prices[productID] != nil,
            let customer = CustomerID(customerID)
        else {
            return EntitlementServerResponse(status: 404, body: Data())
        }
        let id = web.attempts[idempotencyKey] ?? "preview_\(web.pages.count + 1)"
        web.attempts[idempotencyKey] = id
        // Whoever asks again for the same is led to the same page, until it was paid.
        let isAnother = request["buy_again"]?.flag ?? false
        let known = web.pages.last {
            $0.id == id
                || !isAnother && $0.customerID == customer && $0.productID == productID && !$0.isPaid
                    && $0.expiresAt > now
        }
        let page =
            known
            ?? PreviewWeb.Page(
                id: id, customerID: customer, productID: productID,
                expiresAt: now.adding(milliseconds: PreviewWeb.life))
        if known == nil { web.pages.append(page) }
        return try Self.answer(
            .object([
                "object": .string("checkout"), "id": .string(page.id), "product_id": .string(productID),
                "url": .string("https://preview.invalid/\(page.id)"), "expires_at": .string(page.expiresAt.description),
            ]))
    }

    /// An address that leads nowhere.
    public func portal(customerID: String, token: String?, body: Data) throws -> EntitlementServerResponse {
        if let refusal = try refusal(of: token) { return refusal }
        return try Self.answer(
            .object(["object": .string("portal"), "url": .string("https://preview.invalid/portal")]))
    }
}
