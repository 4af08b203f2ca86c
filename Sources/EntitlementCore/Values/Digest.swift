/// A SHA-256 value.
///
/// The core only compares and carries digests; the edges compute them.
package struct Digest: Hashable, Comparable, Sendable {
    // Four words rather than an array: facts hold several, and each array would be an allocation of its own.
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Takes exactly 32 bytes; `nil` otherwise.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        self = bytes.withUnsafeBytes { Digest(loading: $0) }
    }

    /// Takes the first 32 bytes of a buffer that has as many.
    init(loading bytes: UnsafeRawBufferPointer) {
        func word(_ index: Int) -> UInt64 {
            UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8 * index, as: UInt64.self))
        }
        words = (word(0), word(1), word(2), word(3))
    }

    private init(zeros: Void) { words = (0, 0, 0, 0) }

    /// What the first event of a chain names as its predecessor.
    package static let zero = Digest(zeros: ())

    /// The 32 bytes.
    package var bytes: [UInt8] { withBytes { Array($0) } }

    /// Lends the 32 bytes.
    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        let bigEndian = (words.0.bigEndian, words.1.bigEndian, words.2.bigEndian, words.3.bigEndian)
        return withUnsafeBytes(of: bigEndian, body)
    }

    package static func == (left: Digest, right: Digest) -> Bool { left.words == right.words }

    package static func < (left: Digest, right: Digest) -> Bool { left.words < right.words }

    package func hash(into hasher: inout Hasher) { hasher.combine(words.0) }

    package var hex: String { Hexadecimal.text(bytes) }
}
