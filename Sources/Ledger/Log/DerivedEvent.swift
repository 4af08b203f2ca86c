package import EntitlementCore

/// What evidence says, derived again: what its event must state.
package struct DerivedEvent: Sendable {
    package var environment: StoreEnvironment
    package var type: String
    package var occurredAt: Timestamp?
    /// Its identity references are indices into `identities`; its remarks do not count, because they tell what was odd
    /// when it came.
    package var fact: LedgerFact
    /// Customer ids in clear.
    package var identities: [String]
    package var signature: EvidenceSignature

    package init(
        environment: StoreEnvironment, type: String, occurredAt: Timestamp?, fact: LedgerFact, identities: [String],
        signature: EvidenceSignature = .checked
    ) {
        self.signature = signature
        self.environment = environment
        self.type = type
        self.occurredAt = occurredAt
        self.fact = fact
        self.identities = identities
    }
}

/// Verifies every signature of an event's evidence, and derives from it what the event must state.
///
/// Throws whatever tells in words why the evidence proves nothing. It keeps a core busy for a fraction of a millisecond,
/// and may be called from any number of threads at once.
package typealias EvidenceDerivation =
    @Sendable (_ evidence: [UInt8], _ event: EventRecord, _ fact: LedgerFact) throws
    -> DerivedEvent

/// What is known of who made a piece of evidence.
package enum EvidenceSignature: Sendable, Hashable {
    /// Its signature was checked.
    case checked
    /// It has one, made with a secret that nobody here knows any more.
    case ofUnknownSecret
    /// It has none: a server said so that was asked.
    case none
}
