import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import Ledger
import StripeAPI

/// A product that is to be sold to a customer on a page of Stripe's.
///
/// Of one sale one page is open at a time.
struct CheckoutSale: Sendable {
    let order: StripeCheckoutOrder
    /// What the ledger knows of the customer.
    let facts: CustomerFacts
    /// Names the sale among the keys of commands, and nobody.
    let key: String
    /// Whether it is sold whatever became of pages before.
    let isBoughtAgain: Bool
    let product: CatalogProduct

    /// How the order is told from another, by whoever it is paid; names nobody.
    let orderHash: String

    /// What the customer bought on the web, as far as the ledger knows.
    var known: Set<String> { Set(facts.originals.values.compactMap { $0.web?.originalTransactionID }) }
}

/// The page that is open for a sale, as it is kept for a day; whoever has its address can pay on it.
private struct OpenedPage: Codable {
    let page: CheckoutDocument
    let order: String
    /// How many were opened for the sale.
    let number: Int
}

extension CheckoutHandlers {
    /// Attempts to open a page when Stripe replays an expired one, or a stored 5xx answer.
    private static let pagesAskedFor = 3
    /// For how long a page has to be good at least, in milliseconds.
    private static let shortestPage: Int64 = 120_000
    /// How long Stripe is asked for the state of a page when we can answer without it.
    private static let standingPatience = Duration.seconds(2)
    /// How many orders are asked about that are not paid.
    private static let unpaidAskedFor = 3

    /// The page of a sale: the one that is open, or another where that came to nothing.
    ///
    /// Where a page is open that leads back to other addresses, it is closed first: nobody should pay on both.
    ///
    /// - Throws: `already_owned` where it was paid, or a payment is under way.
    func page(
        of sale: CheckoutSale, _ shop: StripeShop, _ environment: StoreEnvironment, until end: ContinuousClock.Instant
    ) async throws -> CheckoutDocument {
        let hash = context.sha256(Array(sale.key.utf8))
        let kept = try await commandKeys.answer(to: sale.key, hash, now: context.now())
        let opened = try kept.map { try WireJSON.decode(OpenedPage.self, from: $0) }
        if let opened, let page = try await reuse(opened, for: sale, shop, environment, until: end) { return page }
        if !sale.isBoughtAgain { try await checkUnpaid(sale, shop, until: end) }
        let number = (opened?.number ?? 0) + 1
        let session = try await open(sale, number: number, shop, environment, until: end)
        let made = OpenedPage(
            page: CheckoutDocument(
                id: session.id, url: session.url, expiresAt: session.expiresAt, productID: sale.product.productID),
            order: sale.orderHash, number: number)
        let counts = try WireJSON.decode(
            OpenedPage.self,
            from: try await commandKeys.replace(
                kept, with: try WireJSON.encode(made), for: sale.key, hash, about: sale.order.customer,
                now: context.now()))
        guard counts.page.id != made.page.id else { return made.page }
        // Somebody else was quicker, and one page is enough.
        _ = try? await close(made.page.id, shop, until: end)
        return counts.page
    }

    /// The page that was opened before, where it is good still; `nil` where another is to be opened.
    private func reuse(
        _ opened: OpenedPage, for sale: CheckoutSale, _ shop: StripeShop, _ environment: StoreEnvironment,
        until end: ContinuousClock.Instant
    ) async throws -> CheckoutDocument? {
        let isSame = opened.order == sale.orderHash
        let isOver = isOver(opened.page.expiresAt)
        let standing: StripeCheckoutStanding
        do {
            let body = try await shop.client.send(
                StripeCheckoutStanding.request(opened.page.id), within: min(Self.standingPatience, end - .now))
            standing = try StripeCheckoutStanding(answer: body, in: environment)
        } catch let error as StripeAPIError {
            if error.kind == .notFound { return nil }
            // It says itself what became of it.
            if isSame, !isOver { return opened.page }
            throw error
        }
        switch standing {
        case .open where isSame && !isOver: return opened.page
        case .open:
            do throws(StripeAPIError) {
                try await close(opened.page.id, shop, until: end)
            } catch {
                guard error.kind == .refused else { throw error }
                throw Problem.unavailable("Another checkout for this product is just being paid or closed; try again.")
            }
            return nil
        case .over: return nil
        case .used(let names):
            // What is known of it was looked at already.
            if sale.isBoughtAgain || !sale.known.isDisjoint(with: names) { return nil }
            throw Self.underWay(sale.product)
        }
    }

