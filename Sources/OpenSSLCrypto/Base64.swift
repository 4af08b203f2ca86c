/// Strict base64 in both alphabets of RFC 4648: one text for each value, anything else is refused.
///
/// Strictness matters where the text is hashed or compared: a lenient decoder gives one signed value many spellings.
package enum Base64 {
    /// Decodes base64url without padding (RFC 7515, section 2); `nil` for any other alphabet, padding, white space,
    /// an impossible length, or bits left over that are not zero.
    package static func decodeURL(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        decoded(text, urlValues)
    }

    /// Decodes base64url without padding; `nil` where it is not strict.
    package static func decodeURL(_ text: some Collection<UInt8>) -> [UInt8]? {
        withBytes(of: text, decodeURL)
    }

    /// Decodes base64url without padding; `nil` where it is not strict.
    package static func decodeURL(_ text: String) -> [UInt8]? { decodeURL(text.utf8) }

    /// Encodes as base64url without padding.
    package static func encodeURL(_ bytes: some Collection<UInt8>) -> String {
        withBytes(of: bytes) { encoded($0, urlAlphabet, padded: false) }
    }

    /// Decodes padded standard base64 (as in `x5c`); `nil` for white space, missing padding, or leftover bits.
    package static func decode(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        return decoded(UnsafeRawBufferPointer(rebasing: text.dropLast(padding)), standardValues)
    }

    /// Decodes padded standard base64; `nil` where it is not strict.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        withBytes(of: text, decode)
    }

    /// Decodes padded standard base64; `nil` where it is not strict.
    package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }

    /// Encodes as padded standard base64, in one line.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        withBytes(of: bytes) { encoded($0, standardAlphabet, padded: true) }
    }
}

private let standardAlphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
private let urlAlphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
private let standardValues = values(of: standardAlphabet)
private let urlValues = values(of: urlAlphabet)

/// Not a character of the alphabet.
///
/// Six-bit values stay below 64, so one test of the OR of four values finds any.
private let invalid: UInt8 = 0x80

private func values(of alphabet: [UInt8]) -> [UInt8] {
    var values = [UInt8](repeating: invalid, count: 256)
    for (value, character) in alphabet.enumerated() { values[Int(character)] = UInt8(value) }
    return values
}

private func withBytes<Result>(
    of bytes: some Collection<UInt8>, _ body: (UnsafeRawBufferPointer) -> Result
) -> Result {
    bytes.withContiguousStorageIfAvailable { body(UnsafeRawBufferPointer($0)) }
        ?? Array(bytes).withUnsafeBytes(body)
}

private func decoded(_ text: UnsafeRawBufferPointer, _ values: [UInt8]) -> [UInt8]? {
    let (groups, rest) = text.count.quotientAndRemainder(dividingBy: 4)
    guard rest != 1 else { return nil }
    var seen: UInt8 = 0
    let bytes = values.withUnsafeBufferPointer { values in
        [UInt8](unsafeUninitializedCapacity: groups * 3 + 2) { output, count in
            func value(_ index: Int) -> UInt32 {
                let value = values[Int(text[index])]
                seen |= value
                return UInt32(value & 0x3F)
            }
            for group in 0..<groups {
                let from = group * 4
                let word = value(from) << 18 | value(from + 1) << 12 | value(from + 2) << 6 | value(from + 3)
                output[group * 3] = UInt8(truncatingIfNeeded: word >> 16)
                output[group * 3 + 1] = UInt8(truncatingIfNeeded: word >> 8)
                output[group * 3 + 2] = UInt8(truncatingIfNeeded: word)
            }
            count = groups * 3
            guard rest > 0 else { return }
            let from = groups * 4
            let word = value(from) << 18 | value(from + 1) << 12 | (rest == 3 ? value(from + 2) << 6 : 0)
            output[count] = UInt8(truncatingIfNeeded: word >> 16)
            if rest == 3 { output[count + 1] = UInt8(truncatingIfNeeded: word >> 8) }
            count += rest - 1
            if word & (rest == 3 ? 0xFF : 0xFFFF) != 0 { seen |= invalid }
        }
    }
    return seen & invalid == 0 ? bytes : nil
}

private func encoded(_ bytes: UnsafeRawBufferPointer, _ alphabet: [UInt8], padded: Bool) -> String {
    String(unsafeUninitializedCapacity: (bytes.count + 2) / 3 * 4) { output in
        var written = 0
        for from in stride(from: 0, to: bytes.count, by: 3) {
            let available = min(3, bytes.count - from)
            var word: UInt32 = 0
            for offset in 0..<3 { word = word << 8 | (offset < available ? UInt32(bytes[from + offset]) : 0) }
            for position in 0..<4 where position <= available || padded {
                let sextet = Int(word >> (18 - 6 * UInt32(position))) & 0x3F
                output[written] = position <= available ? alphabet[sextet] : UInt8(ascii: "=")
                written += 1
            }
        }
        return written
    }
}
