/// Strict base64 in both alphabets of RFC 4648: one text for each value, anything else is refused.
///
/// Strictness matters where the text is hashed or compared: a lenient decoder gives one signed value many spellings.
package enum Base64 {
    /// Decodes base64url without padding (RFC 7515, section 2); `nil` for any other alphabet, padding, white space,
    /// an impossible length, or bits left over that are not zero.
    package static func decodeURL(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        urlValues.decoded(text)
    }

    /// Decodes base64url without padding; `nil` where it is not strict.
    package static func decodeURL(_ text: some Collection<UInt8>) -> [UInt8]? {
        withBytes(of: text, decodeURL)
    }

    /// Decodes base64url without padding; `nil` where it is not strict.
    package static func decodeURL(_ text: String) -> [UInt8]? { decodeURL(text.utf8) }

    /// Encodes as base64url without padding.
    package static func encodeURL(_ bytes: some Collection<UInt8>) -> String {
        withBytes(of: bytes) { urlPairs.encoded($0, padded: false) }
    }

    /// Decodes padded standard base64 (as in `x5c`); `nil` for white space, missing padding, or leftover bits.
    package static func decode(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        return standardValues.decoded(UnsafeRawBufferPointer(rebasing: text.dropLast(padding)))
    }

    /// Decodes padded standard base64; `nil` where it is not strict.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        withBytes(of: text, decode)
    }

    /// Decodes padded standard base64; `nil` where it is not strict.
    package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }

    /// Whether the text is the base64url, without padding, of exactly these bytes.
    ///
    /// It proves that decoded bytes can stand for the text they came from, and allocates nothing.
    package static func isURLEncoding(_ text: UnsafeRawBufferPointer, of bytes: UnsafeRawBufferPointer) -> Bool {
        urlPairs.isEncoding(text, of: bytes)
    }

    /// Encodes as padded standard base64, in one line.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        withBytes(of: bytes) { standardPairs.encoded($0, padded: true) }
    }
}

private let standardAlphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
private let urlAlphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
private let standardValues = Base64Values(of: standardAlphabet)
private let urlValues = Base64Values(of: urlAlphabet)
private let standardPairs = Base64Pairs(of: standardAlphabet)
private let urlPairs = Base64Pairs(of: urlAlphabet)

private func withBytes<Result>(
    of bytes: some Collection<UInt8>, _ body: (UnsafeRawBufferPointer) -> Result
) -> Result {
    bytes.withContiguousStorageIfAvailable { body(UnsafeRawBufferPointer($0)) }
        ?? Array(bytes).withUnsafeBytes(body)
}
