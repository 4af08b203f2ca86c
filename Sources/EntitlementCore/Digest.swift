/// A SHA-256 value.
///
/// The core only compares and carries digests; the edges compute them.
package struct Digest: Hashable, Comparable, Sendable {
    package let bytes: [UInt8]

    /// Takes exactly 32 bytes; `nil` otherwise.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        self.bytes = bytes
    }

    private init(zeros: Void) { bytes = [UInt8](repeating: 0, count: 32) }

    /// What the first event of a chain names as its predecessor.
    package static let zero = Digest(zeros: ())

    package static func < (left: Digest, right: Digest) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }

    package var hex: String {
        let digits = Array("0123456789abcdef".utf8)
        var text = [UInt8]()
        text.reserveCapacity(64)
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}
