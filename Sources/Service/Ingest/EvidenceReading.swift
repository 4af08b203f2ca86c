import AppStorePayloads
package import AppStoreServer
package import EntitlementCore
package import Ledger
import StripePayloads

/// Reads the evidence of events again, as it was read when it came.
///
/// Without a date of its own, a statement is verified as of the instant when it was recorded.
package struct EvidenceReading: Sendable {
    private let notifications: NotificationVerifier
    private let statements: StatementVerifier
    private let bundleIDs: Set<String>
    private let stripe: StripeWebhooks

    /// - Parameters:
    ///   - bundleIDs: the apps that statements may be about; empty where nobody knows.
    ///   - stripe: the secrets of Stripe's webhooks that are still known.
    package init(jws: JWSVerifier, bundleIDs: Set<String> = [], stripe: StripeWebhooks = StripeWebhooks([])) {
        self.stripe = stripe
        notifications = NotificationVerifier(ofAnyApp: jws)
        statements = StatementVerifier(ofAnyApp: jws)
        self.bundleIDs = bundleIDs
    }

    /// What the event must state.
    ///
    /// - Throws: `NotificationRefusal`, or `EvidenceFault` for evidence of another kind than the event, or of an app that is
    ///   not configured: the store signs for every app there is.
    package func derive(_ evidence: [UInt8], of event: EventRecord, fact: LedgerFact) throws -> DerivedEvent {
        let derived = try read(evidence, of: event, fact: fact)
        if !bundleIDs.isEmpty, let other = derived.fact.bundleIDs.subtracting(bundleIDs).min() {
            throw EvidenceFault(
                description: "is about the app \(other), which is not configured: add it to apps, if it ever was")
        }
        return derived
    }

    private func read(_ evidence: [UInt8], of event: EventRecord, fact: LedgerFact) throws -> DerivedEvent {
        switch fact {
        case .notification:
            let notification = try notifications.verify(signedPayload: evidence, now: event.recordedAt)
            return DerivedEvent(
                environment: notification.environment, type: notification.eventLabel,
                occurredAt: notification.signedDate, fact: .notification(notification.fact),
                identities: notification.identities)
        case .statements(let stated):
            return try derive(evidence, of: event, like: stated)
        case .web:
            return event.source == .stripeAPI
                ? try StripeAnswer.derive(evidence, of: event.type) : try stripe.derive(evidence, of: event.type)
        case .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift, .forgetting,
            .catalog, .access, .storeRequest:
            throw EvidenceFault(description: "is there, though the event is of no signed statement")
        }
    }

    /// Transactions stand first, one a line, and renewal information behind them.
    private func derive(_ evidence: [UInt8], of event: EventRecord, like stated: StatementsFact) throws
        -> DerivedEvent
    {
        let recordedAt = event.recordedAt
        let lines = evidence.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
        guard lines.count >= stated.transactions.count else {
            throw EvidenceFault(description: "has fewer statements than the event")
        }
        var work = SignatureWork()
        var transactions: [VerifiedTransaction] = []
        for line in lines.prefix(stated.transactions.count) {
            transactions.append(try statements.transaction(line, now: recordedAt, work: &work))
        }
        var renewals: [VerifiedRenewal] = []
        for line in lines.dropFirst(stated.transactions.count) {
            renewals.append(try statements.renewal(line, now: recordedAt, work: &work))
        }
        let environments = Set(transactions.map(\.environment) + renewals.map(\.environment))
        guard let environment = environments.first, environments.count == 1 else {
            throw EvidenceFault(description: "is of several environments, or of none")
        }
        let originals = Set(
            transactions.map(\.payload.originalTransactionID) + renewals.map(\.payload.originalTransactionID))
        guard let original = originals.first, originals.count == 1 else {
            throw EvidenceFault(description: "is about several original transactions")
        }
        var identities = IdentityList()
        let facts = transactions.map { $0.fact(&identities) }
        let renewalFacts = Set(renewals.map(\.fact))
        guard renewalFacts == Set(stated.renewals), renewalFacts.count == stated.renewals.count else {
            throw EvidenceFault(description: "has other renewal information than the event")
        }
        let fact = StatementsFact(
            originalTransactionID: original, transactions: facts, renewals: stated.renewals, remarks: [])
        return DerivedEvent(
            environment: environment, type: event.source.statementsLabel, occurredAt: fact.latestSignedDate,
            fact: .statements(fact), identities: identities.customerIDs)
    }
}

/// Why evidence does not prove its event.
package struct EvidenceFault: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
}
