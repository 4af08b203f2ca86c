import OpenSSLCrypto
import Testing

@Suite("Keys as JSON Web Keys write them")
struct JSONWebKeyTests {
    /// The start of every SubjectPublicKeyInfo on P-256, up to the point's form.
    private static let header: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48,
        0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]

    private static func key(der: [UInt8]) throws -> PublicKey {
        try PublicKey(pem: "-----BEGIN PUBLIC KEY-----\n\(Base64.encode(der))\n-----END PUBLIC KEY-----\n")
    }

    @Test("the key of RFC 7515, A.3 has the coordinates that the RFC gives it")
    func rfc7515() throws {
        let point = try PublicKey(pem: SignatureTests.rfcKey).p256Point()
        #expect(Base64.encodeURL(point.x) == "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")
        #expect(Base64.encodeURL(point.y) == "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")
    }

    @Test("the key of RFC 9449 has the thumbprint that the RFC gives it")
    func thumbprint() throws {
        let x = try #require(Base64.decodeURL("l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs"))
        let y = try #require(Base64.decodeURL("9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"))
        let point = try Self.key(der: Self.header + [4] + x + y).p256Point()
        #expect(point.x == x && point.y == y)
        #expect(point.thumbprint == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
    }

    @Test("coordinates keep their leading zeros")
    func leadingZeros() throws {
        var seen = 0
        // One coordinate in 256 begins with a zero; to see none in so many has a chance of one in 10^13.
        for _ in 0..<4000 {
            let key = try PrivateKey.generate(.p256).publicKey
            let point = try key.p256Point()
            #expect(try point.x + point.y == Array(key.derBytes().suffix(64)))
            if point.x.first == 0 || point.y.first == 0 { seen += 1 }
        }
        #expect(seen > 0)
    }

    @Test("a key that was written with its point compressed has both coordinates")
    func compressed() throws {
        let point = try PrivateKey.generate(.p256).publicKey.p256Point()
        let form: UInt8 = (point.y.last ?? 0) & 1 == 0 ? 2 : 3
        var header = Self.header
        (header[1], header[24]) = (0x39, 0x22)
        #expect(try Self.key(der: header + [form] + point.x).p256Point() == point)
    }

    @Test("a key on another curve has no such form")
    func otherCurve() throws {
        let key = try PrivateKey.generate(.p384).publicKey
        #expect(throws: CryptoError(.unsupportedKey, "")) { try key.p256Point() }
    }
}
