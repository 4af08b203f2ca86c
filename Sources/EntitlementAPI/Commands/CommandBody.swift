import EntitlementCore

/// What is wrong with the body of a command, and where.
package struct CommandBodyError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        case malformed
        /// Of the right form, or nearly, and not what may be asked for.
        case unprocessable
        /// A list with more entries than are taken at once.
        case tooLarge
    }

    package let kind: Kind
    /// Such as `claims[0].state`; empty for the body as a whole.
    package let path: String
    package let reason: String

    init(_ kind: Kind = .malformed, path: String, reason: String) {
        self.kind = kind
        self.path = path
        self.reason = reason
    }

    package var description: String { path.isEmpty ? "the body \(reason)" : "\(path) \(reason)" }

    /// Such as `claims[0].state`.
    static func path(_ keys: [any CodingKey]) -> String {
        keys.reduce(into: "") { path, key in
            if let index = key.intValue {
                path += "[\(index)]"
            } else {
                path += (path.isEmpty ? "" : ".") + key.stringValue
            }
        }
    }
}

/// The body of a request that asks the ledger to record something.
///
/// Members it does not know are ignored, and `null` reads as absent.
package protocol CommandBody: Codable, Hashable, Sendable {}

extension CommandBody {
    /// Reads a body and holds it to its limits.
    package init(parsing bytes: [UInt8]) throws(CommandBodyError) {
        do {
            self = try WireJSON.decode(Self.self, from: bytes)
        } catch let error as CommandBodyError {
            throw error
        } catch DecodingError.typeMismatch(_, let context) {
            throw CommandBodyError(path: CommandBodyError.path(context.codingPath), reason: "must be an object")
        } catch DecodingError.valueNotFound(_, let context) where context.codingPath.isEmpty {
            throw CommandBodyError(path: "", reason: "must be an object, not null")
        } catch {
            throw CommandBodyError(path: "", reason: "is not JSON")
        }
    }
}

/// Any member of an object, by its name.
struct MemberName: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }

    init?(intValue: Int) { nil }
}

extension Decoder {
    /// The names of the object's members that are not among these, the first few in their order; long ones are cut.
    func members(besides known: [some CodingKey]) throws -> [String] {
        let names = Set(known.map(\.stringValue))
        return try container(keyedBy: MemberName.self).allKeys.map(\.stringValue).filter { !names.contains($0) }
            .sorted()
            .prefix(8).map { String($0.prefix(64)) }
    }
}

extension KeyedDecodingContainer {
    /// The error to throw about a member.
    func refusal(_ key: Key, _ reason: String, _ kind: CommandBodyError.Kind = .malformed) -> CommandBodyError {
        CommandBodyError(kind, path: CommandBodyError.path(codingPath + [key]), reason: reason)
    }

    /// A member of a type that JSON has; `noun` says which, as in "must be a text".
    func value<Value: Decodable>(_ key: Key, _ type: Value.Type, _ noun: String) throws -> Value? {
        do {
            return try decodeIfPresent(type, forKey: key)
        } catch {
            throw refusal(key, "must be \(noun)")
        }
    }

    /// A text that can be an id, or that people wrote, which may have several lines.
    func text(_ key: Key, limit: Int, hasLines: Bool = false) throws -> String? {
        tell(.text(limit: limit, hasLines: hasLines), of: key)
        guard let text = try value(key, String.self, "a text") else { return nil }
        let isPlain = text.unicodeScalars.allSatisfy { scalar in
            !scalar.isControl || (hasLines && ["\n", "\r", "\t"].contains(scalar))
        }
        guard (1...limit).contains(text.utf8.count), isPlain else {
            throw refusal(key, "must be a text of 1 to \(limit) bytes without control characters")
        }
        return text
    }

    /// One of the words that a type has.
    func word<Word: RawRepresentable & CaseIterable & Decodable & Sendable>(_ key: Key, _ type: Word.Type) throws
        -> Word?
    where Word.RawValue == String {
        tell(.words(type), of: key)
        guard let text = try value(key, String.self, "a text") else { return nil }
        guard let word = Word(rawValue: text) else {
            let known = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw refusal(key, "must be one of: \(known)")
        }
        return word
    }

