import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import StripeAPI
import StripePayloads

// A checkout and the portal, for whoever has proven to be the customer.
extension Application {
    /// `POST /v1/customers/{id}/checkout`: opens a page of Stripe's on which the customer pays for a product.
    ///
    /// Nothing is recorded: what was bought is told by Stripe. Under an idempotency key the first page is answered again.
    func openCheckout(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(CheckoutRequest.self)
        let environment = try await environment(of: customer, provenBy: request.proof, call)
        let shop = try shop(of: environment)
        let product = try await webProduct(request.productID)
        let command = try commandKey(of: call)
        if let command, let kept = try await commandKeys.answer(to: command.key, command.requestHash, now: now()) {
            return try answer(try WireJSON.decode(CheckoutDocument.self, from: kept))
        }
        let successURL = try page(request.successURL, else: shop.successURL, of: shop, "success_url", call)
        let cancelURL = try page(request.cancelURL, else: shop.cancelURL, of: shop, "cancel_url", call)
        let (facts, _) = try await reader.customerFacts(customer, environment: environment, app: call.scope.app)
        if !request.isBoughtAgain, let held = facts.answers(at: now()).first(where: { $0.goesOn(with: product.id) }) {
            throw Problem(
                .alreadyOwned,
                "The customer has \(product.id) from \(held.reading.source.rawValue), and it goes on; send buy_again to sell it "
                    + "once more.", param: "product_id")
        }
        // Stripe gives the same session again under the same key, also to whoever sends this again after a crash.
        let key = command.map { sha256(Array("\($0.key)\n\($0.requestHash.hex)".utf8)).hex } ?? UUID().uuidString
        let session = try await asking(environment) { end in
            // Stripe then keeps one for each customer, and the portal shows all they bought. It works without, too.
            let payer = try? await self.payer(of: facts, shop, until: end)
            let order = StripeCheckoutOrder(
                for: customer, of: product.id, product.stripe, successURL: successURL, cancelURL: cancelURL,
                stripeCustomer: payer, externalPurchaseToken: request.externalPurchaseToken)
            do {
                return try await shop.open(order, idempotencyKey: key, in: environment, until: end)
            } catch let error as StripeAPIError where payer != nil && error.param == "customer" {
                // They were deleted at Stripe since.
                return try await shop.open(
                    order.withoutStripeCustomer, idempotencyKey: "\(key)-anew", in: environment, until: end)
            }
        }
        let document = CheckoutDocument(
            id: session.id, url: session.url, expiresAt: session.expiresAt, productID: product.id)
        if let command {
            try await commandKeys.keep(try WireJSON.encode(document), for: command.key, command.requestHash, now: now())
        }
        return try answer(document)
    }

    /// `POST /v1/customers/{id}/portal`: opens a page of Stripe's on which the customer looks after what they bought.
    func openPortal(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let request = try call.command(PortalRequest.self)
        let environment = try await environment(of: customer, provenBy: request.proof, call)
        let shop = try shop(of: environment)
        let returnURL = try page(request.returnURL, else: shop.cancelURL, of: shop, "return_url", call)
        let (facts, _) = try await reader.customerFacts(customer, environment: environment, app: call.scope.app)
        let url = try await asking(environment) { end in
            guard let payer = try await self.payer(of: facts, shop, until: end) else {
                throw Problem(.notFound, "Nothing that this customer bought on the web is known in this environment.")
            }
            let body = try await shop.client.send(
                StripePortal.request(of: payer, returnURL: returnURL, idempotencyKey: UUID().uuidString),
                within: end - .now)
            return try StripePortal.url(answer: body, in: environment)
        }
        return try .document(PortalDocument(url: url), headers: Self.uncached)
    }

    /// Whoever has the address can use it.
    private static let uncached = [("Cache-Control", "no-store")]

    private func answer(_ document: CheckoutDocument) throws -> HTTPResponse {
        try .document(document, headers: Self.uncached)
    }

    // MARK: - Who asks, and for what

