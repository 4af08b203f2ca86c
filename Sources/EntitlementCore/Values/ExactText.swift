/// Text that is equal only byte for byte, as PostgreSQL compares it.
///
/// Swift's `String` compares by canonical equivalence, and so would give one number to two customers whose ids differ
/// only in the Unicode spelling of a character.
package struct ExactText: Hashable, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (left: ExactText, right: ExactText) -> Bool {
        // In memory, because a string's own view looks at each byte anew how the text is stored.
        let areEqual = left.text.utf8.withContiguousStorageIfAvailable { left in
            right.text.utf8.withContiguousStorageIfAvailable { left.elementsEqual($0) }
        }
        return (areEqual ?? nil) ?? left.text.utf8.elementsEqual(right.text.utf8)
    }

    /// All bytes at once.
    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(text.utf8.count)
    }
}
