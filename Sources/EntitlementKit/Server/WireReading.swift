import EntitlementAPI
import EntitlementCore

/// Reads JSON of a server or a disk that may be newer than this version: what is not understood is absent.
extension WireValue {
    /// The member of that name; `nil` where this is no object, or it is absent or `null`.
    subscript(name: String) -> WireValue? {
        guard case .object(let members) = self, let value = members[name], value != .null else { return nil }
        return value
    }

    /// A text; `nil` for anything else.
    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// A whole number; `nil` for anything else.
    var number: Int64? {
        if case .int(let number) = self { number } else { nil }
    }

    /// `true` or `false`; `nil` for anything else.
    var flag: Bool? {
        if case .bool(let flag) = self { flag } else { nil }
    }

    /// The entries of a list; none for anything else.
    var entries: [WireValue] {
        if case .array(let entries) = self { entries } else { [] }
    }

    /// The members of an object; none for anything else.
    var members: [String: WireValue] {
        if case .object(let members) = self { members } else { [:] }
    }

    /// An instant in RFC 3339; `nil` for anything else.
    var instant: Timestamp? { text.flatMap { Timestamp(rfc3339: $0) } }

    /// Reads a value of another type from it; `nil` where it is none.
    func decoded<Value: Decodable>(_ type: Value.Type) -> Value? {
        (try? WireJSON.encode(self)).flatMap { try? WireJSON.decode(type, from: $0) }
    }
}
