import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

/// The payment provider behind a ``ScriptedServer``: its pages, and what was charged on them, whether or not the ledger has
/// heard of it.
struct WebShop: Sendable {
    /// How the routes of the web checkout answer; anything else than `answers` leaves `reconcile` alone.
    enum Mood: Sendable {
        case answers
        case unreachable
        /// A server of before the web checkout, or one that is not set up for it.
        case status(Int)
        /// An answer that no app should follow.
        case says(WireValue)
        /// What is wrong with a request, in the server's own words.
        case problem(Int, code: String, detail: String, param: String? = nil)
    }

    struct Page: Sendable {
        let id: String
        let customerID: String
        let productID: String
        let expiresAt: Timestamp
        /// When it was paid; `nil`: not.
        var paidAt: Timestamp?
        /// The ledger has heard of the payment.
        var isKnown = false
        var isRefunded = false
    }

    struct Asked: Sendable {
        let customerID: String
        let token: String?
        let key: String
        let body: WireValue
    }

    var mood = Mood.answers
    /// In cents; what is not listed is not sold on the web.
    var prices: [String: Int64] = ["monthly": 399, "lifetime": 4900]
    var pages: [Page] = []
    var asked: [Asked] = []
    var productRequests = 0
    /// Checkouts wait here, as at a payment provider that takes its time.
    var door: Door?
    /// Tokens that are over by the time of a checkout.
    var refusedTokens: Set<String> = []
    /// Whether whoever asks again for the same, before the ledger has heard of a payment, is led to the same page.
    var leadsToSamePage = false
    /// How long a page can be paid, in milliseconds.
    var life: Int64 = 86_400_000
    /// Every charge: of whom, for what.
    var charges: [(customerID: String, productID: String)] = []

    mutating func begin(
        _ customerID: String, _ productID: String, key: String, isAnother: Bool = false, at now: Timestamp
    ) -> Page {
        let before = pages.last {
            ($0.customerID, $0.productID, $0.isKnown) == (customerID, productID, false) && $0.expiresAt > now
        }
        if leadsToSamePage, !isAnother, let before { return before }
        // The same attempt is the same page.
        let id = "cs_" + key
        if let known = pages.first(where: { $0.id == id }) { return known }
        let page = Page(
            id: id, customerID: customerID, productID: productID, expiresAt: now.adding(milliseconds: life))
        pages.append(page)
        return page
    }
}

extension ScriptedServer {
    func products(environment: String) async throws -> EntitlementServerResponse {
        let shop = shop {
            $0.productRequests += 1
            return $0
        }
        if let answer = try Self.answer(shop.mood) { return answer }
        let items = state.catalog.products.map { product in
            WireValue.object([
                "product_id": .string(product.productID),
                "entitlements": .array(product.entitlements.map { .string($0) }), "app_store": .bool(true),
                "web": shop.prices[product.productID].map {
                    .object(["amount": .int($0), "currency": .string("usd"), "interval": .string("month")])
                } ?? .null,
            ])
        }
        return try Self.told(.object(["object": .string("list"), "items": .array(items)]))
    }

    func checkout(
        customerID: String, token: String?, idempotencyKey: String, body: Data
    ) async throws -> EntitlementServerResponse {
        let request = try WireJSON.decode(WireValue.self, from: Array(body))
        let door = shop {
            $0.asked.append(WebShop.Asked(customerID: customerID, token: token, key: idempotencyKey, body: request))
            return $0.door
        }
        await door?.pass()
        if let token, state.shop.refusedTokens.contains(token) {
            return try Self.problem(401)
        }
        if let answer = try Self.answer(shop { $0.mood }) { return answer }
        guard let productID = request["product_id"]?.text else {
            return EntitlementServerResponse(status: 400, body: Data())
        }
        let now = now
        let isAnother = request["buy_again"]?.flag ?? false
        let page = shop { $0.begin(customerID, productID, key: idempotencyKey, isAnother: isAnother, at: now) }
        return try Self.told(
            .object([
                "object": .string("checkout"), "id": .string(page.id),
                "url": .string("https://pay.example.com/\(page.id)"), "expires_at": .string(page.expiresAt.description),
                "product_id": .string(productID),
            ]))
    }

