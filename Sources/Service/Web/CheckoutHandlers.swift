import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import StripeAPI
import StripePayloads

/// What is sold on the web: its prices for anybody, a checkout and the portal for whoever has proven to be the customer.
struct CheckoutHandlers: Sendable {
    let context: ServiceContext
    let shops: StripeShops
    let postings: PostingVerifier
    let admission: Admission
    let commandKeys: CommandKeys

    /// `POST /v1/customers/{id}/checkout`: opens a page of Stripe's on which the customer pays for a product.
    ///
    /// Nothing is recorded: what was bought is told by Stripe. Whoever asks again for the same is led to the same page while it
    /// is open, whichever device asks; so a button that is pressed twice opens no second page.
    func openCheckout(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(CheckoutRequest.self)
        let (environment, app) = try await bounds(of: customer, provenBy: request.proof, call)
        let shop = try shop(of: environment)
        let (product, stripe) = try await webProduct(request.productID)
        let order = StripeCheckoutOrder(
            for: customer, of: product.productID, price: stripe.price(in: environment), stripe.mode,
            successURL: try page(request.successURL, else: shop.successURL, of: shop, "success_url", call),
            cancelURL: try page(request.cancelURL, else: shop.cancelURL, of: shop, "cancel_url", call),
            externalPurchaseToken: request.externalPurchaseToken)
        let command = try checkoutKey(of: call, order, environment, isBoughtAgain: request.isBoughtAgain)
        if let kept = try await commandKeys.answer(to: command, now: context.now()) {
            return try answer(try WireJSON.decode(CheckoutDocument.self, from: kept))
        }
        let (facts, _) = try await context.reader.customerFacts(customer, environment: environment, app: app)
        if !request.isBoughtAgain, let obstacle = facts.obstacle(toSelling: product, at: context.now()) {
            throw Problem(obstacle, product)
        }
        try admission.payForPage(of: customer, in: environment, call)
        let sale = CheckoutSale(
            order: order, facts: facts,
            key: try saleKey(of: call, product, environment, again: request.isBoughtAgain ? command?.key ?? "" : nil),
            isBoughtAgain: request.isBoughtAgain, product: product,
            orderHash: context.sha256(Array(order.description.utf8)).hex)
        let document = try await asking(environment, about: "checkout") { end in
            try await self.page(of: sale, shop, environment, until: end)
        }
        let kept = try await commandKeys.keep(
            try WireJSON.encode(document), for: command, about: customer, now: context.now())
        return try answer(try WireJSON.decode(CheckoutDocument.self, from: kept))
    }

    /// `POST /v1/customers/{id}/portal`: opens a page of Stripe's on which the customer looks after what they bought.
    func openPortal(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(PortalRequest.self)
        let (environment, app) = try await bounds(of: customer, provenBy: request.proof, call)
        let shop = try shop(of: environment)
        let returnURL = try page(request.returnURL, else: shop.cancelURL, of: shop, "return_url", call)
        let (facts, _) = try await context.reader.customerFacts(customer, environment: environment, app: app)
        let unknown = Problem(.notFound, Self.whyNobodyPaid(facts))
        guard let payer = try await payer(of: facts) else { throw unknown }
        try admission.payForPage(of: customer, in: environment, call)
        let url = try await asking(environment, about: "portal") { end in
            do {
                let body = try await shop.client.send(
                    StripePortal.request(of: payer, returnURL: returnURL, idempotencyKey: UUID().uuidString),
                    within: end - .now)
                return try StripePortal.url(answer: body, in: environment)
            } catch let error as StripeAPIError where error.param == "customer" {
                throw unknown
            }
        }
        return try .document(PortalDocument(url: url), headers: Self.uncached)
    }

    /// Why there is no portal to lead a customer to, and what gives them one.
    private static func whyNobodyPaid(_ facts: CustomerFacts) -> String {
        guard facts.isNamedByPayersAlone else {
            return "Nothing that this customer paid for on the web is known in this environment."
        }
        return "What this customer has from the web names them by client_reference_id alone, which whoever pays may "
            + "have written: so it is not known who paid. Write rightful_customer_id into its metadata at Stripe, or give the "
            + "customer the login link of Stripe's portal."
    }

