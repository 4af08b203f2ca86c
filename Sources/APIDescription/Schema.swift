package import EntitlementAPI

/// What JSON a value may be, in the words of JSON Schema (2020-12).
package indirect enum Schema: Hashable, Sendable {
    /// What a text is, beyond a text.
    package struct Text: Hashable, Sendable {
        /// Such as `date-time`.
        package var format: String?
        /// In bytes of UTF-8; as characters have one at least, it bounds their number too.
        package var byteLimit: Int?
        package var pattern: String?

        package init(format: String? = nil, byteLimit: Int? = nil, pattern: String? = nil) {
            self.format = format
            self.byteLimit = byteLimit
            self.pattern = pattern
        }
    }

    case any
    case bool
    case integer(ClosedRange<Int64>?)
    case number
    case text(Text)
    /// This word alone.
    case word(String)
    /// One of these words.
    case words([String])
    /// A word, of which these are known so far: others may be added.
    case openWords([String])
    case list(Schema, limit: Int?)
    /// An object whose members have names of their own.
    case map(Schema)
    case object(ObjectSchema)
    /// A component by its name.
    case reference(String)
    case oneOf([Schema])
    /// That, or `null`.
    case nullable(Schema)

    package static let anyText = Schema.text(Text())
    package static let anyInteger = Schema.integer(nil)
    package static let instant = Schema.text(Text(format: "date-time"))
}

/// An object and its members.
package struct ObjectSchema: Hashable, Sendable {
    package struct Member: Hashable, Sendable {
        package var schema: Schema
        package var isRequired: Bool
        /// For people.
        package var note: String?

        package init(_ schema: Schema, isRequired: Bool, note: String? = nil) {
            self.schema = schema
            self.isRequired = isRequired
            self.note = note
        }
    }

    package var members: [String: Member]

    package init(_ members: [String: Member]) { self.members = members }
}

extension Schema {
    /// The schema as a description has it.
    package var json: WireValue { .object(members) }

    private var members: [String: WireValue] {
        switch self {
        case .any: [:]
        case .bool: ["type": "boolean"]
        case .integer(let bounds): Self.members(ofInteger: bounds)
        case .number: ["type": "number"]
        case .text(let text): Self.members(of: text)
        case .word(let word): ["type": "string", "const": .string(word)]
        case .words(let words): ["type": "string", "enum": .array(words.map(WireValue.string))]
        case .openWords(let words): Self.members(ofOpenWords: words)
        case .list(let element, let limit): Self.members(ofList: element, limit)
        case .map(let value): ["type": "object", "additionalProperties": value.json]
        case .object(let object): object.json
        case .reference(let name): ["$ref": .string(Self.place + name)]
        case .oneOf(let schemas): ["oneOf": .array(schemas.map(\.json))]
        case .nullable(let schema): Self.members(ofNullable: schema)
        }
    }

    /// Where components stand in a description.
    package static let place = "#/components/schemas/"

    /// A text, because a client that was made from an `enum` refuses the whole answer for one word that it does not know.
    private static func members(ofOpenWords words: [String]) -> [String: WireValue] {
        let known = words.map { "`\($0)`" }.joined(separator: ", ")
        return [
            "type": "string", "description": .string("Known so far: \(known)."),
            "x-extensible-enum": .array(words.map(WireValue.string)),
        ]
    }

    private static func members(ofInteger bounds: ClosedRange<Int64>?) -> [String: WireValue] {
        var members: [String: WireValue] = ["type": "integer", "format": "int64"]
        guard let bounds else { return members }
        if bounds.lowerBound != .min { members["minimum"] = .int(bounds.lowerBound) }
        if bounds.upperBound != .max { members["maximum"] = .int(bounds.upperBound) }
        return members
    }

    private static func members(of text: Text) -> [String: WireValue] {
        var members: [String: WireValue] = ["type": "string"]
        members["format"] = text.format.map(WireValue.string)
        members["pattern"] = text.pattern.map(WireValue.string)
        if let limit = text.byteLimit {
            members["minLength"] = .int(1)
            members["maxLength"] = .int(Int64(limit))
        }
        return members
    }

    private static func members(ofList element: Schema, _ limit: Int?) -> [String: WireValue] {
        var members: [String: WireValue] = ["type": "array", "items": element.json]
        members["maxItems"] = limit.map { .int(Int64($0)) }
        return members
    }

    private static func members(ofNullable schema: Schema) -> [String: WireValue] {
        switch schema {
        case .any, .nullable: return schema.members
        case .bool, .integer, .number, .text, .openWords, .list, .map, .object:
            var members = schema.members
            if case .string(let type)? = members["type"] { members["type"] = .array([.string(type), "null"]) }
            return members
        case .words, .word, .reference: return ["oneOf": [schema.json, ["type": "null"]]]
        case .oneOf(let schemas): return ["oneOf": .array(schemas.map(\.json) + [["type": "null"]])]
        }
    }
}

extension ObjectSchema {
    fileprivate var json: [String: WireValue] {
        var result: [String: WireValue] = ["type": "object"]
        result["properties"] = .object(
            members.mapValues { member in
                guard let note = member.note, case .object(var members) = member.schema.json else {
                    return member.schema.json
                }
                // Beside a reference too, as 2020-12 allows.
                members["description"] = .string(note)
                return .object(members)
            })
        let required = members.filter(\.value.isRequired).keys.sorted()
        if !required.isEmpty { result["required"] = .array(required.map(WireValue.string)) }
        return result
    }
}

extension WireValue: ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral {
    package init(stringLiteral value: String) { self = .string(value) }

    package init(arrayLiteral elements: WireValue...) { self = .array(elements) }

    package init(dictionaryLiteral elements: (String, WireValue)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
}

extension WireValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral {
    package init(booleanLiteral value: Bool) { self = .bool(value) }

    package init(integerLiteral value: Int64) { self = .int(value) }
}