    func portal(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse {
        if let answer = try Self.answer(shop { $0.mood }) { return answer }
        return try Self.told(
            .object(["object": .string("portal"), "url": .string("https://pay.example.com/portal/\(customerID)")]))
    }

    private static func answer(_ mood: WebShop.Mood) throws -> EntitlementServerResponse? {
        switch mood {
        case .answers: nil
        case .unreachable: throw URLError(.notConnectedToInternet)
        case .status(let status): EntitlementServerResponse(status: status, body: Data())
        case .says(let value): try told(value)
        case .problem(let status, let code, let detail, let param):
            EntitlementServerResponse(
                status: status,
                body: Data(
                    try WireJSON.encode(
                        ProblemDocument(
                            code: code, title: code, status: status, detail: detail, param: param, isRetryable: false,
                            requestID: "req_1"))))
        }
    }

    private static func told(_ value: WireValue) throws -> EntitlementServerResponse {
        EntitlementServerResponse(status: 200, body: Data(try WireJSON.encode(value)))
    }

    // MARK: What happens outside of the app

    @discardableResult
    func shop<Answer: Sendable>(_ body: (inout WebShop) -> Answer) -> Answer {
        change { body(&$0.shop) }
    }

    /// Somebody pays on a page; returns whether it took the money.
    @discardableResult
    func pay(_ checkoutID: String) -> Bool {
        let now = now
        return shop { shop in
            guard let index = shop.pages.firstIndex(where: { $0.id == checkoutID }), shop.pages[index].paidAt == nil,
                shop.pages[index].expiresAt > now
            else { return false }
            shop.pages[index].paidAt = now
            shop.charges.append((shop.pages[index].customerID, shop.pages[index].productID))
            return true
        }
    }

    /// The payment provider's message arrives at the ledger, for a page that was paid.
    func hear(_ checkoutID: String) {
        edit { script in
            guard let index = script.shop.pages.firstIndex(where: { $0.id == checkoutID }),
                let paidAt = script.shop.pages[index].paidAt
            else { return }
            script.shop.pages[index].isKnown = true
            let page = script.shop.pages[index]
            let customer = script.number(of: page.customerID)
            script.tellWeb("checkout.session.completed", page, at: paidAt) { fact in
                fact.owners = [WebOwner(place: .purchase, customer: customer)]
                guard page.productID != "monthly" else {
                    let line = WebLine(
                        lineID: "il_\(page.id)", item: "si_\(page.id)",
                        product: WebProduct(price: "price_monthly", product: nil), start: paidAt,
                        end: paidAt.adding(milliseconds: 30 * Statements.day), isProration: false, amount: 399)
                    fact.invoices = [
                        WebInvoice(invoiceID: "in_\(page.id)", paidAt: paidAt, amountPaid: 399, lines: [line])
                    ]
                    fact.invoicePayments = [
                        WebInvoicePayment(
                            paymentIntent: "pi_\(page.id)", charge: nil, invoice: "in_\(page.id)", amount: 399)
                    ]
                    return
                }
                fact.payment = WebPayment(
                    paidAt: paidAt, isPaidByEvent: true, amount: 4900, catalogProductID: page.productID, products: [])
                fact.invoicePayments = [
                    WebInvoicePayment(paymentIntent: "pi_\(page.id)", charge: nil, invoice: nil, amount: 4900)
                ]
            }
        }
    }

    /// All of the money is given back, and the ledger hears of it.
    func refund(_ checkoutID: String) {
        let now = now
        edit { script in
            guard let index = script.shop.pages.firstIndex(where: { $0.id == checkoutID }) else { return }
            script.shop.pages[index].isRefunded = true
            let page = script.shop.pages[index]
            script.tellWeb("refund.created", page, at: now) { fact in
                fact.refunds = [
                    WebRefund(
                        refundID: "re_\(page.id)", amount: page.productID == "monthly" ? 399 : 4900,
                        status: .known(.succeeded), created: now, paymentIntent: "pi_\(page.id)", charge: nil)
                ]
            }
        }
    }

    /// The id of the page that was made last.
    var lastPage: String? { state.shop.pages.last?.id }
}

extension ScriptedServer.Script {
    /// What the payment provider calls what a page has sold.
    static func original(_ page: WebShop.Page) -> String {
        (page.productID == "monthly" ? "sub_" : "pi_") + page.id
    }

