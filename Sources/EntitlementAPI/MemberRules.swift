/// What a member of a document is held to, beyond its type.
package enum MemberRule: Sendable {
    /// It is always written, as `null` where there is no value.
    case nullable
    /// It has to be there, though it is read as if it might be missing.
    case required
    /// A text of 1 to so many bytes of UTF-8, without control characters; `hasLines` allows those that make lines.
    case text(limit: Int, hasLines: Bool)
    /// One of the words of an enumeration.
    case words(any (Decodable & Sendable).Type)
    /// An RFC 3339 time.
    case instant
    /// A whole number within these bounds.
    case wholeNumber(ClosedRange<Int64>)
    /// A list of so many entries at most.
    case entries(limit: Int)
}

/// Keeps what the members of one object are held to.
package protocol MemberRuleKeeper: AnyObject, Sendable {
    func keep(_ rule: MemberRule, of member: String)
}

/// Where the coding path of a decoder begins that reads no value, but finds out what a type asks for.
///
/// So whatever holds a member to a rule says so in passing, and a description needs no second list of the rules.
package struct DescribingKey: CodingKey {
    package let keeper: any MemberRuleKeeper
    package var stringValue: String { "" }
    package var intValue: Int? { nil }

    package init(_ keeper: any MemberRuleKeeper) { self.keeper = keeper }

    package init?(stringValue: String) { nil }

    package init?(intValue: Int) { nil }
}

extension KeyedDecodingContainer {
    /// Tells whoever describes the type, if anybody does, what a member is held to.
    package func tell(_ rule: MemberRule, of key: Key) {
        guard let describing = codingPath.first as? DescribingKey else { return }
        describing.keeper.keep(rule, of: key.stringValue)
    }
}

/// A document that says in its member `object` what it is.
package protocol NamedDocument {
    static var objectName: String { get }
}

/// One of the ways in which a body may be written, where some members exclude each other.
package struct BodyAlternative: Hashable, Sendable {
    /// Names it in descriptions, such as `LinkToCustomer`.
    package let name: String
    /// The members that this one has, and every other has not.
    package let members: Set<String>

    package init(_ name: String, _ members: Set<String>) {
        self.name = name
        self.members = members
    }
}

/// A body of which there are several alternatives.
package protocol AlternativeBody: CommandBody {
    static var alternatives: [BodyAlternative] { get }
}

/// A type that has a value for whoever needs any.
package protocol Sampled {
    static var sample: Self { get }
}

/// What is written and read as another type is, or more leniently.
package protocol StandsFor: Decodable {
    associatedtype Meant: Decodable
}
