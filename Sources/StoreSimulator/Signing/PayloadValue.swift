import Foundation

/// A JSON value of a simulated payload.
///
/// The simulator keeps its own model of JSON, so that no mistake of the product's decoder can hide in what it is fed.
package enum PayloadValue: Sendable, Hashable {
    case string(String)
    case integer(Int64)
    case fraction(Double)
    case boolean(Bool)
    case array([PayloadValue])
    case object([String: PayloadValue])
    case null

    /// The value as UTF-8 JSON, keys in order, so that equal values give equal bytes.
    ///
    /// - Throws: what Foundation throws for a value that JSON cannot hold, such as a fraction that is not a number.
    package func encoded() throws -> [UInt8] {
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed]
        return Array(try JSONSerialization.data(withJSONObject: foundationValue, options: options))
    }

    /// The member of an object; nil for anything else.
    package subscript(key: String) -> PayloadValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    private var foundationValue: Any {
        switch self {
        case .string(let text): text
        case .integer(let number): NSNumber(value: number)
        case .fraction(let number): NSNumber(value: number)
        case .boolean(let flag): NSNumber(value: flag)
        case .array(let values): values.map(\.foundationValue)
        case .object(let members): members.mapValues(\.foundationValue)
        case .null: NSNull()
        }
    }
}