    /// What the payment provider says of what a page has sold.
    mutating func tellWeb(
        _ type: String, _ page: WebShop.Page, at instant: Timestamp, _ change: (inout WebFact) -> Void
    ) {
        let original = Self.original(page)
        position += 1
        var fact = WebFact(
            type: type, eventID: "evt_\(position)", statedAt: instant,
            payloadHash: PortableSHA256.hash(Array("\(type) \(page.id) \(position)".utf8)),
            originalTransactionID: original)
        change(&fact)
        states[original, default: OriginalState()].join(
            .web(fact), originalTransactionID: original, source: .notification, position: position)
    }

    /// The catalog says how products are sold on the web, too.
    mutating func sellsOnWeb() {
        catalog = Catalog(
            products: catalog.products.map {
                CatalogProduct(
                    productID: $0.productID, entitlements: $0.entitlements, duration: $0.duration,
                    stripe: StripeProduct(
                        price: "price_\($0.productID)", mode: $0.productID == "monthly" ? .subscription : .payment))
            }, policy: catalog.policy)
    }
}

/// The person in front of the pages that an app shows.
actor Payer {
    private(set) var pages: [CheckoutPage] = []
    private var act: @Sendable (CheckoutPage) async -> CheckoutReturn

    init(_ act: @escaping @Sendable (CheckoutPage) async -> CheckoutReturn = { _ in .left }) { self.act = act }

    /// Says what they do from now on.
    func set(_ act: @escaping @Sendable (CheckoutPage) async -> CheckoutReturn) { self.act = act }

    func visit(_ page: CheckoutPage) async -> CheckoutReturn {
        pages.append(page)
        return await act(page)
    }
}

extension KitRig {
    /// A device of an app that sells on the web, too, in the United States.
    ///
    /// - Parameter world: where several devices live in one.
    static func web(
        _ payer: Payer, beside world: (clock: ManualClock, server: ScriptedServer)? = nil,
        device edit: (inout ScriptedStore.Script) -> Void = { _ in },
        server editServer: (inout ScriptedServer.Script) -> Void = { _ in },
        configuration editConfiguration: (inout EntitlementConfiguration) -> Void = { _ in }
    ) -> KitRig {
        KitRig(beside: world) {
            $0.storefront = "USA"
            $0.products = [
                StoreProduct(id: "monthly", displayName: "Monthly", displayPrice: "$4.99"),
                StoreProduct(id: "lifetime", displayName: "For ever", displayPrice: "$59.99"),
            ]
            edit(&$0)
        } server: {
            $0.sellsOnWeb()
            $0.provesByAppTransaction = true
            editServer(&$0)
        } configuration: {
            $0.webCheckout = WebCheckout(
                successURL: URL(string: "https://app.example.com/paid"),
                cancelURL: URL(string: "https://app.example.com/shop?changed=mind")
            ) { await payer.visit($0) }
            editConfiguration(&$0)
        }
    }

    /// Buys something, and lets time pass from when a page is shown.
    func buy(
        _ productID: String = "monthly", via channel: PurchaseChannel = .web, _ payer: Payer,
        options: PurchaseOptions = PurchaseOptions()
    ) async -> PurchaseReport {
        await whileTimePasses(afterPageOf: payer) {
            await store.purchase(productID, via: channel, options: options)
        }
    }

    /// Lets time pass from when a page is shown until something is done: what comes before the page is not to be outrun.
    func whileTimePasses<Answer: Sendable>(afterPageOf payer: Payer, _ body: () async -> Answer) async -> Answer {
        let before = await payer.pages.count
        return await EntitlementKitTests.whileTimePasses(on: clock, since: { await payer.pages.count > before }, body)
    }

    /// Waits until what was to happen by now about checkouts has happened: a test's clock outruns whoever is woken by it.
    func caughtUp() async {
        await eventually("caught up") {
            let (due, uptime) = await (store.checkoutTimer?.due, store.uptime)
            return due.map { $0 > uptime } ?? true
        }
        await store.settled()
    }

    /// What the page leads back to, for the page that was made last.
    func paidURL(_ checkoutID: String? = nil) -> URL {
        URL(string: "https://app.example.com/paid/?checkout=\(checkoutID ?? server.lastPage ?? "none")&more=1")
            ?? URL(fileURLWithPath: "/")
    }
}
