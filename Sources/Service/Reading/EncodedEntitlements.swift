import EntitlementAPI
import EntitlementCore

/// The answer of `GET /v1/customers/{id}/entitlements`, encoded once: with gaps for the instant and the position, so that
/// it can be sent again with others, and the tag of its entitlements.
final class EncodedEntitlements: Sendable {
    /// The gaps are filled with `values(at:position:)`.
    let template: AnswerTemplate
    /// The entity tag, quotes and `W/` included.
    let tag: String
    /// Whether it says where else the customer is known.
    let namesOtherEnvironments: Bool
    /// The instants for which the entitlements are these.
    private let holds: Range<Timestamp>

    /// Whoever keeps an answer asks each time whether it still holds.
    static let cacheControl: StaticString = "private, no-cache"

    /// Encodes an answer of some facts.
    ///
    /// - Parameters:
    ///   - until: when the entitlements change next.
    ///   - sha256: the hash that names answers.
    /// - Throws: what the encoder throws.
    init(
        _ document: EntitlementsDocument, until: Timestamp, sha256: ([UInt8]) -> Digest
    ) throws {
        let encoded = try document.encoded()
        holds = document.at..<max(document.at, until)
        namesOtherEnvironments = document.alsoIn != nil
        template = AnswerTemplate(encoded.bytes, gaps: [encoded.at, encoded.knownAt])
        // Of the entitlements alone: the instant and the position change with every request.
        tag = "W/\"\(sha256(Array(encoded.bytes[encoded.entitlements])).hex.prefix(32))\""
    }

    /// What it takes in memory, in bytes, about.
    var byteCount: Int { template.byteCount + 128 }

    /// Whether it is the answer at an instant, as far as time alone goes.
    func holds(at instant: Timestamp) -> Bool { holds.contains(instant) }

    /// What fills the gaps; both as text.
    static func values(at instant: String, position: String) -> [String] { [instant, position] }
}