    /// What a checkout's `Idempotency-Key` says: it is the customer's, in their environment, and about what is ordered, however
    /// that was proven.
    private func checkoutKey(
        of call: Call, _ order: StripeCheckoutOrder, _ environment: StoreEnvironment, isBoughtAgain: Bool
    ) throws(Problem) -> CommandKey? {
        guard let command = try context.commandKey(of: call) else { return nil }
        let customer = context.sha256(Array(try call.customerID().value.utf8)).hex
        return CommandKey(
            key: "checkout:\(environment.rawValue):\(customer):\(command.key)",
            requestHash: context.sha256(Array("\(isBoughtAgain)\n\(order.description)".utf8)))
    }

    /// What names a sale: who buys, what, and where; whoever insists buys apart, each with a key of their own.
    private func saleKey(
        of call: Call, _ product: CatalogProduct, _ environment: StoreEnvironment, again: String?
    ) throws(Problem) -> String {
        let sold = "\(try call.customerID().value)\n\(product.productID)\n\(again ?? "")\n\(again == nil)"
        return "page:\(environment.rawValue):\(context.sha256(Array(sold.utf8)).hex)"
    }

    /// Whoever has the address can use it.
    private static let uncached = [("Cache-Control", "no-store")]

    private func answer(_ document: CheckoutDocument) throws -> HTTPResponse {
        try .document(document, headers: Self.uncached)
    }

    // MARK: - Who asks, and for what

    /// The environment of whoever has proven to be the customer, and the app to which what they are told is held; without
    /// one they are told all that is the customer's, as by a reconciliation.
    ///
    /// - Throws: `forbidden` where nothing proves it.
    private func bounds(
        of customer: CustomerID, provenBy proof: DeviceProof, _ call: Call
    ) async throws -> (environment: StoreEnvironment, app: AppScope?) {
        switch call.credential {
        case .secretKey:
            try await context.reader.checkMayName(customer, call.scope, param: nil)
            return (try call.environment(named: proof.environment?.named), call.scope.app)
        case .customerToken, nil:
            return (try call.environment(named: proof.environment?.named), call.scope.app)
        case .publishableKey:
            guard proof.appTransaction != nil else {
                throw Problem(
                    .forbidden,
                    "A publishable key proves nothing by itself: send the app transaction, or a customer token.",
                    param: "app_transaction")
            }
            let posting = try await postings.verify(proof.posting, call)
            if case .failure(let refusal)? = posting.appTransaction {
                throw Problem(
                    .forbidden, "The app transaction proves nothing: \(refusal.detail).", param: "app_transaction")
            }
            let question = ReconcileDecision.question(posting, of: customer, credential: call.credential)
            let decision = ReconcileDecision(
                posting, of: customer, credential: call.credential, question,
                snapshot: try await context.reader.snapshot(question), repeating: [])
            guard decision.proof == .appTransaction else {
                throw Problem(
                    .forbidden,
                    decision.appTransactionRefusal.map { "The app transaction proves nothing: \($0.detail)." }
                        ?? "The app transaction is another customer's.", param: "app_transaction")
            }
            return (posting.environment, decision.only ?? call.scope.app)
        }
    }

    private func shop(of environment: StoreEnvironment) throws(Problem) -> StripeShop {
        guard let shop = shops[environment] else {
            throw Problem(
                .wrongEnvironment, "No account of Stripe's is configured for \(environment.rawValue).",
                param: "environment")
        }
        return shop
    }

    private func webProduct(_ id: String) async throws -> (CatalogProduct, StripeProduct) {
        let catalog = try await context.reader.catalog().0
        guard let product = catalog.products.first(where: { $0.productID.utf8.elementsEqual(id.utf8) }) else {
            throw Problem(.unprocessable, "The catalog has no such product.", param: "product_id")
        }
        guard let stripe = product.stripe else {
            throw Problem(.unprocessable, "The catalog does not say how it is sold on the web.", param: "product_id")
        }
        return (product, stripe)
    }

