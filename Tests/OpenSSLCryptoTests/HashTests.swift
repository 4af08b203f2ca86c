import OpenSSLCrypto
import Testing

@Suite("SHA-256, random bytes and comparison")
struct HashTests {
    @Test(
        "digests are those of FIPS 180-4",
        arguments: [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
            ),
        ])
    func vector(text: String, digest: String) {
        let bytes = Array(text.utf8)
        #expect(hex(SHA256.hash(bytes)) == digest)
        #expect(hex(SHA256.hash(text.utf8)) == digest)
        #expect(hex(SHA256.hash(bytes[...])) == digest)
        #expect(hex(SHA256.hash(pieces: [Array(bytes.prefix(2)), [], Array(bytes.dropFirst(2))])) == digest)
    }

    @Test("a million a's, in pieces and in one")
    func million() {
        let digest = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        let piece = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000)
        #expect(hex(SHA256.hash(pieces: Array(repeating: piece, count: 1_000))) == digest)
        #expect(hex(SHA256.hash([UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000))) == digest)
    }

    @Test("random bytes have the length asked for, and differ")
    func random() {
        #expect(SecureRandom.bytes(0).isEmpty)
        let draws = Set((0..<100).map { _ in SecureRandom.bytes(32) })
        #expect(draws.count == 100)
        #expect(draws.allSatisfy { $0.count == 32 })
    }

    @Test("equal means the same bytes in the same number")
    func comparison() {
        #expect(ConstantTime.equal([], []))
        #expect(ConstantTime.equal([1, 2, 3], [1, 2, 3]))
        #expect(!ConstantTime.equal([1, 2, 3], [1, 2, 4]))
        #expect(!ConstantTime.equal([1, 2, 3], [1, 2]))
    }
}

func hex(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef")
    return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
}
