/// A compact JWS (RFC 7515, section 7.1) taken apart; the evidence that is stored of it is made from these parts.
///
/// The verifier passes on what it has decoded, so that it is decoded only once. Unless `isExact` is set, check that the
/// received bytes can be rebuilt from the parts before you store the parts instead of the bytes.
///
/// Two are equal when the received bytes are. A class, because it holds half a dozen arrays and is handed on many times.
package final class JWSParts: Hashable, Sendable {
    /// A header, which a signer repeats in every JWS for months.
    package struct Header: Hashable, Sendable {
        /// In base64url, as received.
        package let encoded: [UInt8]
        /// The SHA-256 of the encoded header.
        package let hash: Digest

        package init(encoded: [UInt8], hash: Digest) {
            self.encoded = encoded
            self.hash = hash
        }
    }

    /// A JWS that stands in the payload of another one as it is.
    package struct Embedded: Sendable {
        /// Where in the decoded payload it stands.
        package let range: Range<Int>
        package let parts: JWSParts

        package init(range: Range<Int>, parts: JWSParts) {
            self.range = range
            self.parts = parts
        }
    }

    /// The exact bytes that were received.
    package let compact: [UInt8]
    /// The SHA-256 of the received bytes.
    package let hash: Digest
    package let header: Header
    /// The decoded payload.
    package let payload: [UInt8]
    /// The decoded signature.
    package let signature: [UInt8]
    /// Every JWS that the payload carries, in the order in which they stand in it.
    package let embedded: [Embedded]
    /// Whether header, payload and signature were decoded strictly from the received bytes, so that encoding them again
    /// gives the same bytes, and every embedded JWS was cut out of the payload at its range.
    package let isExact: Bool

    package init(
        compact: [UInt8], hash: Digest, header: Header, payload: [UInt8], signature: [UInt8],
        embedded: [Embedded] = [], isExact: Bool = false
    ) {
        self.isExact = isExact
        self.compact = compact
        self.hash = hash
        self.header = header
        self.payload = payload
        self.signature = signature
        self.embedded = embedded.sorted { $0.range.lowerBound < $1.range.lowerBound }
    }

    package static func == (left: JWSParts, right: JWSParts) -> Bool { left.hash == right.hash }

    package func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}
