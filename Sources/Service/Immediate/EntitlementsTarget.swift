import EntitlementCore

/// The target of a plain `GET /v1/customers/{id}/entitlements`, read from its bytes.
struct EntitlementsTarget {
    static let route = "/v1/customers/{id}/entitlements"
    private static let prefix: StaticString = "/v1/customers/"
    private static let suffix: StaticString = "/entitlements"

    /// The id as it was sent, which needed no percent-encoding.
    let customer: Range<Int>
    /// The environment that the query names.
    let environment: StoreEnvironment?

    /// `nil` for any other target, and for one that asks for more than an environment or needs decoding: the general
    /// path reads those.
    init?(_ target: UnsafeBufferPointer<UInt8>) {
        let start = Self.prefix.utf8CodeUnitCount
        guard Self.has(Self.prefix, in: target, at: 0) else { return nil }
        var end = start
        while end < target.count, target[end] != UInt8(ascii: "/") {
            let byte = target[end]
            // Whatever RFC 3986 lets stand for itself in a segment.
            guard byte > 0x20, byte < 0x7F, byte != UInt8(ascii: "%"), byte != UInt8(ascii: "?") else { return nil }
            end += 1
        }
        guard end > start, end - start <= CustomerID.lengthLimit, Self.has(Self.suffix, in: target, at: end) else {
            return nil
        }
        customer = start..<end
        let query = end + Self.suffix.utf8CodeUnitCount
        if target.count == query {
            environment = nil
        } else if Self.ends("?environment=production", target, at: query) {
            environment = .production
        } else if Self.ends("?environment=sandbox", target, at: query) {
            environment = .sandbox
        } else {
            return nil
        }
    }

    /// Whether a target may be of this route, so that it is worth looking closer.
    static func isLikely(_ target: UnsafeBufferPointer<UInt8>) -> Bool { has(prefix, in: target, at: 0) }

    private static func has(_ text: StaticString, in target: UnsafeBufferPointer<UInt8>, at start: Int) -> Bool {
        text.withUTF8Buffer { text in
            target.count >= start + text.count && target[start..<start + text.count].elementsEqual(text)
        }
    }

    private static func ends(_ text: StaticString, _ target: UnsafeBufferPointer<UInt8>, at start: Int) -> Bool {
        target.count == start + text.utf8CodeUnitCount && has(text, in: target, at: start)
    }
}
