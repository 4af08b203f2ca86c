/// What the characters of an alphabet stand for: a table for each place in a group of four.
///
/// The six bits stand where they belong in a word of 32 bits whose upper 24 are the group's three bytes, so that a group
/// takes four look-ups and three ORs. The word's lowest bit marks what is no character of the alphabet.
struct Base64Values: Sendable {
    private static let invalid: UInt32 = 1
    private let words: [UInt32]

    init(of alphabet: [UInt8]) {
        var words = [UInt32](repeating: Self.invalid, count: 4 * 256)
        for (value, character) in alphabet.enumerated() {
            for place in 0..<4 { words[place * 256 + Int(character)] = UInt32(value) << (26 - 6 * UInt32(place)) }
        }
        self.words = words
    }

    /// Decodes text without padding; `nil` where it is not strict.
    func decoded(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        let (groups, rest) = text.count.quotientAndRemainder(dividingBy: 4)
        guard rest != 1 else { return nil }
        var seen: UInt32 = 0
        // Four bytes are written for three, so the last group needs room for one more.
        let bytes = words.withUnsafeBufferPointer { words in
            [UInt8](unsafeUninitializedCapacity: groups * 3 + 4) { output, count in
                guard let source = text.baseAddress, let words = words.baseAddress else { return }
                let target = UnsafeMutableRawPointer(output.baseAddress.unsafelyUnwrapped)
                func word(_ from: Int, _ place: Int) -> UInt32 {
                    words[place * 256 + Int(source.load(fromByteOffset: from + place, as: UInt8.self))]
                }
                var from = 0
                var to = 0
                for _ in 0..<groups {
                    let group = word(from, 0) | word(from, 1) | word(from, 2) | word(from, 3)
                    seen |= group
                    target.storeBytes(of: group.bigEndian, toByteOffset: to, as: UInt32.self)
                    from += 4
                    to += 3
                }
                if rest > 0 {
                    let group = word(from, 0) | word(from, 1) | (rest == 3 ? word(from, 2) : 0)
                    seen |= group
                    target.storeBytes(of: group.bigEndian, toByteOffset: to, as: UInt32.self)
                    to += rest - 1
                    // Bits left over that are not zero would be another spelling of the same bytes.
                    if group << (8 * UInt32(rest - 1)) != 0 { seen |= Self.invalid }
                }
                count = to
            }
        }
        return seen & Self.invalid == 0 ? bytes : nil
    }
}

/// The two characters that each twelve bits are written as.
struct Base64Pairs: Sendable {
    /// Each pair in the order in which it lies in memory.
    private let pairs: [UInt16]
    private let alphabet: [UInt8]

    init(of alphabet: [UInt8]) {
        self.alphabet = alphabet
        pairs = (0..<4096).map { bits in
            UInt16(bigEndian: UInt16(alphabet[bits >> 6]) << 8 | UInt16(alphabet[bits & 0x3F]))
        }
    }

    /// Encodes, in one line.
    func encoded(_ bytes: UnsafeRawBufferPointer, padded: Bool) -> String {
        String(unsafeUninitializedCapacity: (bytes.count + 2) / 3 * 4) { output in
            let target = UnsafeMutableRawBufferPointer(output)
            var written = 0
            forEachGroup(of: bytes) { first, second, _ in
                target.storeBytes(of: first, toByteOffset: written, as: UInt16.self)
                target.storeBytes(of: second, toByteOffset: written + 2, as: UInt16.self)
                written += 4
                return true
            }
            for character in lastCharacters(of: bytes) {
                target[written] = character
                written += 1
            }
            while padded, written % 4 != 0 {
                target[written] = UInt8(ascii: "=")
                written += 1
            }
            return written
        }
    }

    /// Whether the text is the unpadded encoding of exactly these bytes.
    func isEncoding(_ text: UnsafeRawBufferPointer, of bytes: UnsafeRawBufferPointer) -> Bool {
        let (groups, rest) = bytes.count.quotientAndRemainder(dividingBy: 3)
        guard text.count == groups * 4 + (rest == 0 ? 0 : rest + 1) else { return false }
        var isEqual = true
        forEachGroup(of: bytes) { first, second, index in
            let from = index * 4
            isEqual =
                text.loadUnaligned(fromByteOffset: from, as: UInt16.self) == first
                && text.loadUnaligned(fromByteOffset: from + 2, as: UInt16.self) == second
            return isEqual
        }
        return isEqual && text.dropFirst(groups * 4).elementsEqual(lastCharacters(of: bytes))
    }

    /// Calls the body with the two pairs of each group of three bytes, and the group's number, until it says `false`.
    @inline(__always)
    private func forEachGroup(of bytes: UnsafeRawBufferPointer, _ body: (UInt16, UInt16, Int) -> Bool) {
        pairs.withUnsafeBufferPointer { pairs in
            guard let source = bytes.baseAddress, let pairs = pairs.baseAddress else { return }
            for index in 0..<(bytes.count / 3) {
                let from = index * 3
                let word =
                    Int(source.load(fromByteOffset: from, as: UInt8.self)) << 16
                    | Int(source.load(fromByteOffset: from + 1, as: UInt8.self)) << 8
                    | Int(source.load(fromByteOffset: from + 2, as: UInt8.self))
                guard body(pairs[word >> 12], pairs[word & 0xFFF], index) else { return }
            }
        }
    }

    /// The characters of the one or two bytes after the last whole group.
    private func lastCharacters(of bytes: UnsafeRawBufferPointer) -> [UInt8] {
        let rest = bytes.count % 3
        guard rest > 0 else { return [] }
        var word = UInt32(bytes[bytes.count - rest]) << 16
        if rest == 2 { word |= UInt32(bytes[bytes.count - 1]) << 8 }
        return (0...rest).map { alphabet[Int(word >> (18 - 6 * UInt32($0))) & 0x3F] }
    }
}
