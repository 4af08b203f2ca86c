package import EntitlementCore
import Foundation

/// One JSON object, read leniently: a member that is absent, `null` or of another type than asked for reads as `nil`.
///
/// Of duplicate names the last counts; nesting beyond 512 levels is refused.
package struct JSONObject {
    let members: [String: Any]

    /// A notification of Apple's is a few kilobytes; what is far beyond is not worth the memory.
    package static let maximumByteCount = 1 << 20

    /// Parses the text of one object, in UTF-8.
    package init(parsing bytes: [UInt8]) throws(PayloadError) {
        guard bytes.count <= Self.maximumByteCount else {
            throw .malformed("the payload has \(bytes.count) bytes; at most \(Self.maximumByteCount) are read")
        }
        guard let members = Self.members(of: bytes) ?? Self.members(of: JSONRepair.repaired(bytes)) else {
            throw .malformed("the payload is not a JSON object")
        }
        self.members = members
    }

    init(members: [String: Any]) { self.members = members }

    private static func members(of bytes: [UInt8]) -> [String: Any]? {
        try? JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any]
    }

    /// The member of that name; `nil` where it is absent or `null`.
    package subscript(name: String) -> JSONValue? {
        guard let raw = members[name], !(raw is NSNull) else { return nil }
        return JSONValue(raw: raw)
    }
}

/// A JSON value other than `null`; each property is `nil` when the value is of another type.
package struct JSONValue {
    let raw: Any

    /// Longer identifiers could not be keys of the database's indexes.
    static let maximumIdentifierLength = 512

    package var string: String? { raw as? String }

    /// A string that can be a key: neither empty, nor longer than 512 bytes, nor holding a NUL.
    package var identifier: String? {
        guard let text = string, !text.isEmpty, text.utf8.count <= Self.maximumIdentifierLength,
            !text.utf8.contains(0)
        else { return nil }
        return text
    }

    /// A string that may be a compact JWS: of any length but none.
    package var signed: String? { string.flatMap { $0.isEmpty ? nil : $0 } }

    /// A number without a fraction that 64 bits hold.
    package var int64: Int64? {
        guard let number else { return nil }
        if Self.isExactInteger(number) { return number.int64Value }
        return Int64(exactly: number.doubleValue)
    }

    package var bool: Bool? {
        guard let number = raw as? NSNumber, Self.isBoolean(number) else { return nil }
        return number.boolValue
    }

    /// A number of milliseconds, floored where Xcode signs fractions, and clamped to what a timestamp can be.
    package var timestamp: Timestamp? {
        guard let number else { return nil }
        return Self.isExactInteger(number)
            ? Timestamp(milliseconds: number.int64Value) : Timestamp(milliseconds: number.doubleValue)
    }

    package var object: JSONObject? { (raw as? [String: Any]).map { JSONObject(members: $0) } }

    package var array: [JSONValue]? { (raw as? [Any])?.map { JSONValue(raw: $0) } }

    private var number: NSNumber? {
        guard let number = raw as? NSNumber, !Self.isBoolean(number) else { return nil }
        return number
    }

    // JSONSerialization gives booleans, integers and fractions alike as NSNumber; the encoding tells them apart, on
    // Linux as on Apple's systems: `c` is a boolean, since no parsed number is that narrow.
    private static func isBoolean(_ number: NSNumber) -> Bool {
        number.objCType.pointee == CChar(bitPattern: UInt8(ascii: "c"))
    }

    private static func isExactInteger(_ number: NSNumber) -> Bool {
        switch UInt8(bitPattern: number.objCType.pointee) {
        case UInt8(ascii: "i"), UInt8(ascii: "l"), UInt8(ascii: "q"), UInt8(ascii: "s"): true
        default: false
        }
    }
}
