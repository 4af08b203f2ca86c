import EntitlementAPI
import EntitlementCore

/// The answer of `GET /v1/customers/{id}/entitlements`, encoded once: its bytes, the tag of its entitlements, and where
/// the instant and the position stand in it, so that it can be sent again with others.
final class EncodedEntitlements: Sendable {
    /// The body as it was encoded.
    let body: [UInt8]
    /// The entity tag, quotes and `W/` included.
    let tag: String
    /// The instant is text of a fixed length.
    private let instantStart: Int
    private let position: Range<Int>
    /// The instants for which the entitlements are these.
    private let holds: Range<Timestamp>

    private static let instantLength = 24
    /// Whoever keeps an answer asks each time whether it still holds.
    static let cacheControl: StaticString = "private, no-cache"
    /// What a value takes in memory beside its body: the object, the array's header, and the tag's text.
    static let overhead = 192

    /// Encodes an answer of some facts.
    ///
    /// - Parameters:
    ///   - until: when the entitlements change next.
    ///   - sha256: the hash that names answers.
    /// - Throws: what the encoder throws, or `internal` where it writes another form than this knows.
    init(
        _ document: EntitlementsDocument, until: Timestamp, sha256: ([UInt8]) -> Digest
    ) throws {
        body = try WireJSON.encode(document)
        holds = document.at..<max(document.at, until)
        guard
            let instant = body.range(after: #""at":""#, until: #"","customer_id":"#),
            let entitlements = body.range(after: #","entitlements":"#, until: #","environment":"#),
            let position = body.range(after: #","known_at":"#, until: #","object":"entitlements"}"#),
            instant.count == Self.instantLength
        else { throw Problem(.internalError, "The answer was written in a form that cannot be read again.") }
        instantStart = instant.lowerBound
        self.position = position
        // Of the entitlements alone: the instant and the position change with every request.
        tag = "W/\"\(sha256(Array(body[entitlements])).hex.prefix(32))\""
    }

    /// Whether it is the answer at an instant, as far as time alone goes.
    func holds(at instant: Timestamp) -> Bool { holds.contains(instant) }

    /// How long the body is with a position of so many digits.
    func bodyCount(positionDigits: Int) -> Int { body.count - position.count + positionDigits }

    /// Writes the body with another instant and position; both as text.
    func write(instant: String, position text: String, into buffer: UnsafeMutableRawBufferPointer) {
        var instant = instant
        var text = text
        body.withUnsafeBytes { body in
            text.withUTF8 { text in
                let rest = position.lowerBound + text.count
                UnsafeMutableRawBufferPointer(rebasing: buffer[..<position.lowerBound])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: body[..<position.lowerBound]))
                UnsafeMutableRawBufferPointer(rebasing: buffer[position.lowerBound..<rest]).copyBytes(from: text)
                UnsafeMutableRawBufferPointer(rebasing: buffer[rest...])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: body[position.upperBound...]))
            }
        }
        instant.withUTF8 { instant in
            UnsafeMutableRawBufferPointer(rebasing: buffer[instantStart..<instantStart + Self.instantLength])
                .copyBytes(from: instant)
        }
    }
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
