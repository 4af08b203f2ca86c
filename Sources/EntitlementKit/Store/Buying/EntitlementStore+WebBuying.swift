import EntitlementAPI
import EntitlementCore
import Foundation

// Buying on a page of the web checkout.
extension EntitlementStore {
    /// What came of an attempt to buy on the web.
    enum WebAttempt {
        /// It was, or could have been, made there, and nowhere else.
        case ended(PurchaseOutcome)
        /// It cannot be made there, and nothing was opened.
        case unavailable(WebUnavailability, detail: String = "")
    }

    /// How long a page of a checkout has to be good for at least to be shown once more, in milliseconds.
    private static let reuseMargin: Int64 = 120_000

    func buyOnWeb(_ productID: String, _ options: PurchaseOptions) async -> WebAttempt {
        guard let web = configuration.webCheckout, server != nil else { return .unavailable(.notConfigured) }
        guard options.quantity == 1, options.offer == nil else { return .unavailable(.optionsNotSold) }
        // Whom somebody keeps from buying in the store is not to be led around that.
        guard await store.canMakePayments() else { return .ended(.failed(PurchaseError(.notAllowed, of: productID))) }
        if let refusal = await linkRefusal(web) { return .unavailable(refusal) }
        guard let seller = await buyerOnWeb() else { return .unavailable(.customerUnknown) }
        guard !disk.unread.contains(.checkouts) else { return .unavailable(.notKept) }
        if let why = await lookAgain(before: productID) { return .unavailable(why) }
        switch await webShelf(seller.environment, maximumAge: Self.shelfAge) {
        case .failure(let refusal): return .unavailable(refusal.reason, detail: refusal.detail)
        case .success(let shelf):
            if shelf.rows[productID]?.price == nil { return .unavailable(.noPrice) }
        }
        if !options.evenIfOwned, let error = await obstacle(to: productID, isOnWeb: true) {
            return .ended(.failed(error))
        }
        guard seller.customerID == ledger.customerID else { return .ended(.failed(Self.changed(productID))) }
        let mustAsk = !options.evenIfOwned && !completedPages(of: productID).isEmpty
        if !mustAsk, let open = checkouts.all.last(where: { $0.productID == productID && isReusable($0) }) {
            checkouts.reopen(open.id, at: now)
            disk.note(.checkouts)
            _ = await persist()
            return await show(open.id, [], web, isNew: false)
        }
        let tokens = await appleTokens()
        switch await begin(productID, seller, web, tokens, options) {
        case .failure(let failure): return failure.attempt
        case .success(let answer): return await keepAndShow(answer, productID, seller, web, tokens, options)
        }
    }

    /// For whom, and in which environment, something is sold.
    struct Buyer: Sendable {
        let customerID: CustomerID
        let storeEnvironment: StoreEnvironment

        /// In the server's word.
        var environment: String { storeEnvironment.rawValue }
    }

    /// What proves whose device it is, where no token does.
    func proof(in environment: StoreEnvironment) -> DeviceProof {
        DeviceProof(
            app: configuration.bundleID, environment: ReconcileRequest.Environment(environment),
            appTransaction: ledger.appTransaction?.jws)
    }

    /// The longest that is waited for the store to say who is here.
    private static let buyerPatience = Duration.seconds(3)

    func buyerOnWeb() async -> Buyer? {
        // Its answer says whose copy of the app it is, and whether money is real.
        if ledger.customerID == nil || ledger.storeEnvironment == nil, let app = askForApp() {
            _ = await bounded(Self.buyerPatience) { await app.value }
        }
        guard isIdentityKnown, let customerID = ledger.customerID, let environment = ledger.storeEnvironment else {
            return nil
        }
        return Buyer(customerID: customerID, storeEnvironment: environment)
    }

    static func changed(_ productID: String) -> PurchaseError {
        PurchaseError(.customerChanged, of: productID, detail: "nothing was opened")
    }

    /// The longest that the store is asked for its country, and for tokens.
    private static let storefrontPatience = Duration.seconds(3)

    /// Why no link may be offered; `nil`: one may.
    func linkRefusal(_ web: WebCheckout) async -> WebUnavailability? {
        let adapter = store
        guard let country = await bounded(Self.storefrontPatience, { await adapter.storefront() }) ?? nil else {
            return .storefrontUnknown
        }
        return web.linkPolicy.allows(country) ? nil : .linkNotAllowed
    }

    private func appleTokens() async -> [ExternalLinkToken] {
        let adapter = store
        return await bounded(Self.storefrontPatience) { await adapter.externalPurchaseTokens() } ?? []
    }

    // MARK: The shelf