    private func page(
        _ named: String?, else configured: String, of shop: StripeShop, _ param: String, _ call: Call
    ) throws(Problem) -> String {
        do throws(StripeShop.PageRefusal) {
            return try shop.page(named, else: configured, isTrusted: call.isSentWithSecretKey)
        } catch {
            switch error {
            case .noAddress: throw Problem(.malformedRequest, "\(param) is an https:// address.", param: param)
            case .elsewhere:
                throw Problem(
                    .forbidden,
                    "\(param) leads to another server than the pages that are configured; only a secret key may "
                        + "ask for that.", param: param)
            }
        }
    }

    // MARK: - Asking Stripe

    /// How many purchases are looked at to find out who paid.
    private static let payersLookedFor = 8

    /// Who Stripe takes the customer for, by what it told of what they bought last; `nil` where nothing says so.
    ///
    /// Each event that is read is of that purchase, so it names whoever paid for it and nobody else.
    func payer(of facts: CustomerFacts) async throws -> String? {
        for bought in facts.paidOnWeb().prefix(Self.payersLookedFor) {
            for position in bought.positionsOfPayer {
                // What was erased names nobody any more.
                guard let (shown, evidence) = try await context.reader.event(at: position), let evidence else {
                    continue
                }
                let payer =
                    shown.record.type == WebFact.readingLabel
                    ? try? StripePayer.id(inReading: evidence)
                    : try? StripePayer.id(inEvent: StripeEvent.body(evidence, of: shown.record))
                if let payer { return payer }
            }
        }
        return nil
    }

    private func asking<Value: Sendable>(
        _ environment: StoreEnvironment, about page: String,
        _ body: @escaping @Sendable (ContinuousClock.Instant) async throws -> Value
    ) async throws -> Value {
        let reason: String
        let problem: Problem
        do {
            return try await body(.now + context.limits.storePatience)
        } catch let error as StripeAPIError {
            (reason, problem) = (error.description, Problem(error, now: context.now()))
        } catch let error as PayloadError {
            reason = "what Stripe answered cannot be used: \(error)"
            problem = Problem.unavailable("What Stripe answered cannot be used; the service's log says why.")
        }
        context.logger.log(
            .warning, "a page of Stripe's could not be opened",
            [
                ("environment", .string(environment.rawValue)), ("page", .string(page)), ("error", .string(reason)),
            ])
        throw problem
    }
}

extension Problem {
    /// What a failure of Stripe's means to whoever asked for a page of theirs.
    ///
    /// What only the operator can mend is no fault of theirs, and is told in the log.
    fileprivate init(_ error: StripeAPIError, now: Timestamp) {
        switch error.kind {
        case .refused where error.param.map(Self.params.contains) ?? false:
            self.init(.unprocessable, "Stripe does not take it: \(error.message)", param: error.param)
        case .refused, .notFound, .unauthorized, .forbidden:
            self = .unavailable("Stripe does not let this service do it; the service's log says why.")
        case .limited(let until?):
            let seconds = max(1, (until.milliseconds - now.milliseconds + 999) / 1000)
            self.init(.unavailable, "Stripe has been asked too much.", headers: [("Retry-After", String(seconds))])
        case .limited(nil), .unavailable, .unreadable, .outOfTime:
            self = .unavailable("Stripe cannot be asked at this moment; send it again.")
        }
    }

    /// What of a request goes to Stripe as it came.
    private static let params: Set<String> = ["success_url", "cancel_url", "return_url"]

    /// Why somebody would pay twice.
    fileprivate init(_ obstacle: WebSaleObstacle, _ product: CatalogProduct) {
        let again = "send buy_again to sell it once more."
        switch obstacle {
        case .held(let source):
            self.init(
                .alreadyOwned,
                "The customer has \(product.productID) from \(source.rawValue), and it goes on; \(again)",
                param: "product_id")
        case .charged(let original):
            self.init(
                .alreadyOwned,
                "The customer has a subscription to \(product.productID), or to another price of it, \(original), and Stripe "
                    + "charges for that, tries to, or will when it goes on: whoever pays changes it in the portal. Else "
                    + again,
                param: "product_id")
        }
    }
}
