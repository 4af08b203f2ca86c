import EntitlementCore
import PostgresClient

@testable import Ledger

extension EventDraft {
    /// Makes an endpoint.
    ///
    /// - Parameters:
    ///   - types: what it wants to hear of; none stands for all.
    ///   - app: whose customers it hears of; `nil`: everybody's.
    static func endpoint(_ id: String, types: [MessageType] = [], app: String? = nil) -> EventDraft {
        let terms = EndpointTerms(
            urlHash: .zero, secretHash: .zero, origin: "https://example.com", types: types.map(\.rawValue),
            environment: nil, bundleID: app, format: "standard", description: nil)
        return EventDraft(
            environment: nil, source: .api, occurredAt: nil,
            fact: .access(.endpoint(EndpointFact(endpointID: id, change: .made(terms)))), identities: [],
            deduplication: .unique)
    }

    /// Gives somebody an entitlement; for good, where no end is said.
    static func grant(
        _ id: String, of entitlement: String, to customer: String, until: Timestamp? = nil
    ) -> EventDraft {
        EventDraft(
            environment: .production, source: .api, occurredAt: nil,
            fact: .grant(
                GrantFact(
                    grantID: id, customer: IdentityRef(0), entitlementID: entitlement, until: until, reason: "r")),
            identities: [customer], deduplication: .unique)
    }
}

extension WebhookProjector {
    /// One that tells nothing of what changed but that it did.
    init(_ ledger: TestLedger, pageEvents: Int64 = 200, pageCustomers: Int = 64, settle: Duration = .zero) {
        self.init(
            pool: ledger.pool, pageEvents: pageEvents, pageCustomers: pageCustomers, settle: settle, teller: NoTeller(),
            showDrift: { _ in [] }, show: { Array("\($0)".utf8) })
    }
}
