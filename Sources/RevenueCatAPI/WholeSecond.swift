package import EntitlementCore

/// An instant as RevenueCat writes it: RFC 3339 in UTC without a fraction, such as `2026-11-20T19:00:00Z`.
///
/// Source: the bodies of RevenueCat's REST API v1. What lies between two seconds is written as the earlier one.
package struct WholeSecond: Hashable, Comparable, Sendable {
    /// A whole second.
    package let instant: Timestamp

    /// The second in which an instant lies.
    package init(_ instant: Timestamp) {
        let milliseconds = Timestamp(milliseconds: instant.milliseconds).milliseconds
        let fraction = (milliseconds % 1000 + 1000) % 1000
        self.instant = Timestamp(milliseconds: milliseconds - fraction)
    }

    /// The second before.
    var predecessor: WholeSecond { WholeSecond(instant.adding(milliseconds: -1000)) }

    package static func < (left: WholeSecond, right: WholeSecond) -> Bool { left.instant < right.instant }
}

extension WholeSecond: CustomStringConvertible {
    package var description: String { instant.description.dropLast(".000Z".utf8.count) + "Z" }
}

extension WholeSecond: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let instant = Timestamp(rfc3339: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not an RFC 3339 time")
        }
        self.init(instant)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
