/// What a documented field holds.
indirect enum FieldKind: Sendable {
    /// A string that can be a key (``JSONValue/identifier``).
    case identifier
    case text
    /// A compact JWS (``JSONValue/signed``).
    case signed
    case integer
    case flag
    /// A number of milliseconds.
    case instant
    /// One of a documented set of words, told by a predicate.
    case word(@Sendable (String) -> Bool)
    /// One of a documented range of numbers.
    case code(ClosedRange<Int64>)
    case members(PayloadSchema)
    case list(FieldKind)

    static func object(_ fields: [String: FieldKind]) -> FieldKind { .members(PayloadSchema(fields)) }

    static func oneOf(_ words: Set<String>) -> FieldKind { .word { words.contains($0) } }

    static func oneOf<Value: RawRepresentable & SendableMetatype>(_ type: Value.Type) -> FieldKind
    where Value.RawValue == String {
        .word { Value(rawValue: $0) != nil }
    }
}

/// The documented fields of an object.
///
/// Reading a payload never depends on it; it only finds what to remark on.
struct PayloadSchema: Sendable {
    private let names: [[UInt8]]
    private let kinds: [FieldKind]
    /// A table of places in the lists above, by a hash of the name; several times as large as it must be.
    private let slots: [UInt8]
    private static let empty = UInt8.max

    init(_ fields: [String: FieldKind]) {
        precondition(fields.count < Int(Self.empty), "a place in the list of fields is one byte")
        var size = 8
        while size < fields.count * 4 { size *= 2 }
        var slots = [UInt8](repeating: Self.empty, count: size)
        var names: [[UInt8]] = []
        for name in fields.keys {
            let name = Array(name.utf8)
            var slot = name.withUnsafeBytes(Self.hash) & (size - 1)
            while slots[slot] != Self.empty { slot = (slot + 1) & (size - 1) }
            slots[slot] = UInt8(names.count)
            names.append(name)
        }
        self.names = names
        kinds = fields.values.map(\.self)
        self.slots = slots
    }

    /// Remarks on everything in an object that is not as documented; `path` names the object, "" the outermost.
    func inspect(_ object: JSONObject, path: String = "", into remarks: inout RemarkList) {
        let document = object.document
        // Of a name said twice only the last value is looked at, as it is the one that counts.
        var values = [Int](repeating: 0, count: names.count)
        document.bytes.withUnsafeBytes { bytes in
            object.forEachMember { name, value in
                let field =
                    name.kind == .text
                    ? self.field(UnsafeRawBufferPointer(rebasing: bytes[Int(name.start)..<Int(name.end)]))
                    : Array((document.text(of: name) ?? "").utf8).withUnsafeBytes(self.field)
                if let field {
                    values[field] = value
                } else {
                    remarks.insert(.unknownField(path: Self.join(path, document.text(of: name) ?? "")))
                }
            }
        }
        for (field, place) in values.enumerated() where place > 0 {
            guard let value = JSONValue(document: document, unlessNull: place) else { continue }
            Self.inspect(value, as: kinds[field], path: path, name: names[field], into: &remarks)
        }
    }

    /// The place of a name in the list; `nil` where it is none of a documented field.
    private func field(_ name: UnsafeRawBufferPointer) -> Int? {
        var slot = Self.hash(name) & (slots.count - 1)
        while slots[slot] != Self.empty {
            let field = Int(slots[slot])
            if names[field].count == name.count, names[field].withUnsafeBytes({ $0.elementsEqual(name) }) {
                return field
            }
            slot = (slot + 1) & (slots.count - 1)
        }
        return nil
    }

    /// Cheap, as the table holds few names and strangers' names are not put into it.
    private static func hash(_ name: UnsafeRawBufferPointer) -> Int {
        guard let first = name.first, let last = name.last else { return 0 }
        return name.count &* 31 &+ Int(first) &* 7 &+ Int(last) &* 131 &+ Int(name[name.count / 2]) &* 17
    }

    // The path and the name stay apart until there is something to say, which is nearly never.
    private static func inspect(
        _ value: JSONValue, as kind: FieldKind, path: String, name: [UInt8], into remarks: inout RemarkList
    ) {
        let isExpected: Bool
        switch kind {
        case .identifier: isExpected = value.isIdentifier
        case .text: isExpected = value.isText
        case .signed: isExpected = value.isSigned
        case .integer: isExpected = value.int64 != nil
        case .flag: isExpected = value.bool != nil
        case .instant: isExpected = value.timestamp != nil
        case .word(let isKnown):
            let word = value.identifier
            isExpected = word != nil
            if let word, !isKnown(word) {
                remarks.insert(.unknownValue(path: join(path, name), value: word))
            }
        case .code(let known):
            let code = value.int64
            isExpected = code != nil
            if let code, !known.contains(code) {
                remarks.insert(.unknownValue(path: join(path, name), value: String(code)))
            }
        case .members(let schema):
            let object = value.object
            isExpected = object != nil
            if let object { schema.inspect(object, path: join(path, name), into: &remarks) }
        case .list(let element):
            let array = value.array
            isExpected = array != nil
            for item in array ?? [] { inspect(item, as: element, path: path, name: name, into: &remarks) }
        }
        if !isExpected { remarks.insert(.unexpectedValue(path: join(path, name))) }
    }

    private static func join(_ path: String, _ name: [UInt8]) -> String {
        join(path, String(decoding: name, as: UTF8.self))
    }

    private static func join(_ path: String, _ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }
}
