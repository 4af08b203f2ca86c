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
    /// - Throws: `EncodingError` for a value that JSON cannot hold, such as a fraction that is not a number.
    package func encoded() throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(self))
    }

    /// The member of an object; nil for anything else.
    package subscript(key: String) -> PayloadValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }
}

extension PayloadValue: Encodable {
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .string(let text): try container.encode(text)
        case .integer(let number): try container.encode(number)
        case .fraction(let number): try container.encode(number)
        case .boolean(let flag): try container.encode(flag)
        case .array(let values): try container.encode(values)
        case .object(let members): try container.encode(members)
        case .null: try container.encodeNil()
        }
    }
}
