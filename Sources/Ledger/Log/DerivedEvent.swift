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
    /// Whether its signature was checked; `false` where the secret is not known any more that it was made with.
    package var isSignatureChecked: Bool

    package init(
        environment: StoreEnvironment, type: String, occurredAt: Timestamp?, fact: LedgerFact, identities: [String],
        isSignatureChecked: Bool = true
    ) {
        self.isSignatureChecked = isSignatureChecked
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
