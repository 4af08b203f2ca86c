package import EntitlementCore
import OpenSSLCrypto

/// The evidence of one event, made ready before the event waits for its turn.
package struct PreparedEvidence: Sendable, Equatable {
    /// Exactly what was received: a compact JWS, or several of them, one a line.
    package let received: [UInt8]
    /// The SHA-256 of what was received.
    package let hash: Digest
    /// What is stored of it.
    package let parts: EvidenceParts

    /// What a verifier took apart; `nil` for nothing.
    package init?(_ statements: [JWSParts]) {
        guard let first = statements.first else { return nil }
        if statements.count == 1 {
            received = first.compact
            hash = first.hash
        } else {
            received = Array(statements.map(\.compact).joined(separator: [UInt8(ascii: "\n")]))
            guard let hash = Digest(SHA256.hash(received)) else { return nil }
            self.hash = hash
        }
        parts = EvidenceParts(statements)
    }

    /// Bytes that are no JWS, kept as they were received.
    package init?(plain bytes: [UInt8]) {
        guard let hash = Digest(SHA256.hash(bytes)) else { return nil }
        received = bytes
        self.hash = hash
        parts = EvidenceParts(plain: bytes)
    }

    /// Any bytes that were received, taken apart as far as they are JWS.
    package init?(received: [UInt8]) {
        guard let hash = Digest(SHA256.hash(received)) else { return nil }
        self.received = received
        self.hash = hash
        parts = EvidenceParts(jws: received)
    }
}
