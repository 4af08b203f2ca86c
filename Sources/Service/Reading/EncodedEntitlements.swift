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
    /// - Throws: what the encoder throws, or `internal` where it writes another form than this knows.
    init(
        _ document: EntitlementsDocument, until: Timestamp, sha256: ([UInt8]) -> Digest
    ) throws {
        let body = try WireJSON.encode(document)
        holds = document.at..<max(document.at, until)
        namesOtherEnvironments = document.alsoIn != nil
        guard
            let instant = body.range(after: #""at":""#, until: #"","customer_id":"#),
            let entitlements = body.range(after: #","entitlements":"#, until: #","environment":"#),
            let position = body.range(after: #","known_at":"#, until: #","object":"entitlements"}"#)
        else { throw Problem(.internalError, "The answer was written in a form that cannot be read again.") }
        template = AnswerTemplate(body, gaps: [instant, position])
        // Of the entitlements alone: the instant and the position change with every request.
        tag = "W/\"\(sha256(Array(body[entitlements])).hex.prefix(32))\""
    }

    /// What it takes in memory, in bytes, about.
    var byteCount: Int { template.byteCount + 128 }

    /// Whether it is the answer at an instant, as far as time alone goes.
    func holds(at instant: Timestamp) -> Bool { holds.contains(instant) }

    /// What fills the gaps; both as text.
    static func values(at instant: String, position: String) -> [String] { [instant, position] }
}

extension [UInt8] {
    /// What stands between the first `start` and the last `end`.
    ///
    /// Neither can stand inside a JSON string, where quotes are escaped; and the members between which the values stand
    /// are the document's own, since members of its parts have other names or neighbours.
    fileprivate func range(after start: StaticString, until end: StaticString) -> Range<Int>? {
        withUnsafeBytes { bytes in
            guard let lower = bytes.firstEnd(of: start), let upper = bytes.lastStart(of: end), lower <= upper else {
                return nil
            }
            return lower..<upper
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func firstEnd(of text: StaticString) -> Int? {
        text.withUTF8Buffer { text in
            guard count >= text.count else { return nil }
            for start in 0...(count - text.count) where self[start] == text[0] {
                if self[start..<start + text.count].elementsEqual(text) { return start + text.count }
            }
            return nil
        }
    }

    fileprivate func lastStart(of text: StaticString) -> Int? {
        text.withUTF8Buffer { text in
            guard count >= text.count else { return nil }
            for start in (0...(count - text.count)).reversed() where self[start] == text[0] {
                if self[start..<start + text.count].elementsEqual(text) { return start }
            }
            return nil
        }
    }
}