    /// An instant; `nil` where it is absent or `null`.
    func timestamp(_ key: Key) throws -> Timestamp? {
        tell(.instant, of: key)
        guard let text = try value(key, String.self, "a text") else { return nil }
        guard let instant = Timestamp(rfc3339: text) else {
            throw refusal(
                key, "must be an RFC 3339 timestamp of the years 1 to 9999, such as 2026-11-20T19:00:00.000Z, or null")
        }
        return instant
    }

    /// A place in the log.
    func position(_ key: Key) throws -> Int64? {
        let noun = "a position, which is a whole number from 1"
        tell(.wholeNumber(1...Int64.max), of: key)
        guard let position = try value(key, Int64.self, noun) else { return nil }
        guard position >= 1 else { throw refusal(key, "must be \(noun)") }
        return position
    }

    /// A whole number that may be asked for within bounds; anything but a whole number is malformed, like any other member of
    /// the wrong type.
    func wholeNumber(_ key: Key, in bounds: ClosedRange<Int64>, _ noun: String) throws -> Int64? {
        tell(.wholeNumber(bounds), of: key)
        let reason = "must be \(noun) from \(bounds.lowerBound) to \(bounds.upperBound)"
        let number: Int64?
        do {
            number = try decodeIfPresent(Int64.self, forKey: key)
        } catch {
            // A whole number that no integer here holds is of the right type, and out of bounds like any other.
            let isWhole = (try? decode(Double.self, forKey: key)).map { $0.rounded() == $0 } ?? false
            throw refusal(key, reason, isWhole ? .unprocessable : .malformed)
        }
        guard let number else { return nil }
        guard bounds.contains(number) else { throw refusal(key, reason, .unprocessable) }
        return number
    }

    /// A customer, in the form in which ids are compared.
    func customer(_ key: Key) throws -> CustomerID? {
        try customer(key, limit: CustomerID.lengthLimit) { CustomerID($0) }
    }

    /// The default customer of an app transaction, by its id.
    func appTransaction(_ key: Key) throws -> CustomerID? {
        try customer(key, limit: CustomerID.appTransactionLimit, CustomerID.ofAppTransaction)
    }

    private func customer(_ key: Key, limit: Int, _ named: (String) -> CustomerID?) throws -> CustomerID? {
        tell(.text(limit: limit, hasLines: false), of: key)
        guard let text = try value(key, String.self, "a text") else { return nil }
        guard let customer = named(text) else {
            throw refusal(key, "must be a text of 1 to \(limit) bytes without control characters")
        }
        return customer
    }

    /// The entries of a list; one that is absent has none.
    func list<Element: Decodable>(
        _ key: Key, of type: Element.Type, _ noun: String, limit: Int
    ) throws -> [Element] {
        tell(.entries(limit: limit), of: key)
        guard contains(key), try !decodeNil(forKey: key) else { return [] }
        guard var entries = try? nestedUnkeyedContainer(forKey: key) else { throw refusal(key, "must be a list") }
        // Before they are read, so that a body costs no more than its limits allow.
        if let count = entries.count, count > limit {
            throw refusal(key, "has \(count) entries; at most \(limit) may be", .tooLarge)
        }
        var elements: [Element] = []
        while !entries.isAtEnd {
            do {
                elements.append(try entries.decode(type))
            } catch let error as CommandBodyError {
                throw error
            } catch {
                let path = "\(CommandBodyError.path(codingPath + [key]))[\(elements.count)]"
                throw CommandBodyError(path: path, reason: "must be \(noun)")
            }
        }
        return elements
    }

    /// A value that has to be there.
    func required<Value>(_ key: Key, _ value: Value?) throws -> Value {
        tell(.required, of: key)
        guard let value else { throw refusal(key, "is missing") }
        return value
    }
}