    /// How old prices may be that something is sold by, in milliseconds; the page shows the one that is paid.
    private static let shelfAge: Int64 = 600_000
    private static let shelfPatience = Duration.seconds(5)

    /// What the server sells on the web.
    ///
    /// - Parameter maximumAge: in milliseconds.
    func webShelf(_ environment: String, maximumAge: Int64) async -> Result<WebShelf, ServerRefusal> {
        guard let server else { return .failure(ServerRefusal(reason: .notConfigured)) }
        if let shelf, shelf.environment == environment, uptime - shelf.readAt < maximumAge {
            return .success(shelf.shelf)
        }
        let answer = await bounded(Self.shelfPatience) { try? await server.products(environment: environment) } ?? nil
        guard let answer else { return .failure(ServerRefusal(reason: .unreachable)) }
        guard answer.status == 200 else { return .failure(ServerRefusal(answer)) }
        guard let wire = try? WireJSON.decode(WireValue.self, from: Array(answer.body)), let read = WebShelf(wire)
        else {
            return .failure(ServerRefusal(reason: .serverFailed, detail: "the answer is no list of products"))
        }
        shelf = KeptShelf(shelf: read, environment: environment, readAt: uptime)
        return .success(read)
    }

    // MARK: The page

    private struct BeginFailure: Error {
        let attempt: WebAttempt
    }

    /// The longest that is waited for one answer to it, after which nothing that comes is opened any more.
    private static let checkoutPatience = Duration.seconds(12)

    private func begin(
        _ productID: String, _ buyer: Buyer, _ web: WebCheckout, _ tokens: [ExternalLinkToken],
        _ options: PurchaseOptions
    ) async -> Result<CheckoutAnswer, BeginFailure> {
        let request = CheckoutRequest(
            productID: productID, successURL: web.successURL?.withPlaceholders,
            cancelURL: web.cancelURL?.withPlaceholders, externalPurchaseToken: tokens.toReport,
            isBoughtAgain: options.evenIfOwned, proof: proof(in: buyer.storeEnvironment))
        let key = UUID().uuidString
        let answer = await post(buyer.customerID, request, Self.checkoutPatience) { server, token, body in
            try await server.checkout(
                customerID: buyer.customerID.value, token: token, idempotencyKey: key, body: body)
        }
        guard buyer.customerID == ledger.customerID else {
            return .failure(BeginFailure(attempt: .ended(.failed(Self.changed(productID)))))
        }
        switch answer {
        case .failure(let refusal) where refusal.isConflict:
            // The server knows better what is owned, and it must not be sold in the store either.
            let error = PurchaseError(.alreadyOwned, of: productID, detail: refusal.detail)
            return .failure(BeginFailure(attempt: .ended(.failed(error))))
        case .failure(let refusal):
            return .failure(BeginFailure(attempt: .unavailable(refusal.reason, detail: refusal.detail)))
        case .success(let wire):
            guard let read = CheckoutAnswer(wire, productID: productID) else {
                let detail = "the answer is no page that can be opened"
                return .failure(BeginFailure(attempt: .unavailable(.refused, detail: detail)))
            }
            return .success(read)
        }
    }

    /// Posts something about checkouts: once more where no answer came, and where the token was not taken and there is another.
    func post(
        _ customerID: CustomerID, _ request: some Encodable & Sendable, _ patience: Duration,
        _ send: @escaping @Sendable (any EntitlementServer, String?, Data) async throws -> EntitlementServerResponse
    ) async -> Result<WireValue, ServerRefusal> {
        guard let server, let body = try? Data(WireJSON.encode(request)) else {
            return .failure(ServerRefusal(reason: .notConfigured))
        }
        var refusal = ServerRefusal(reason: .unreachable)
        for _ in 0..<2 {
            let token = await token(of: customerID)
            let answer = await bounded(patience) { try? await send(server, token, body) }
            // One that takes its time is not asked again, and what it still says is passed over.
            guard let answer else { return .failure(refusal) }
            guard let answer else { continue }
            if (200..<300).contains(answer.status),
                let wire = try? WireJSON.decode(WireValue.self, from: Array(answer.body))
            {
                return .success(wire)
            }
            refusal = ServerRefusal(answer)
            let said = withoutCustomer(refusal.detail)
            log(.error, .purchase, "the web checkout was answered with status \(answer.status): \(said: said)")
            // What is wrong with the request, no other token mends.
            guard answer.status == 401 || answer.status == 403, refusal.reason == .refused, refusal.isSentence,
                let token,
                tokenWasRefused(token, detail: refusal.detail)
            else {
                return .failure(refusal)
            }
        }
        return .failure(refusal)
    }

