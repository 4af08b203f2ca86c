import EntitlementCore

/// A draft made ready outside the lock: its evidence taken apart and hashed.
struct PreparedEvent: Sendable {
    let draft: EventDraft
    let evidence: EvidenceParts?
    let evidenceHash: Digest?
    let dedupKey: DedupKey?

    init(_ draft: EventDraft) {
        self.draft = draft
        let prepared =
            switch draft.evidence {
            case .received(let bytes): PreparedEvidence(received: bytes)
            case .verified(let statements): PreparedEvidence(statements)
            case nil: nil as PreparedEvidence?
            }
        evidence = prepared?.parts
        evidenceHash = prepared?.hash
        dedupKey = draft.fact.dedupKey
    }

    var commandKey: String? {
        guard case .command(let key, _) = draft.deduplication else { return nil }
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
