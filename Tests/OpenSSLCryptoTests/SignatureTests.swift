import Testing

@testable import OpenSSLCrypto

@Suite("Keys and ES256 signatures")
struct SignatureTests {
    /// RFC 7515, appendix A.3: the key (as SubjectPublicKeyInfo), the message and the signature.
    static let rfcKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7
        6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==
        -----END PUBLIC KEY-----
        """
    static let rfcMessage =
        "eyJhbGciOiJFUzI1NiJ9."
        + "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    static let rfcSignature =
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"

    @Test("the example of RFC 7515, A.3 verifies, and no altered bit of it does")
    func rfc7515() throws {
        let key = try PublicKey(pem: Self.rfcKey)
        let message = Array(Self.rfcMessage.utf8)
        let signature = try #require(Base64.decodeURL(Self.rfcSignature))
        #expect(key.curve == .p256)
        #expect(key.isValidES256(signature: signature, message: message))
        for bit in stride(from: 0, to: 512, by: 7) {
            var altered = signature
            altered[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(!key.isValidES256(signature: altered, message: message), "bit \(bit)")
        }
        #expect(!key.isValidES256(signature: signature, message: message + [0]))
    }

    @Test("a fresh key's signatures verify with its own public key alone")
    func fresh() throws {
        let key = try PrivateKey.generate(.p256)
        let other = try PrivateKey.generate(.p256)
        for length in 0..<40 {
            let message = SecureRandom.bytes(length)
            let signature = try key.signES256(message)
            #expect(signature.count == 64)
            #expect(key.publicKey.isValidES256(signature: signature, message: message))
            #expect(!other.publicKey.isValidES256(signature: signature, message: message))
        }
    }

    @Test("signatures of another length, of zeros and beyond the order are refused")
    func outOfRange() throws {
        let key = try PrivateKey.generate(.p256)
        let good = try key.signES256([1])
        for signature in [
            [], Array(good.dropLast()), good + [0], [UInt8](repeating: 0, count: 64),
            [UInt8](repeating: 255, count: 64),
            Array(good.prefix(32)) + [UInt8](repeating: 0, count: 32),
        ] {
            #expect(!key.publicKey.isValidES256(signature: signature, message: [1]), "\(signature)")
        }
    }

    @Test("a signature's DER form is the one that OpenSSL reads and writes, however short its numbers")
    func der() throws {
        let numbers: [[UInt8]] = [
            [], [1], [0x7F], [0x80], [0xFF], [0x80, 0], [1, 0], [UInt8](repeating: 0xFF, count: 32),
            [UInt8](repeating: 0x7F, count: 32), [0x80] + [UInt8](repeating: 0, count: 31),
            [UInt8](repeating: 0xA5, count: 31),
        ]
        for r in numbers {
            for s in numbers {
                let raw = [r, s].flatMap { [UInt8](repeating: 0, count: 32 - $0.count) + $0 }
                let der = try #require(raw.withUnsafeBytes { ES256Signature.withDER(fromRaw: $0) { Array($0) } })
                #expect(ES256Signature.raw(fromDER: der) == raw)
                let length = [r, s].map { max(1, $0.count) + ($0.first.map { $0 >= 0x80 } ?? false ? 1 : 0) }
                #expect(der.count == 6 + length[0] + length[1], "\(r) and \(s)")
            }
        }
        let short = [UInt8](repeating: 1, count: 63)
        #expect(short.withUnsafeBytes { ES256Signature.withDER(fromRaw: $0) { $0.count } } == nil)
    }

    @Test("a P-384 key neither signs nor verifies ES256")
    func otherCurve() throws {
        let key = try PrivateKey.generate(.p384)
        #expect(key.publicKey.curve == .p384)
        #expect(throws: CryptoError(.unsupportedKey, "")) { try key.signES256([1]) }
        #expect(!key.publicKey.isValidES256(signature: [UInt8](repeating: 1, count: 64), message: [1]))
    }

    @Test("a key survives PEM", arguments: EllipticCurve.allCases)
    func pem(curve: EllipticCurve) throws {
        let key = try PrivateKey.generate(curve)
        let text = try key.pem()
        #expect(text.hasPrefix("-----BEGIN PRIVATE KEY-----"))
        let again = try PrivateKey(pem: text)
        #expect(again.curve == curve)
        #expect(try again.publicKey.derBytes() == key.publicKey.derBytes())
    }

    @Test("what is no key is refused, encrypted keys without asking for a passphrase")
    func noKey() {
        let encrypted = """
            -----BEGIN EC PRIVATE KEY-----
            Proc-Type: 4,ENCRYPTED
            DEK-Info: AES-128-CBC,D2CA8E1D0A6F1A2B3C4D5E6F70819203

            AAAAAAAAAAAAAAAAAAAAAA==
            -----END EC PRIVATE KEY-----
            """
        for text in ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", encrypted] {
            #expect(throws: CryptoError(.malformedKey, "")) { try PrivateKey(pem: text) }
        }
    }

    @Test("one key verifies on many threads at once")
    func concurrent() async throws {
        let key = try PrivateKey.generate(.p256)
        let signature = try key.signES256([7])
        let valid = await withTaskGroup(of: Bool.self) { group in
            for index in 0..<64 {
                group.addTask {
                    key.publicKey.isValidES256(signature: signature, message: [7])
                        && !key.publicKey.isValidES256(signature: signature, message: [UInt8(index), 8])
                }
            }
            return await group.reduce(true) { $0 && $1 }
        }
        #expect(valid)
    }
}
