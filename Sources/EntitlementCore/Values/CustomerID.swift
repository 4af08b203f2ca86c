/// A customer id as it is compared everywhere: one that is a UUID in lower case, any other as given, byte for byte.
package struct CustomerID: Hashable, Sendable {
    /// Compared as the ledger numbers ids.
    private let exact: ExactText

    package var value: String { exact.text }

    /// The longest id taken, in UTF-8 bytes.
    package static let lengthLimit = 256

    /// `nil` for what no customer can be called: empty, too long, or with a control character.
    package init?(_ text: String) {
        guard !text.isEmpty, text.utf8.count <= Self.lengthLimit,
            !text.unicodeScalars.contains(where: \.isControl)
        else { return nil }
        exact = ExactText(Self.isUUID(text) ? text.lowercased() : text)
    }

    /// The prefix of the id of an app transaction's default customer.
    private static let applePrefix = "apple:"

    /// The longest app transaction id that has a default customer, in UTF-8 bytes.
    package static let appTransactionLimit = lengthLimit - applePrefix.utf8.count

    /// The default customer of an app transaction id; `nil` for what is none, or has none.
    package static func ofAppTransaction(_ id: String) -> CustomerID? {
        id.isEmpty ? nil : CustomerID(applePrefix + id)
    }

    /// The app transaction id whose default customer this is; `nil` for any other.
    package var appTransactionID: String? {
        guard value.utf8.starts(with: Self.applePrefix.utf8) else { return nil }
        return String(value.unicodeScalars.dropFirst(Self.applePrefix.unicodeScalars.count))
    }

    package static func isUUID(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return false }
        for (index, byte) in bytes.enumerated() {
            switch index {
            case 8, 13, 18, 23:
                if byte != UInt8(ascii: "-") { return false }
            default:
                if Hexadecimal.value(byte) == nil { return false }
            }
        }
        return true
    }
}