    /// The environment of whoever has proven to be the customer.
    ///
    /// - Throws: `forbidden` where nothing proves it.
    private func environment(
        of customer: CustomerID, provenBy proof: DeviceProof, _ call: Call
    ) async throws -> StoreEnvironment {
        switch call.credential {
        case .secretKey:
            try await checkMayName(customer, call.scope, param: nil)
            return try call.environment(named: proof.environment?.named)
        case .customerToken, nil:
            return try call.environment(named: proof.environment?.named)
        case .publishableKey:
            guard proof.appTransaction != nil else {
                throw Problem(
                    .forbidden,
                    "A publishable key proves nothing by itself: send the app transaction, or a customer token.",
                    param: "app_transaction")
            }
            let posting = try await verify(proof.posting, call)
            if case .failure(let refusal)? = posting.appTransaction {
                throw Problem(
                    .forbidden, "The app transaction proves nothing: \(refusal.detail).", param: "app_transaction")
            }
            let question = ReconcileDecision.question(posting, of: customer, credential: call.credential)
            let decision = ReconcileDecision(
                posting, of: customer, credential: call.credential, question,
                snapshot: try await reader.snapshot(question), repeating: [])
            guard decision.proof == .appTransaction else {
                throw Problem(
                    .forbidden,
                    decision.appTransactionRefusal.map { "The app transaction proves nothing: \($0.detail)." }
                        ?? "The app transaction is another customer's.", param: "app_transaction")
            }
            return posting.environment
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

    private func webProduct(_ id: String) async throws -> (id: String, stripe: StripeProduct) {
        let catalog = try await reader.catalog().0
        guard let product = catalog.products.first(where: { $0.productID.utf8.elementsEqual(id.utf8) }) else {
            throw Problem(.unprocessable, "The catalog has no such product.", param: "product_id")
        }
        guard let stripe = product.stripe else {
            throw Problem(.unprocessable, "The catalog does not say how it is sold on the web.", param: "product_id")
        }
        return (product.productID, stripe)
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
    private static let payersLookedFor = 3

    /// Who Stripe takes the customer for, by what they bought last; `nil` where nothing says so.
    private func payer(
        of facts: CustomerFacts, _ shop: StripeShop, until end: ContinuousClock.Instant
    ) async throws -> String? {
        let bought = facts.originals.filter { $0.value.web != nil }
            .sorted { ($0.value.lastPosition, $0.key) > ($1.value.lastPosition, $1.key) }
        for (original, _) in bought.prefix(Self.payersLookedFor) {
            guard let lookup = StripeLookup(id: original),
                let body = try await shop.client.answer(to: lookup, within: end - .now)
            else { continue }
            if let payer = try StripePortal.payer(answer: body) { return payer }
        }
        return nil
    }

    private func asking<Value: Sendable>(
        _ environment: StoreEnvironment,
        _ body: @escaping @Sendable (ContinuousClock.Instant) async throws -> Value
    ) async throws -> Value {
        let reason: String
        let problem: Problem
        do {
            return try await body(.now + limits.storePatience)
        } catch let error as StripeAPIError {
            (reason, problem) = (error.description, Problem(error, now: now()))
        } catch let error as PayloadError {
            reason = "what Stripe answered cannot be used: \(error)"
            problem = Problem.unavailable("What Stripe answered cannot be used; the service's log says why.")
        }
        logger.log(
            .warning, "a page of Stripe's could not be opened",
            [("environment", .string(environment.rawValue)), ("error", .string(reason))])
        throw problem
    }
}

extension StripeShop {
    /// Opens a page on which is paid.
    fileprivate func open(
        _ order: StripeCheckoutOrder, idempotencyKey: String, in environment: StoreEnvironment,
        until end: ContinuousClock.Instant
    ) async throws -> StripeCheckoutSession {
        let body = try await client.send(order.request(idempotencyKey: idempotencyKey), within: end - .now)
        return try StripeCheckoutSession(answer: body, in: environment)
    }
}

extension Problem {
    /// What a failure of Stripe's means to whoever asked for a page of theirs.
    fileprivate init(_ error: StripeAPIError, now: Timestamp) {
        switch error.kind {
        case .refused, .notFound:
            self.init(.unprocessable, "Stripe does not take it: \(error.message)")
        case .unauthorized, .forbidden:
            self = .unavailable("Stripe does not let this service do it; the service's log says why.")
        case .limited(let until?):
            let seconds = max(1, (until.milliseconds - now.milliseconds + 999) / 1000)
            self.init(.unavailable, "Stripe has been asked too much.", headers: [("Retry-After", String(seconds))])
        case .limited(nil), .unavailable, .unreadable, .outOfTime:
            self = .unavailable("Stripe cannot be asked at this moment; send it again.")
        }
    }
}

extension EntitlementAnswer {
    /// Whether it gives access by a product and will do so for good, or until it is paid again.
    fileprivate func goesOn(with productID: String) -> Bool {
        guard givesAccess, let held = reading.productID, held.utf8.elementsEqual(productID.utf8) else { return false }
        return until == nil || willRenew == true
    }
}
