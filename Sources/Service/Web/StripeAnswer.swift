import AppStorePayloads
import EntitlementCore
import Ledger
import StripePayloads

/// What Stripe's API answered, as evidence: nobody signs it, and it came over TLS from whoever the key was shown to.
enum StripeAnswer {
    /// What the event of an answer must state.
    ///
    /// - Throws: `PayloadError`.
    static func derive(_ evidence: [UInt8], of label: String) throws -> DerivedEvent {
        guard label == WebFact.readingLabel else {
            let event = try StripeEvent(
                parsing: evidence, sha256: SignedWebhook.hash, knowing: { StripeEvent.isRead($0, of: label) })
            return DerivedEvent(
                environment: event.environment, type: event.label, occurredAt: event.created, fact: .web(event.fact),
                identities: event.identities.customerIDs, signature: .none)
        }
        let reading = try StripeReading(evidence: evidence)
        let (fact, identities) = try reading.fact(sha256: SignedWebhook.hash)
        return DerivedEvent(
            environment: reading.environment, type: label, occurredAt: fact.statedAt, fact: .web(fact),
            identities: identities.customerIDs, signature: .none)
    }
}

extension StripeEvent {
    /// Whether an event of this type is read in an event of the log: what came when its type was not known is read as not
    /// known, whatever this version knows.
    static func isRead(_ type: String, of label: String) -> Bool {
        label != unknownLabel && StripeEventType.isKnown(type)
    }

    /// Its body, byte for byte as Stripe sent it.
    static func body(_ evidence: [UInt8], of record: EventRecord) -> [UInt8] {
        record.source == .stripeNotification ? SignedWebhook(evidence: evidence).body : evidence
    }

    /// The event that stands in a piece of evidence, as it was read when it came.
    init(evidence: [UInt8], of record: EventRecord) throws(PayloadError) {
        try self.init(
            parsing: Self.body(evidence, of: record), sha256: SignedWebhook.hash,
            knowing: { Self.isRead($0, of: record.type) })
    }
}

extension EventDraft {
    /// What a reading appends.
    init(_ fact: WebFact, _ identities: IdentityList, _ reading: StripeReading) {
        self.init(
            environment: reading.environment, source: .stripeAPI, type: WebFact.readingLabel,
            occurredAt: fact.statedAt, fact: .web(fact), identities: identities.customerIDs, deduplication: .news,
            evidence: .plain(reading.evidence))
    }
}
