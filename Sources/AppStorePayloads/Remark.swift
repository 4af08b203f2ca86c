/// Something in a payload for a person to look at.
///
/// It changes nothing by itself, and never shows whose purchase it is.
package enum Remark: Hashable, Sendable {
    case unknownType(String)
    case unknownSubtype(String)
    /// A field that is in none of the payloads this version knows.
    case unknownField(path: String)
    /// A known field of another JSON type than documented, or empty where that cannot be; it reads as absent.
    case unexpectedValue(path: String)
    /// A value this version does not know, of a field whose values are enumerated.
    case unknownValue(path: String, value: String)
    /// More than one of the objects of which a notification carries exactly one; the first named was taken.
    case severalContainers([String])
    /// A grace notification without a grace end, which reads as billing retry.
    case graceWithoutEnd
    /// An auto-renewable subscription's transaction without a usable expiry, which gives nothing.
    case subscriptionWithoutEnd
    /// A transaction that expires before its purchase, which gives nothing.
    case endBeforePurchase
    /// A notification of a refund or revocation whose transaction names no date of one, which takes nothing back.
    case revocationWithoutDate
    /// A statement dated later than the clock of whoever verified it.
    case futureSignedDate
    /// An event of Stripe's that says only which object it is about.
    case thinEvent
    /// An event of Stripe's about an account that is connected to ours.
    case connectedAccount

    /// The form in which it is kept: a word, and after a colon what it is about.
    package var text: String {
        switch self {
        case .unknownType(let type): "unknown_type:\(Self.bounded(type))"
        case .unknownSubtype(let subtype): "unknown_subtype:\(Self.bounded(subtype))"
        case .unknownField(let path): "unknown_field:\(Self.bounded(path))"
        case .unexpectedValue(let path): "unexpected_value:\(Self.bounded(path))"
        case .unknownValue(let path, let value): "unknown_value:\(Self.bounded(path))=\(Self.bounded(value))"
        case .severalContainers(let names): "several_containers:\(names.joined(separator: ","))"
        case .graceWithoutEnd: "grace_without_end"
        case .subscriptionWithoutEnd: "subscription_without_end"
        case .endBeforePurchase: "end_before_purchase"
        case .revocationWithoutDate: "revocation_without_date"
        case .futureSignedDate: "future_signed_date"
        case .thinEvent: "thin_event"
        case .connectedAccount: "connected_account"
        }
    }

    private static let maximumPartLength = 96

    /// Foreign text, cut to a length and to printable ASCII, so that it can go to any log or database.
    private static func bounded(_ text: String) -> String {
        let scalars = text.unicodeScalars
        let kept = scalars.prefix(maximumPartLength).map { (0x20..<0x7F).contains($0.value) ? Character($0) : "?" }
        return String(kept) + (scalars.count > maximumPartLength ? "..." : "")
    }
}

/// A set of remarks, bounded when it is read.
package struct RemarkList: Hashable, Sendable {
    private var remarks: Set<Remark> = []

    package init() {}

    /// What is kept of one event at most.
    package static let maximumCount = 32

    package mutating func insert(_ remark: Remark) { remarks.insert(remark) }

    package mutating func formUnion(_ other: RemarkList) { remarks.formUnion(other.remarks) }

    /// The remarks in order, each once, so that one payload always reads the same.
    ///
    /// Of too many, the last one kept says
    /// how many were left out.
    package var texts: [String] {
        guard !remarks.isEmpty else { return [] }
        let all = Set(remarks.map(\.text)).sorted()
        guard all.count > Self.maximumCount else { return all }
        let kept = all.prefix(Self.maximumCount - 1)
        return kept + ["more_remarks:\(all.count - kept.count)"]
    }
}
