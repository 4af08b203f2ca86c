import EntitlementAPI
import EntitlementCore

/// A decoder of nothing: it notes what is asked of it, and answers each question with some value of the type.
struct DescribingDecoder: Decoder {
    let notes: ObjectNotes
    let describer: DescriberBox

    var codingPath: [any CodingKey] { [DescribingKey(notes)] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(DescribingMembers(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw DescriptionError("a type that is a list by itself needs a description by hand")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer {
        throw DescriptionError("a type that is one value needs a description by hand")
    }
}

/// The members of an object that is described.
private struct DescribingMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: DescribingDecoder

    var codingPath: [any CodingKey] { decoder.codingPath }
    var allKeys: [Key] { [] }

    func contains(_ key: Key) -> Bool { decoder.notes.isPresent(key.stringValue) }

    func decodeNil(forKey key: Key) throws -> Bool { !contains(key) }

    /// Notes that a member is read as a type; some value of it.
    private func note<Value: Decodable>(_ type: Value.Type, _ key: Key, isAsked: Bool) throws -> Value {
        let name = key.stringValue
        if name == "object", type == String.self, let word = decoder.notes.objectName, let value = word as? Value {
            decoder.notes.keep(.word(word), of: name, isAsked: isAsked)
            return value
        }
        let rules = decoder.notes.rules(of: name)
        for rule in rules {
            guard case .words(let words) = rule else { continue }
            let (schema, value) = try decoder.describer.value.describe(words)
            decoder.notes.keep(schema, of: name, isAsked: isAsked)
            guard let word = (value as? any RawRepresentable)?.rawValue as? Value else { break }
            return word
        }
        let (schema, value) = try decoder.describer.value.describe(type)
        decoder.notes.keep(schema, of: name, isAsked: isAsked)
        guard let value = Self.sample(held: rules) as? Value ?? value as? Value else {
            throw DescriptionError("\(type) has no sample of its own type")
        }
        return value
    }

    /// A value that keeps to rules which not every value of the type does.
    private static func sample(held rules: [MemberRule]) -> Any? {
        for rule in rules {
            switch rule {
            case .instant: return Timestamp.sample.description
            case .wholeNumber(let bounds): return bounds.lowerBound
            case .text(let limit, _): if limit < String.sample.utf8.count { return "1" }
            case .nullable, .required, .words, .entries: continue
            }
        }
        return nil
    }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        guard contains(key) else {
            throw DecodingError.keyNotFound(
                key, DecodingError.Context(codingPath: [], debugDescription: "left out to see whether it may be"))
        }
        return try note(type, key, isAsked: true)
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        contains(key) ? try note(type, key, isAsked: false) : nil
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try note(type, key, isAsked: true) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try note(type, key, isAsked: true) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try note(type, key, isAsked: true) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try note(type, key, isAsked: true) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try note(type, key, isAsked: true) }

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        contains(key) ? try note(type, key, isAsked: false) : nil
    }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        contains(key) ? try note(type, key, isAsked: false) : nil
    }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        contains(key) ? try note(type, key, isAsked: false) : nil
    }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        contains(key) ? try note(type, key, isAsked: false) : nil
    }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
        contains(key) ? try note(type, key, isAsked: false) : nil
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        DescribingList(decoder: decoder, member: key.stringValue)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        throw DescriptionError("\(key.stringValue) is read without a type of its own")
    }

    func superDecoder() throws -> any Decoder { throw DescriptionError("classes are not described") }

    func superDecoder(forKey key: Key) throws -> any Decoder { throw DescriptionError("classes are not described") }
}

/// A list with one entry, whose type is noted.
private struct DescribingList: UnkeyedDecodingContainer {
    let decoder: DescribingDecoder
    let member: String

    var codingPath: [any CodingKey] { decoder.codingPath }
    var count: Int? { 1 }
    private(set) var currentIndex = 0
    var isAtEnd: Bool { currentIndex > 0 }

    init(decoder: DescribingDecoder, member: String) {
        self.decoder = decoder
        self.member = member
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let (schema, value) = try decoder.describer.value.describe(type)
        decoder.notes.keep(.list(schema, limit: nil), of: member, isAsked: false)
        currentIndex += 1
        guard let value = value as? Value else { throw DescriptionError("\(type) has no sample of its own type") }
        return value
    }

    mutating func decodeNil() throws -> Bool { false }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        throw DescriptionError("an entry of \(member) is read without a type of its own")
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw DescriptionError("a list in the list \(member) is read without a type of its own")
    }

    mutating func superDecoder() throws -> any Decoder { throw DescriptionError("classes are not described") }
}

// What JSON has by itself.

/// A type of JSON's own, or one that is made of others without a name.
protocol PlainlyDescribed {
    static func describe(with describer: inout Describer) throws -> (schema: Schema, value: Any)
}

extension String: PlainlyDescribed {
    /// It is a UUID, which any text may be that no rule holds to something else.
    static let sample = "00000000-0000-4000-8000-000000000000"

    static func describe(with describer: inout Describer) -> (schema: Schema, value: Any) { (.anyText, sample) }
}

extension Bool: PlainlyDescribed {
    static func describe(with describer: inout Describer) -> (schema: Schema, value: Any) { (.bool, true) }
}

extension Double: PlainlyDescribed {
    static func describe(with describer: inout Describer) -> (schema: Schema, value: Any) { (.number, 1.0) }
}

extension Int: PlainlyDescribed {
    static func describe(with describer: inout Describer) -> (schema: Schema, value: Any) { (.anyInteger, 1) }
}

extension Int64: PlainlyDescribed {
    static func describe(with describer: inout Describer) -> (schema: Schema, value: Any) { (.anyInteger, Int64(1)) }
}

extension Array: PlainlyDescribed where Element: Decodable {
    static func describe(with describer: inout Describer) throws -> (schema: Schema, value: Any) {
        let (schema, value) = try describer.describe(Element.self)
        return (.list(schema, limit: nil), [value].compactMap { $0 as? Element })
    }
}

extension Dictionary: PlainlyDescribed where Key == String, Value: Decodable {
    static func describe(with describer: inout Describer) throws -> (schema: Schema, value: Any) {
        let (schema, value) = try describer.describe(Value.self)
        return (.map(schema), ["name": value].compactMapValues { $0 as? Value })
    }
}

extension Nullable: PlainlyDescribed {
    static func describe(with describer: inout Describer) throws -> (schema: Schema, value: Any) {
        let (schema, value) = try describer.describe(Value.self)
        return (.nullable(schema), Nullable(wrappedValue: value as? Value))
    }
}
