import Foundation

/// How documents of the contract become bytes and back.
package enum WireJSON {
    /// Members in alphabetical order, so that one document is always the same bytes.
    package static func encode(_ document: some Encodable) throws -> [UInt8] {
        Array(try encoder.encode(document))
    }

    /// Reads a document; members it does not know are ignored.
    package static func decode<Document: Decodable>(_ type: Document.Type, from bytes: [UInt8]) throws -> Document {
        try decoder.decode(type, from: Data(bytes))
    }

    /// How deep arrays and objects may lie in each other where any JSON is read.
    package static let depthLimit = 64

    /// Why some bytes are not read as JSON.
    enum Fault: Error, Equatable {
        case notJSON
        /// It lies deeper than `depthLimit`.
        case tooDeep
        /// A number that is too large, or half of a surrogate pair, at a place such as `products[0].product_id`.
        case unreadable(path: String)
    }

    /// Reads any JSON.
    ///
    /// What a value is turns out by attempts, each of which costs the more the deeper it lies.
    static func value(of bytes: [UInt8]) throws(Fault) -> WireValue {
        guard !isDeep(bytes) else { throw .tooDeep }
        if let value = try? decode(WireValue.self, from: bytes) { return value }
        do {
            _ = try decode(Readable.self, from: bytes)
        } catch DecodingError.typeMismatch(_, let context) {
            throw .unreadable(path: CommandBodyError.path(context.codingPath))
        } catch {}
        throw .notJSON
    }

    /// Any JSON whose values can all be read; the error that it throws names the place of the first that cannot.
    private struct Readable: Decodable {
        init(from decoder: any Decoder) throws {
            if let members = try? decoder.container(keyedBy: MemberName.self) {
                for name in members.allKeys.sorted(by: { $0.stringValue < $1.stringValue }) {
                    _ = try members.decode(Readable.self, forKey: name)
                }
            } else if var elements = try? decoder.unkeyedContainer() {
                while !elements.isAtEnd { _ = try elements.decode(Readable.self) }
            } else {
                _ = try WireValue(from: decoder)
            }
        }
    }

    private static func isDeep(_ bytes: [UInt8]) -> Bool {
        var (depth, isText, isEscaped) = (0, false, false)
        for byte in bytes {
            if isText {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isText = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isText = true
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                if depth > depthLimit { return true }
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: continue
            }
        }
        return false
    }

    private static let encoder: JSONEncoder = {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }()

    private static let decoder = JSONDecoder()
}

/// A member that is always written, as `null` where there is no value.
///
/// Where it is missing it reads as `nil` too.
@propertyWrapper
package struct Nullable<Value: Codable & Hashable & Sendable>: Codable, Hashable, Sendable {
    package var wrappedValue: Value?

    package init(wrappedValue: Value?) { self.wrappedValue = wrappedValue }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        wrappedValue = container.decodeNil() ? nil : try container.decode(Value.self)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let wrappedValue { try container.encode(wrappedValue) } else { try container.encodeNil() }
    }
}

/// A member that is at hand as JSON, and looks as a type of the contract does.
@propertyWrapper
package struct Written<Form: Decodable>: Codable, Hashable, Sendable, StandsFor, Sampled {
    package typealias Meant = Form
    package static var sample: Written { Written(wrappedValue: .null) }
    package let wrappedValue: WireValue

    package init(wrappedValue: WireValue) { self.wrappedValue = wrappedValue }

    package init(from decoder: any Decoder) throws { wrappedValue = try WireValue(from: decoder) }

    package func encode(to encoder: any Encoder) throws { try wrappedValue.encode(to: encoder) }
}

extension KeyedDecodingContainer {
    /// What synthesized decoding calls for a ``Nullable`` member.
    package func decode<Value>(_ type: Nullable<Value>.Type, forKey key: Key) throws -> Nullable<Value> {
        tell(.nullable, of: key)
        return Nullable(wrappedValue: try decodeIfPresent(Value.self, forKey: key))
    }

    /// What synthesized decoding calls for one that may be left out besides.
    package func decodeIfPresent<Value>(
        _ type: Nullable<Value>.Type, forKey key: Key
    ) throws -> Nullable<Value>? {
        guard contains(key) else { return nil }
        guard try !decodeNil(forKey: key) else { return Nullable(wrappedValue: nil) }
        return try plain(type, forKey: key)
    }

    /// As any other type is read.
    private func plain<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        try decodeIfPresent(type, forKey: key)
    }
}
