import Foundation
import OpenSSLCrypto
import Testing

@Suite("Strict base64")
struct Base64Tests {
    @Test("every length round-trips, and agrees with Foundation", arguments: 0...67)
    func roundTrip(length: Int) {
        let bytes = SecureRandom.bytes(length)
        let standard = Data(bytes).base64EncodedString()
        let url = standard.replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
        #expect(Base64.encode(bytes) == standard)
        #expect(Base64.decode(standard) == bytes)
        #expect(Base64.encodeURL(bytes) == url)
        #expect(Base64.decodeURL(url) == bytes)
        #expect(Base64.decodeURL(Array("..\(url)..".utf8).dropFirst(2).dropLast(2)) == bytes)
    }

    @Test("of all texts of up to three characters, exactly the encodings of something decode, to just that")
    func everyShortText() {
        let characters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. ~".utf8)
        for first in characters {
            for second in characters {
                #expect(Self.isDecodedStrictly([first, second]))
                for third in characters where !Self.isDecodedStrictly([first, second, third]) {
                    Issue.record("\([first, second, third])")
                }
            }
        }
    }

    /// Two characters hold a byte and four bits that must be zero, three hold two bytes and two such bits.
    private static func isDecodedStrictly(_ text: [UInt8]) -> Bool {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        let values = text.compactMap { alphabet.firstIndex(of: $0) }
        let leftover = text.count == 2 ? 0x0F : 0x03
        let isStrict = values.count == text.count && values.last.map { $0 & leftover == 0 } ?? true
        guard let bytes = Base64.decodeURL(text) else { return !isStrict }
        return isStrict && Array(Base64.encodeURL(bytes).utf8) == text
    }

    @Test("only the encoding of the very bytes is said to be it", arguments: 0..<70)
    func comparison(length: Int) {
        let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ length) }
        let text = Array(Base64.encodeURL(bytes).utf8)
        #expect(Self.isURLEncoding(text, of: bytes))
        #expect(!Self.isURLEncoding(text + [UInt8(ascii: "A")], of: bytes))
        #expect(!Self.isURLEncoding(text, of: bytes + [0]))
        for index in text.indices {
            var other = text
            other[index] ^= 1
            #expect(!Self.isURLEncoding(other, of: bytes), "character \(index)")
            #expect(!Self.isURLEncoding(Array(text.dropLast(text.count - index)), of: bytes), "cut at \(index)")
        }
        for index in bytes.indices {
            for bit in 0..<8 {
                var other = bytes
                other[index] ^= 1 << UInt8(bit)
                #expect(!Self.isURLEncoding(text, of: other), "byte \(index), bit \(bit)")
            }
        }
    }

    private static func isURLEncoding(_ text: [UInt8], of bytes: [UInt8]) -> Bool {
        text.withUnsafeBytes { text in bytes.withUnsafeBytes { Base64.isURLEncoding(text, of: $0) } }
    }

    @Test("all characters of the alphabets are values")
    func alphabet() {
        let all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        #expect(Base64.decodeURL(all + "-_").map { Base64.encodeURL($0) } == all + "-_")
        #expect(Base64.decode(all + "+/").map { Base64.encode($0) } == all + "+/")
    }

    @Test(
        "base64url refuses padding, other alphabets, white space, impossible lengths and leftover bits",
        arguments: [
            "A", "AAAAA", "AA==", "AAA=", "AAAA=", "A+AA", "A/AA", "AA AA", " AAAA", "AAAA\n", "AB", "A_", "AAB", "AAD",
            "AAAAé", "AA.A", "A\u{0}AA",
        ])
    func refusedURL(text: String) {
        #expect(Base64.decodeURL(text) == nil)
    }

    @Test(
        "standard base64 refuses what is not padded, misplaced padding, other alphabets and leftover bits",
        arguments: [
            "AA", "AAA", "A===", "====", "AA=A", "AA==AAAA", "A-AA", "A_AA", "AAAA\n", "AB==", "AAB=", "AAAA====",
        ])
    func refusedStandard(text: String) {
        #expect(Base64.decode(text) == nil)
    }
}
