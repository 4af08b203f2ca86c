import COpenSSL
import Testing

@testable import OpenSSLCrypto

/// Verification with a key's multiples, held against OpenSSL's own.
@Suite("Verifying with a key's multiples")
struct P256MultiplesTests {
    /// The order of P-256, big-endian.
    private static let order = Array(
        "FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551".utf8)
    private static var orderBytes: [UInt8] {
        stride(from: 0, to: order.count, by: 2).compactMap {
            UInt8(String(decoding: order[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
    }

    /// A number near the order, or near zero.
    private static func number(_ base: [UInt8], plus delta: Int) -> [UInt8] {
        var result = base
        var carry = delta
        for index in result.indices.reversed() {
            let sum = Int(result[index]) + carry
            result[index] = UInt8(truncatingIfNeeded: sum)
            carry = sum >> 8
        }
        return result
    }

    private static func compare(
        _ key: PublicKey, _ multiples: P256Multiples, signature: [UInt8], digest: [UInt8], _ what: String
    ) -> Bool {
        let ours = multiples.isValid(signature: signature, digest: digest)
        let theirs = key.isValidForOpenSSL(signature: signature, digest: digest)
        #expect(ours == theirs, "\(what): \(signature) of \(digest)")
        return theirs
    }

    @Test("genuine signatures are valid, and in their other form, and no bit of them or of the digest may change")
    func genuine() throws {
        for _ in 0..<3 {
            let key = try PrivateKey.generate(.p256)
            let multiples = try #require(P256Multiples(of: try key.publicKey.p256Point()))
            let other = try PrivateKey.generate(.p256)
            for round in 0..<50 {
                let message = SecureRandom.bytes(round)
                let signature = try key.signES256(message)
                let digest = SHA256.hash(message)
                #expect(Self.compare(key.publicKey, multiples, signature: signature, digest: digest, "genuine"))
                let twin = Array(signature.prefix(32)) + Self.difference(Self.orderBytes, Array(signature.suffix(32)))
                #expect(Self.compare(key.publicKey, multiples, signature: twin, digest: digest, "n - s"))
                var changed = signature
                changed[round % 64] ^= 1 << UInt8(round % 8)
                #expect(!Self.compare(key.publicKey, multiples, signature: changed, digest: digest, "changed"))
                var otherDigest = digest
                otherDigest[round % 32] ^= 1 << UInt8(round % 8)
                #expect(!Self.compare(key.publicKey, multiples, signature: signature, digest: otherDigest, "digest"))
                let foreign = try other.signES256(message)
                #expect(!Self.compare(key.publicKey, multiples, signature: foreign, digest: digest, "foreign"))
            }
        }
    }

    @Test("numbers at the edges are judged as OpenSSL judges them")
    func edges() throws {
        let key = try PrivateKey.generate(.p256).publicKey
        let multiples = try #require(P256Multiples(of: try key.p256Point()))
        let zero = [UInt8](repeating: 0, count: 32)
        let numbers =
            (0...3).map { Self.number(zero, plus: $0) } + (-3...3).map { Self.number(Self.orderBytes, plus: $0) }
            + [[UInt8](repeating: 0xFF, count: 32), [0x80] + zero.dropLast(), SecureRandom.bytes(32)]
        for r in numbers {
            for s in numbers {
                for digest in numbers {
                    _ = Self.compare(key, multiples, signature: r + s, digest: digest, "edge")
                }
            }
        }
        for length in [0, 1, 32, 63, 65, 128] {
            let signature = [UInt8](repeating: 1, count: length)
            #expect(multiples.isValid(signature: signature, digest: zero) == false, "length \(length)")
        }
    }

    /// With r the x of a multiple of the key, and digest and s chosen to it, signatures can be made without the private
    /// key; they reach the places that random ones do not: a digest of zero, equal points, opposite points.
    @Test("signatures made to measure are judged as OpenSSL judges them")
    func madeToMeasure() throws {
        let key = try PrivateKey.generate(.p256).publicKey
        let point = try key.p256Point()
        let multiples = try #require(P256Multiples(of: point))
        let zero = [UInt8](repeating: 0, count: 32)
        let one = Self.number(zero, plus: 1)
        // The sum is the key itself: u1 = 0 and u2 = 1.
        #expect(Self.compare(key, multiples, signature: point.x + point.x, digest: zero, "digest zero"))
        #expect(!Self.compare(key, multiples, signature: point.x + one, digest: zero, "digest zero, another s"))
        #expect(
            Self.compare(key, multiples, signature: point.x + point.x, digest: Self.orderBytes, "digest of the order"))
        // A key that is the generator itself: u1 G and u2 G are equal, or opposite, at will.
        let generator = try #require(Self.generator())
        let itself = try #require(P256Multiples(of: generator))
        let generatorKey = try #require(Self.key(of: generator))
        let double = try #require(Self.double())
        // u1 = u2 = 1: the sum is twice the generator.
        #expect(Self.compare(generatorKey, itself, signature: double + double, digest: double, "twice"))
        // u1 = -u2: the sum is nothing at all.
        let opposite = Self.difference(Self.orderBytes, double)
        #expect(!Self.compare(generatorKey, itself, signature: double + double, digest: opposite, "infinity"))
    }

    @Test("a point that is not on the curve has no multiples")
    func offCurve() throws {
        let point = try PrivateKey.generate(.p256).publicKey.p256Point()
        #expect(P256Multiples(of: P256Point(x: point.x, y: Self.number(point.y, plus: 1))) == nil)
        #expect(P256Multiples(of: P256Point(x: [0], y: [0])) == nil)
    }

    @Test("a key that goes on signing gets its multiples, once for all objects of it, and judges on as before")
    func threshold() async throws {
        let key = try PrivateKey.generate(.p256)
        let signature = try key.signES256([1, 2, 3])
        let publicKey = key.publicKey
        let point = try publicKey.p256Point()
        for count in 0..<PublicKey.validBeforeMultiples {
            #expect(RememberedMultiples.shared.multiples(of: point) == nil, "after \(count)")
            #expect(publicKey.isValidES256(signature: signature, message: [1, 2, 3]))
            if count % 10 == 0 { #expect(!publicKey.isValidES256(signature: signature, message: [9])) }
        }
        let multiples = try #require(RememberedMultiples.shared.multiples(of: point))
        let again = try PublicKey(pem: Self.pem(of: publicKey))
        let wrong = await withTaskGroup(of: Int.self) { group in
            for worker in 0..<8 {
                let key = worker % 2 == 0 ? publicKey : again
                group.addTask {
                    (0..<100).count { round in
                        !key.isValidES256(signature: signature, message: [1, 2, 3])
                            || key.isValidES256(signature: signature, message: [UInt8(round), UInt8(worker)])
                            || multiples.isValid(signature: signature, digest: SHA256.hash([1, 2, 3])) != true
                    }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(wrong == 0)
    }
}

extension P256MultiplesTests {
    /// The first number less the second, which is not larger.
    private static func difference(_ first: [UInt8], _ second: [UInt8]) -> [UInt8] {
        var result = first
        var borrow = 0
        for index in result.indices.reversed() {
            let value = Int(first[index]) - Int(second[index]) - borrow
            result[index] = UInt8(truncatingIfNeeded: value)
            borrow = value < 0 ? 1 : 0
        }
        return result
    }

    private static func hexBytes(_ text: String) -> [UInt8] {
        let digits = Array(text.utf8)
        return stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
    }

    /// FIPS 186-4, D.1.2.3.
    private static func generator() -> P256Point? {
        P256Point(
            x: hexBytes("6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296"),
            y: hexBytes("4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5"))
    }

    /// The x of twice the generator.
    private static func double() -> [UInt8]? {
        hexBytes("7CF27B188D034F7E8A52380304B51AC3C08969E277F21B35A60B48FC47669978")
    }

    /// The SubjectPublicKeyInfo of a point.
    private static func pem(of point: P256Point) -> String {
        let der = hexBytes("3059301306072A8648CE3D020106082A8648CE3D03010703420004") + point.x + point.y
        return "-----BEGIN PUBLIC KEY-----\n\(Base64.encode(der))\n-----END PUBLIC KEY-----\n"
    }

    private static func pem(of key: PublicKey) throws -> String { pem(of: try key.p256Point()) }

    private static func key(of point: P256Point) -> PublicKey? { try? PublicKey(pem: pem(of: point)) }
}
