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
