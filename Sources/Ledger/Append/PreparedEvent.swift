import EntitlementCore
import OpenSSLCrypto

/// A draft made ready outside the lock: its evidence taken apart and hashed.
struct PreparedEvent: Sendable {
    let draft: EventDraft
    let evidence: EvidenceParts?
    let evidenceHash: Digest?
    let dedupKey: DedupKey?

    init(_ draft: EventDraft) {
        self.draft = draft
        evidence = draft.evidence.map { EvidenceParts(jws: $0) }
        evidenceHash = draft.evidence.flatMap { Digest(SHA256.hash($0)) }
        dedupKey = draft.fact.dedupKey
    }

    var commandKey: String? {
        guard case .command(let key, _) = draft.identity else { return nil }
        return key
    }

    var originalKey: OriginalKey? {
        guard let environment = draft.environment, let id = draft.fact.originalTransactionID else { return nil }
        return OriginalKey(environment: environment, originalTransactionID: id)
    }

    /// The original transaction whose state decides whether the event is news; `nil` where nothing has to be decided.
    var decidingOriginal: OriginalKey? {
        guard case .news = draft.identity else { return nil }
        return originalKey
    }
}
