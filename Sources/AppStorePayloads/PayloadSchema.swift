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
    case object([String: FieldKind])
    case list(FieldKind)

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
    let fields: [String: FieldKind]

    init(_ fields: [String: FieldKind]) { self.fields = fields }

    /// Remarks on everything in an object that is not as documented; `path` names the object, "" the outermost.
    func inspect(_ object: JSONObject, path: String = "", into remarks: inout RemarkList) {
        Self.inspect(object, as: fields, path: path, into: &remarks)
    }

    private static func inspect(
        _ object: JSONObject, as fields: [String: FieldKind], path: String, into remarks: inout RemarkList
    ) {
        for name in object.members.keys {
            guard let kind = fields[name] else {
                remarks.insert(.unknownField(path: join(path, name)))
                continue
            }
            if let value = object[name] { inspect(value, as: kind, path: path, name: name, into: &remarks) }
        }
    }

    // The path and the name stay apart until there is something to say, which is nearly never.
    private static func inspect(
        _ value: JSONValue, as kind: FieldKind, path: String, name: String, into remarks: inout RemarkList
    ) {
        let isExpected: Bool
        switch kind {
        case .identifier: isExpected = value.identifier != nil
        case .text: isExpected = value.string != nil
        case .signed: isExpected = value.signed != nil
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
        case .object(let fields):
            let object = value.object
            isExpected = object != nil
            if let object { inspect(object, as: fields, path: join(path, name), into: &remarks) }
        case .list(let element):
            let array = value.array
            isExpected = array != nil
            for item in array ?? [] { inspect(item, as: element, path: path, name: name, into: &remarks) }
        }
        if !isExpected { remarks.insert(.unexpectedValue(path: join(path, name))) }
    }

    private static func join(_ path: String, _ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }
}
