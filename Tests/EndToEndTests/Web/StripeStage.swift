import Foundation
import StoreSimulator
import Testing

/// An installation that sells on the web, and a simulated Stripe account with lives that are over by now.
final class StripeStage: Sendable {
    static let key = "sk_live_simulated"
    static let secret = "whsec_simulated"

    let installation: Installation
    let lives: [WebLife]
    let stripe: SimulatedStripe
    private let server: HTTPServerBox

    /// - Parameter seeds: of the lives; everything in them can be read from objects.
    init(seeds: Range<UInt64>) async throws {
        let now = StoreAPIStage.now
        lives = seeds.map { seed in
            WebLife.recent(
                seed: seed, customers: ["\(seed)-first", "\(seed)-second"], until: now + 25 * Span.day, isReadable: true
            )
        }.filter { $0.end < now - Span.day }
        stripe = SimulatedStripe(.production, key: Self.key, lives: lives, now: { StoreAPIStage.now })
        server = try HTTPServerBox(stripe)
        installation = try await Installation(world: .standardOnWeb, settings: Self.settings(at: server.url))
        try Self.writeSecrets(of: installation)
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
    }

    /// What a configuration has to ask a simulated account.
    static func settings(at url: String) -> [String: any Sendable] {
        [
            "stripe": [
                [
                    "environment": "production", "secret_key_path": "stripe-key",
                    "webhook_secret_paths": ["stripe-secret"], "success_url": "https://example.com/thanks",
                    "cancel_url": "https://example.com/plans", "base_url": url,
                ] as [String: any Sendable]
            ]
        ]
    }

    static func writeSecrets(of installation: Installation) throws {
        for (name, secret) in [("stripe-key", key), ("stripe-secret", secret)] {
            let path = installation.directory.appending(path: name).path()
            try #require(
                FileManager.default.createFile(
                    atPath: path, contents: Data(secret.utf8), attributes: [.posixPermissions: 0o600]))
        }
    }

    func remove() async {
        await server.stop()
        installation.remove()
    }

    /// Delivers a life's event, in the shape of an endpoint.
    func deliver(_ event: StripeEventEntry, _ shape: StripeShape, to client: HTTPClient) async throws {
        let body = event.json(shape).json
        let answer = try await client.send(
            "POST", "/v1/notifications/stripe", body: body,
            headers: [
                "Content-Type": "application/json",
                "Stripe-Signature": StripeSigner.header(body, secrets: [Self.secret], at: StoreAPIStage.now),
            ])
        #expect(answer.status == 200, "\(event.id): \(answer.text)")
    }

    /// Holds what everybody has now against the simulator's record.
    func expectHeld(_ client: HTTPClient, _ context: String) async throws {
        let now = StoreAPIStage.now
        for life in lives {
            for customer in life.record.customers {
                let read = try await client.entitlements(of: customer, at: now, context)
                let truth = life.record.customer(customer).answer(at: now)
                #expect(
                    read.filter(\.givesAccess).map(HeldOnWeb.init) == truth.filter(\.givesAccess).map(HeldOnWeb.init),
                    "\(context), seed \(life.seed), \(customer)")
            }
        }
    }
}

/// What objects can still tell of an entitlement: since when it is held they do not say, and of what cost nothing neither when
/// somebody took it.
struct HeldOnWeb: Equatable {
    let entitlement: String
    let state: RecordState
    let until: Int64?
    let productID: String
    let original: String
    let willRenew: Bool?

    init(_ answer: RecordAnswer) {
        (entitlement, state, willRenew) = (answer.entitlement, answer.state, answer.willRenew)
        until = answer.originalTransactionID.hasPrefix("cs_") ? nil : answer.until
        (productID, original) = (answer.productID, answer.originalTransactionID)
    }
}
