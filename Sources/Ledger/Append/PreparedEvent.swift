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
        switch draft.evidence {
        case .received(let bytes):
            evidence = EvidenceParts(jws: bytes)
            evidenceHash = Digest(SHA256.hash(bytes))
        case .verified(let statements):
            evidence = EvidenceParts(statements)
            evidenceHash = Self.hash(of: statements)
        case nil:
            evidence = nil
            evidenceHash = nil
        }
        dedupKey = draft.fact.dedupKey
    }

    /// The SHA-256 of the received bytes, one statement a line.
    private static func hash(of statements: [JWSParts]) -> Digest? {
        if statements.count == 1 { return statements[0].hash }
        let lines = statements.map(\.compact).joined(separator: [UInt8(ascii: "\n")])
        return Digest(SHA256.hash(Array(lines)))
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