    private func keepAndShow(
        _ answer: CheckoutAnswer, _ productID: String, _ buyer: Buyer, _ web: WebCheckout,
        _ tokens: [ExternalLinkToken], _ options: PurchaseOptions
    ) async -> WebAttempt {
        // It may have been bought elsewhere in the meantime, as by somebody who approved it.
        if !options.evenIfOwned, let error = await obstacle(to: productID, isOnWeb: true) {
            return .ended(.failed(error))
        }
        let completed = options.evenIfOwned ? [] : completedPages(of: productID)
        if let other = completed.first(where: { $0.id != answer.id }) {
            // It could be paid beside the one that says it was paid.
            return .ended(.failed(unfinished(other, keepsFrom: productID)))
        }
        // The server knows of no payment, and leads to the page that says it was paid: that can be paid once.
        if let same = completed.last { return await show(same.id, tokens, web, isNew: false) }
        let fold = DeviceFold(ledger)
        let given = entitlements(of: productID)
        let longest = now.adding(milliseconds: Checkout.memory)
        checkouts.begin(
            Checkout(
                id: answer.id, customerID: buyer.customerID, environment: buyer.environment, productID: productID,
                entitlements: given, url: answer.url.absoluteString, beganAt: now,
                expiresAt: min(answer.expiresAt ?? now.adding(milliseconds: Checkout.usualLife), longest),
                known: fold.webOriginals(of: productID).sorted(),
                wasHeldOnWeb: entitlements.all.contains {
                    given.contains($0.id) && $0.source == .webCheckout && $0.givesAccess
                },
                changedAt: now))
        disk.note(.checkouts)
        _ = await persist()
        // A page that is forgotten with the end of the app could be paid, and paid again elsewhere.
        guard !disk.isOutdated(.checkouts), !isStopped else {
            checkouts.forget(answer.id)
            return .unavailable(.notKept)
        }
        guard buyer.customerID == ledger.customerID else {
            checkouts.forget(answer.id)
            disk.note(.checkouts)
            return .ended(.failed(Self.changed(productID)))
        }
        return await show(answer.id, tokens, web, isNew: true)
    }

    /// Whether the page of a checkout can be shown once more: then it is paid once, however often it was opened.
    func isReusable(_ checkout: Checkout) -> Bool {
        checkout.customerID == ledger.customerID && checkout.environment == ledger.storeEnvironment?.rawValue
            && [.open, .cancelled].contains(checkout.state)
            && checkout.expiresAt > now.adding(milliseconds: Self.reuseMargin)
    }

    /// Whether the server is asked once more what became of a page that says it was paid, which proves nothing.
    func isAskedAgain(_ checkout: Checkout) -> Bool {
        isOurs(checkout) && checkout.state == .completed
            && checkout.expiresAt > now.adding(milliseconds: Self.reuseMargin)
    }

    private func completedPages(of productID: String) -> [Checkout] {
        checkouts.all.filter { $0.productID == productID && isAskedAgain($0) }
    }

    private func show(
        _ id: String, _ tokens: [ExternalLinkToken], _ web: WebCheckout, isNew: Bool
    ) async -> WebAttempt {
        guard let checkout = checkouts.checkouts[id], let url = URL(string: checkout.url) else {
            return .unavailable(.notOpened)
        }
        let page = CheckoutPage(
            checkoutID: id, productID: checkout.productID, url: url, expiresAt: checkout.expiresAt.date,
            externalPurchaseTokens: tokens)
        let first = FirstAnswer<CheckoutReturn>()
        // Of two who wait for one page the first waits no longer.
        await pages[id]?.give(.left)
        pages[id] = first
        watchCheckouts(CheckoutWatch.whileShown)
        Task { await first.give(await web.open(page)) }
        let life = max(0, checkout.expiresAt.milliseconds - now.milliseconds) + Checkout.lateness
        let how = await bounded(.milliseconds(life)) { await first.wait() ?? .left } ?? .left
        await first.give(.left)
        if pages[id] === first { pages[id] = nil }
        if how == .notOpened {
            if isNew { checkouts.forget(id) } else { _ = checkouts.returned(id, cancelled: true, at: now) }
            disk.note(.checkouts)
            _ = await persist()
            return .unavailable(.notOpened)
        }
        return .ended(await outcome(of: id, how))
    }
}

extension Checkout {
    /// How long a page can be paid where the server does not tell, in milliseconds.
    static let usualLife: Int64 = 86_400_000
}

/// What the server last said it sells.
struct KeptShelf: Sendable {
    let shelf: WebShelf
    let environment: String
    /// In milliseconds of uptime.
    let readAt: Int64
}
