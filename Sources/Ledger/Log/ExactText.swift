/// Text that is equal only byte for byte, as PostgreSQL compares it.
///
/// Swift's `String` compares by canonical equivalence, and so would give one number to two customers whose ids differ
/// only in the Unicode spelling of a character.
package struct ExactText: Hashable, Sendable {
    private let utf8: [UInt8]

    package init(_ text: String) { utf8 = Array(text.utf8) }

    package var text: String { String(decoding: utf8, as: UTF8.self) }

    /// All bytes at once; an array would hand them over one by one.
    package func hash(into hasher: inout Hasher) {
        utf8.withUnsafeBytes { hasher.combine(bytes: $0) }
        hasher.combine(utf8.count)
    }
}
