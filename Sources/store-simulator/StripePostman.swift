import Foundation
import FoundationNetworking
import StoreSimulator
import Synchronization

/// Where the pages are, which is known once they are served.
final class Place: Sendable {
    private let address = Mutex("")

    var url: String { address.withLock { $0 } }

    func set(_ url: String) { address.withLock { $0 = url } }
}

/// Delivers events as signed webhooks, each as soon as it happened, and again after a failure.
final class StripePostman: Sendable {
    /// Where webhooks go.
    struct Endpoint: Sendable {
        let url: URL

        /// - Parameter text: the service's address, or that of the route itself.
        init(_ text: String) throws(SimulatorUsageError) {
            guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host != nil else {
                throw SimulatorUsageError("--url must be the service's address, such as http://127.0.0.1:8080")
            }
            self.url = url.path().count > 1 ? url : url.appending(path: "v1/notifications/stripe")
        }
    }

    /// What became of an event's delivery.
    struct Delivery: Sendable {
        let event: StripeEventEntry
        var attempts = 0
        /// When it is tried next, in milliseconds since 1970; nil when it arrived, or nobody tries any more.
        var nextAttempt: Int64?
        /// What was answered last, for people.
        var outcome = "waits"
    }

    /// The seconds after which a failed delivery is tried again, one after the other: as hours are in Stripe's own sandbox,
    /// only that nobody waits so long before a screen.
    private static let patience: [Int64] = [1, 2, 5, 10, 30, 60, 300, 300, 300, 300]
    /// How many deliveries are remembered.
    private static let memory = 10_000

    private struct State: Sendable {
        var deliveries: [Delivery] = []
        var known: Set<String> = []
    }

    private let stripe: SimulatedStripe
    private let configured: Endpoint?
    private let secret: String
    private let state = Mutex(State())
    private let session: URLSession

    init(_ stripe: SimulatedStripe, to endpoint: Endpoint?, secret: String) {
        (self.stripe, configured, self.secret) = (stripe, endpoint, secret)
        session = URLSession(configuration: .ephemeral, delegate: RedirectRefusal(), delegateQueue: nil)
    }

    /// The one that the command names, else the one that was made by the API.
    private var endpoint: Endpoint? { configured ?? stripe.webhookURL.flatMap { try? Endpoint($0) } }

    /// The newest deliveries first.
    var newest: [Delivery] { state.withLock { Array($0.deliveries.suffix(60).reversed()) } }

    /// Makes every attempt that is due.
    func deliver() async {
        let now = StoreSimulatorProgram.currentMilliseconds()
        let endpoint = endpoint
        let due = state.withLock { state -> [Delivery] in
            for event in stripe.events() where state.known.insert(event.id).inserted {
                var delivery = Delivery(event: event)
                delivery.nextAttempt = endpoint == nil ? nil : now
                if endpoint == nil { delivery.outcome = "nobody is told: there is no endpoint" }
                state.deliveries.append(delivery)
            }
            state.deliveries.removeFirst(max(0, state.deliveries.count - Self.memory))
            return state.deliveries.filter { $0.nextAttempt.map { $0 <= now } ?? false }
        }
        for delivery in due { await attempt(delivery) }
    }

    private func attempt(_ delivery: Delivery) async {
        guard let endpoint else { return }
        let sent = StoreSimulatorProgram.currentMilliseconds()
        let request = delivery.event.webhook(to: endpoint.url, signedWith: secret, at: sent)
        let outcome: String
        var hasArrived = false
        do {
            let (_, response) = try await session.data(for: request)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            hasArrived = (200...299).contains(status)
            outcome = "answered \(status)"
        } catch {
            outcome = "no answer: \(error.localizedDescription)"
        }
        let isFirstFailure = !hasArrived && delivery.attempts == 0
        if isFirstFailure { say("\(delivery.event.type) \(delivery.event.id) was not delivered: \(outcome)") }
        state.withLock { state in
            guard let index = state.deliveries.firstIndex(where: { $0.event.id == delivery.event.id }) else { return }
            state.deliveries[index].attempts += 1
            state.deliveries[index].outcome = outcome
            let attempts = state.deliveries[index].attempts
            state.deliveries[index].nextAttempt =
                hasArrived || attempts > Self.patience.count ? nil : sent + Self.patience[attempts - 1] * Span.second
        }
    }
}

extension StripeEventEntry {
    /// The request that delivers it.
    func webhook(to url: URL, signedWith secret: String, at instant: Int64) -> URLRequest {
        let body = json(.recent, pending: 1).json
        var request = URLRequest(url: url, timeoutInterval: 20)
        request.httpMethod = "POST"
        request.setValue("application/json; charset=utf-8", forHTTPHeaderField: "Content-Type")
        request.setValue(
            StripeSigner.header(body, secrets: [secret], at: instant), forHTTPHeaderField: "Stripe-Signature")
        request.httpBody = Data(body)
        return request
    }
}
