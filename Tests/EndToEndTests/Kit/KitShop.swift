import EntitlementCore
import EntitlementKit
import Foundation
import HTTPServer
import Service
import StoreSimulator
import StripeAPI
import Synchronization
import Testing

/// The simulated Stripe of a simulated world, on a socket of its own: it sells, its webhooks come when the test says so, and
/// people go through its pages.
final class KitShop: Sendable {
    /// What somebody does on a page.
    enum Manner: Sendable, CaseIterable {
        case pays
        /// They pay, and the browser never comes back to the app.
        case paysAndLeaves
        case cancels
        /// They close the page, which can still be paid.
        case leaves
    }

    static let secret = "whsec_simulated"
    private static let key = "sk_live_simulated"

    let stripe: SimulatedStripe
    let url: String
    private let clock: WorldClock
    private let server: HTTPServer
    private let delivered = Mutex<Set<String>>([])
    private let shown = Mutex<[CheckoutPage]>([])
    private let plan = Mutex(Plan())

    init(_ clock: WorldClock, seed: UInt64) throws {
        self.clock = clock
        stripe = SimulatedStripe(
            .production, key: Self.key, seed: seed, pages: { "http://127.0.0.1:1" }, now: { clock.instant })
        server = stripe.makeServer()
        try server.start()
        url = "http://127.0.0.1:\(server.boundPort ?? 0)"
    }

    func client() throws -> StripeClient {
        let clock = clock
        var retry = StripeRetry()
        retry.attempts = 1
        return StripeClient(
            try #require(StripeKey(Self.key)), base: url, retry: retry,
            // The clock stands still, and a turn that lies ahead would never come.
            surroundings: .init(now: { clock.timestamp }, sleep: { _ in }, fraction: { 0 }))
    }

    func webhookSecret() throws -> StripeWebhookSecret {
        try #require(StripeWebhookSecret(Self.secret, of: .production))
    }

    static func shop(_ client: StripeClient) -> StripeShop {
        StripeShop(
            client: client, successURL: "https://example.com/thanks", cancelURL: "https://example.com/plans")
    }

    func stop() async { await server.stop(graceSeconds: 0) }

    // MARK: - People

    /// What the next person does who is shown a page, and what happens while they look at it.
    private struct Plan: Sendable {
        var manner = Manner.pays
        var meanwhile: @Sendable () async -> Void = {}
    }

    func expect(_ manner: Manner, meanwhile: @escaping @Sendable () async -> Void = {}) {
        plan.withLock { $0 = Plan(manner: manner, meanwhile: meanwhile) }
    }

    /// How an app of this world sells on the web.
    static func checkout(_ shop: KitShop) -> WebCheckout {
        WebCheckout { page in
            let plan = shop.plan.withLock { $0 }
            let how = shop.visit(page, plan.manner)
            await plan.meanwhile()
            return how
        }
    }

    /// The pages that were shown so far.
    var pages: [CheckoutPage] { shown.withLock { $0 } }

    /// Somebody is shown a page.
    private func visit(_ page: CheckoutPage, _ manner: Manner) -> CheckoutReturn {
        shown.withLock { $0.append(page) }
        switch manner {
        case .pays: return pay(page.checkoutID) ? .completed : .left
        case .paysAndLeaves:
            _ = pay(page.checkoutID)
            return .left
        case .cancels: return .cancelled
        case .leaves: return .left
        }
    }

    /// Somebody pays on a page that is still open; false where it is not.
    @discardableResult
    func pay(_ checkout: String, by payment: SimulatedStripe.Payment = .card) -> Bool {
        clock.advance(by: Span.second)
        return stripe.pay(checkout, by: payment) != nil
    }

    // MARK: - Webhooks

    /// The same while somebody looks at a page.
    func deliverMeanwhile(to service: KitService) async {
        do { try await deliver(to: service) } catch { Issue.record("nothing was delivered: \(error)") }
    }

    /// Lets time do what it does at Stripe's, and delivers what happened since the last time.
    ///
    /// - Parameter order: in which order, and what of it twice.
    func deliver(
        to service: KitService, _ context: String = "",
        order: ([StripeEventEntry]) -> [StripeEventEntry] = { $0 }
    ) async throws {
        // What is paid takes some seconds.
        clock.advance(by: 5 * Span.second)
        stripe.tick()
        let events = delivered.withLock { delivered in
            stripe.events().filter { delivered.insert($0.id).inserted }
        }
        for event in order(events) {
            let body = event.json(.recent).json
            let answer = try await service.admin.send(
                "POST", "/v1/notifications/stripe", body: body,
                headers: [
                    "Content-Type": "application/json",
                    "Stripe-Signature": StripeSigner.header(body, secrets: [Self.secret], at: clock.instant),
                ])
            try #require(answer.status == 200, "\(context): \(answer.text)")
        }
        // Some seconds later.
        clock.advance(by: Span.minute)
        try await service.lookUp()
    }
}

extension KitService {
    /// Buys something, while time passes as far as somebody waits for it.
    func buy(_ productID: String, via channel: PurchaseChannel, on kit: EntitlementStore) async -> PurchaseReport {
        await clock.passing { await kit.purchase(productID, via: channel) }
    }
}
