import OpenSSLCrypto
import Testing

@Suite("SHA-256, HMAC, random bytes and comparison")
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

    @Test("a prefix hashed before gives digests of whole messages, on many threads", arguments: [0, 1, 63, 64, 2700])
    func prefix(length: Int) async {
        let start = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let prefix = SHA256Prefix(start)
        let wrong = await withTaskGroup(of: Int.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    (0..<100).count { round in
                        let message = [UInt8](repeating: UInt8(worker), count: round)
                        let more = [UInt8](repeating: UInt8(round), count: worker * 30)
                        let both = message.withUnsafeBytes { message in
                            more.withUnsafeBytes { prefix.hash(message, andThen: $0) }
                        }
                        return both.message != SHA256.hash(start + message)
                            || both.whole != SHA256.hash(start + message + more)
                            || message.withUnsafeBytes { prefix.hash($0) } != both.message
                    }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(wrong == 0)
    }

    @Test(
        "codes are those of RFC 4231",
        arguments: [
            (
                [UInt8](repeating: 0x0b, count: 20), Array("Hi There".utf8),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
            ),
            (
                Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
            ),
            (
                [UInt8](repeating: 0xaa, count: 20), [UInt8](repeating: 0xdd, count: 50),
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
            ),
            (
                [UInt8](repeating: 0xaa, count: 131),
                Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
            ),
        ])
    func authentication(key: [UInt8], message: [UInt8], code: String) {
        #expect(hex(HMACSHA256.code(of: message, key: key)) == code)
        #expect(hex(HMACSHA256.code(of: message[...], key: key)) == code)
        #expect(hex(HMACSHA256.code(of: message + [0], key: key)) != code)
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
