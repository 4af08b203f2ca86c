import EntitlementCore

/// A draft made ready outside the lock: its evidence taken apart and hashed.
///
/// A class, because it is handed on several times and holds dozens of strings and arrays.
final class PreparedEvent: Sendable {
    let draft: EventDraft
    let evidence: EvidenceParts?
    let evidenceHash: Digest?
    /// The key of the first event under its source's id.
    let dedupKey: DedupKey?
    /// What came under that id; `nil` for a fact without one.
    let payloadHash: Digest?
    /// The draft's identities, as they are compared.
    let identities: [ExactText]

    init(_ draft: EventDraft) {
        self.draft = draft
        let prepared =
            switch draft.evidence {
            case .received(let bytes): PreparedEvidence(received: bytes)
            case .verified(let statements): PreparedEvidence(statements)
            case .plain(let bytes): PreparedEvidence(plain: bytes)
            case nil: nil as PreparedEvidence?
            }
        evidence = prepared?.parts
        evidenceHash = prepared?.hash
        let stated = draft.fact.statementKey(in: draft.environment)
        dedupKey = stated.map(draft.fact.dedupKey(of:))
        payloadHash = stated?.payloadHash
        identities = draft.identities.map { ExactText($0) }
    }

    /// The key it has if another payload came under its source's id before; `nil` for a fact without an id of its
    /// source.
    var reusedDedupKey: DedupKey? {
        draft.fact.statementKey(in: draft.environment).map { DedupKey(sourceID: $0.id, payloadHash: $0.payloadHash) }
    }

    /// Whether it can be decided from what a writer remembers and what never changes.
    ///
    /// Else it depends on states, idempotency keys or ownership events, which are read under the head's lock.
    var isDecidedByMemory: Bool {
        guard draft.unchangedSince == nil else { return false }
        return switch draft.deduplication {
        case .statement, .unique: true
        case .command, .news: false
        }
    }

    var commandKey: String? {
        guard case .command(let key, _, _) = draft.deduplication else { return nil }
        return key
    }

    var originalKey: OriginalKey? {
        guard let environment = draft.environment, let id = draft.fact.originalTransactionID else { return nil }
        return OriginalKey(environment: environment, originalTransactionID: id)
    }

    /// The original transaction whose state decides whether the event is news; `nil` where nothing has to be decided.
    var decidingOriginal: OriginalKey? {
        guard case .news = draft.deduplication else { return nil }
        return originalKey
    }
}