    private func close(
        _ id: String, _ shop: StripeShop, until end: ContinuousClock.Instant
    ) async throws(StripeAPIError) {
        let request = StripeCheckoutSession.expiry(of: id, idempotencyKey: UUID().uuidString)
        _ = try await shop.client.send(request, within: end - .now)
    }

    private func isOver(_ end: Timestamp?) -> Bool {
        end.map { $0 <= context.now().adding(milliseconds: Self.shortestPage) } ?? false
    }

    /// Asks what became of payments that had not arrived when Stripe spoke of them last.
    ///
    /// Stripe deletes no payment of the live mode. One that it does not know is of test data that was deleted, or of another
    /// account: nothing can come of it here, and it keeps nobody from buying.
    private func checkUnpaid(
        _ sale: CheckoutSale, _ shop: StripeShop, until end: ContinuousClock.Instant
    ) async throws {
        for original in sale.facts.unpaid(of: sale.product, at: context.now()).prefix(Self.unpaidAskedFor) {
            guard let request = StripeCheckoutStanding.request(ofUnpaid: original) else { continue }
            do {
                let body = try await shop.client.send(request, within: min(Self.standingPatience, end - .now))
                if try StripeCheckoutStanding.isUnderWay(answer: body) { throw Self.underWay(sale.product) }
            } catch let error as StripeAPIError where error.kind == .notFound {
                continue
            }
        }
    }

    private static func underWay(_ product: CatalogProduct) -> Problem {
        Problem(
            .alreadyOwned,
            "A payment for \(product.productID) was made already and is under way: the customer has it when it has arrived. Else send "
                + "buy_again to sell it once more.", param: "product_id")
    }

    /// Opens a page, or finds the one that was opened under the same number.
    ///
    /// Stripe answers what it answered first to whoever sends the same key, its own failures included, for a day and longer.
    private func open(
        _ sale: CheckoutSale, number: Int, _ shop: StripeShop, _ environment: StoreEnvironment,
        until end: ContinuousClock.Instant
    ) async throws -> StripeCheckoutSession {
        let payer = try await payer(of: sale.facts)
        do {
            return try await open(sale.order.paid(by: payer), sale, number: number, shop, environment, until: end)
        } catch let error as StripeAPIError where error.param == "customer" && payer != nil {
            // They were deleted at Stripe since.
            return try await open(sale.order, sale, number: number, shop, environment, until: end)
        }
    }

    private func open(
        _ order: StripeCheckoutOrder, _ sale: CheckoutSale, number: Int, _ shop: StripeShop,
        _ environment: StoreEnvironment, until end: ContinuousClock.Instant
    ) async throws -> StripeCheckoutSession {
        for attempt in 1..<Self.pagesAskedFor {
            do {
                let page = try await page(order, sale, number: number, attempt: attempt, shop, environment, until: end)
                if !isOver(page.expiresAt) { return page }
            } catch let error as StripeAPIError where (error.status ?? 0) >= 500 {
                continue
            }
        }
        return try await page(
            order, sale, number: number, attempt: Self.pagesAskedFor, shop, environment, until: end)
    }

    /// Asks for a page under a key of its own.
    private func page(
        _ order: StripeCheckoutOrder, _ sale: CheckoutSale, number: Int, attempt: Int, _ shop: StripeShop,
        _ environment: StoreEnvironment, until end: ContinuousClock.Instant
    ) async throws -> StripeCheckoutSession {
        let identity = "\(sale.key)\n\(number)\n\(attempt)\n\(order.description)"
        let body = try await shop.client.send(
            order.request(idempotencyKey: context.sha256(Array(identity.utf8)).hex), within: end - .now)
        return try StripeCheckoutSession(answer: body, in: environment)
    }
}
