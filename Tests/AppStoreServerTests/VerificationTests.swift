import EntitlementCore
import Foundation
import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("Verifying a JWS")
struct VerificationTests {
    let store: TestStore
    let verifier: JWSVerifier

    init() throws {
        store = try TestStore()
        verifier = try store.verifier()
    }

    @Test("what the store signed is accepted, with its bytes, its payload's hash and its chain")
    func accepted() throws {
        let compact = try store.sign(#"{"signedDate":1,"a":"ü"}"#)
        let verified = try verifier.verify(compact)
        #expect(verified.compact == Array(compact.utf8))
        #expect(verified.payload == Array(#"{"signedDate":1,"a":"ü"}"#.utf8))
        #expect(verified.payloadHash.bytes == SHA256.hash(verified.payload))
        #expect(verified.chain.leafSHA256 == store.leaf.fingerprint)
        #expect(verified.chain.intermediateSHA256 == store.intermediate.certificate.fingerprint)
        #expect(verified.chain.rootSHA256 == store.root.certificate.fingerprint)
    }

    @Test(
        "only ES256 is an algorithm",
        arguments: [
            #""alg":"none","#, #""alg":"None","#, #""alg":"HS256","#, #""alg":"RS256","#, #""alg":"ES384","#,
            #""alg":"es256","#, #""alg":"ES256 ","#, #""alg":["ES256"],"#, #""alg":null,"#, #""alg":256,"#, "",
        ])
    func algorithm(member: String) throws {
        let list = store.chain.map { "\"\($0)\"" }.joined(separator: ",")
        let compact = try store.sign("{}", header: "{\(member)\"x5c\":[\(list)]}")
        #expect(try #require(verifier.refusal(of: compact)).isUntrusted(about: "alg"))
    }

    @Test("an algorithm that takes long to compare as text is refused at once")
    func longAlgorithm() throws {
        let marks = String(repeating: "\u{315}", count: 50_000) + String(repeating: "\u{334}", count: 50_000)
        let compact = try store.sign("{}", header: #"{"alg":"a\#(marks)"}"#)
        let start = ContinuousClock.now
        #expect(try #require(verifier.refusal(of: compact)).isUntrusted(about: "alg"))
        #expect(ContinuousClock.now - start < .seconds(1))
    }

    @Test("alg none is untrusted without a signature too, and HS256 keyed with the public key")
    func symmetric() throws {
        let none =
            "\(Base64.encodeURL(header(algorithm: "none", x5c: store.chain).utf8)).\(Base64.encodeURL("{}".utf8))."
        #expect(try #require(verifier.refusal(of: none)).isUntrusted(about: "alg"))
        let content =
            "\(Base64.encodeURL(header(algorithm: "HS256", x5c: store.chain).utf8)).\(Base64.encodeURL("{}".utf8))"
        let keys = [try store.leafKey.publicKey.derBytes(), store.leaf.der, Array(try store.leaf.pem().utf8)]
        for key in keys {
            let compact = "\(content).\(Base64.encodeURL(hmacSHA256(key: key, Array(content.utf8))))"
            #expect(try #require(verifier.refusal(of: compact)).isUntrusted(about: "alg"))
        }
    }

    @Test("a critical header extension is untrusted", arguments: [#"["exp"]"#, "[]", "null", #"["b64"]"#])
    func critical(value: String) throws {
        let list = store.chain.map { "\"\($0)\"" }.joined(separator: ",")
        let compact = try store.sign("{}", header: #"{"alg":"ES256","crit":\#(value),"x5c":[\#(list)]}"#)
        #expect(try #require(verifier.refusal(of: compact)).isUntrusted(about: "crit"))
    }

    @Test("other header members are ignored")
    func otherMembers() throws {
        let list = store.chain.map { "\"\($0)\"" }.joined(separator: ",")
        let compact = try store.sign("{}", header: #"{"kid":"k","typ":"JWT","alg":"ES256","x5c":[\#(list)],"new":{}}"#)
        #expect(verifier.refusal(of: compact) == nil)
    }

    @Test("x5c holds three certificates, no more and no fewer", arguments: [0, 1, 2, 4, 5])
    func count(count: Int) throws {
        let chain = Array((store.chain + [store.chain[2], store.chain[2]]).prefix(count))
        let refusal = verifier.refusal(of: try store.sign(x5c: chain))
        #expect(try #require(refusal).isUntrusted(about: "exactly three"))
    }

    @Test(
        "x5c is a list of strings",
        arguments: ["", #""x5c":null,"#, #""x5c":"a","#, #""x5c":[1,2,3],"#, #""x5c":{"0":"a"},"#])
    func noList(member: String) throws {
        let refusal = verifier.refusal(of: try store.sign("{}", header: #"{\#(member)"alg":"ES256"}"#))
        #expect(try #require(refusal).isUntrusted(about: "exactly three"))
    }

    @Test("leaf and intermediate are certificates in strict base64", arguments: 0...1)
    func unreadable(position: Int) throws {
        let der = [store.leaf.der, store.intermediate.certificate.der][position]
        for text in [
            "", "!", "AAAA", Base64.encodeURL(der + [0xFF]), Base64.encode(der + [0]), Base64.encode(der.dropLast()),
            store.chain[position] + "\\n",
        ] {
            var chain = store.chain
            chain[position] = text
            let refusal = verifier.refusal(of: try store.sign(x5c: chain))
            #expect(try #require(refusal).isUntrusted(about: "certificate"), "\(text)")
        }
    }

    @Test("the third certificate is not looked at: garbage, a re-issued root, or a stranger's is accepted")
    func third() throws {
        let reissued = try CertificateAuthority.selfSigned(
            .root(commonName: "Test Root", serial: 99, notBefore: Instant.start, notAfter: Instant.end),
            key: store.root.key)
        let strangers = try TestStore().chain[2]
        for text in ["", "garbage, not base64", Base64.encode(reissued.certificate.der), strangers] {
            let compact = try store.sign(x5c: [store.chain[0], store.chain[1], text])
            let verified = try verifier.verify(compact)
            #expect(verified.chain.rootSHA256 == store.root.certificate.fingerprint)
        }
    }

    @Test("a chain may be anchored at a re-issued root with the same name and key")
    func reissuedAnchor() throws {
        let reissued = try CertificateAuthority.selfSigned(
            .root(commonName: "Test Root", serial: 99, notBefore: Instant.start, notAfter: Instant.end),
            key: store.root.key)
        let verifier = try JWSVerifier(trusting: TrustAnchors([reissued.certificate]))
        #expect(verifier.refusal(of: try store.sign()) == nil)
    }

    @Test("a change to any part is untrusted, before and after its chain is remembered")
    func tampered() throws {
        let compact = try store.sign(#"{"price":9990}"#)
        let parts = compact.split(separator: ".").map(String.init)
        let payload = Base64.encodeURL(#"{"price":9991}"#.utf8)
        let spaced = Base64.encodeURL((header(x5c: store.chain) + " ").utf8)
        let other = try store.sign(#"{"price":9992}"#).split(separator: ".").map(String.init)
        var flipped = try #require(Base64.decodeURL(parts[2]))
        flipped[63] ^= 1
        for _ in 0..<2 {
            for forged in [
                "\(parts[0]).\(payload).\(parts[2])", "\(spaced).\(parts[1]).\(parts[2])",
                "\(parts[0]).\(parts[1]).\(other[2])", "\(parts[0]).\(parts[1]).\(Base64.encodeURL(flipped))",
            ] {
                #expect(try #require(verifier.refusal(of: forged)).isUntrusted(about: "signature"))
            }
            #expect(verifier.refusal(of: compact) == nil)
        }
    }

    @Test("a signature of another length is malformed", arguments: [0, 1, 63, 65, 72, 128])
    func signatureLength(length: Int) throws {
        let content = try store.sign().split(separator: ".").dropLast().joined(separator: ".")
        let signature = Base64.encodeURL([UInt8](repeating: 1, count: length))
        for _ in 0..<2 {
            #expect(verifier.refusal(of: "\(content).\(signature)") == .malformed)
            #expect(verifier.refusal(of: try store.sign()) == nil)
        }
    }

    @Test("a signature's other form (r, n-s) is accepted, and the payload's hash stays the same")
    func malleable() throws {
        let compact = try store.sign()
        let parts = compact.split(separator: ".").map(String.init)
        let signature = try #require(Base64.decodeURL(parts[2]))
        let twin = signature.prefix(32) + negatedModuloOrder(signature.suffix(32))
        #expect(Array(twin) != signature)
        let first = try verifier.verify(compact)
        let second = try verifier.verify("\(parts[0]).\(parts[1]).\(Base64.encodeURL(twin))")
        #expect(first.payloadHash == second.payloadHash)
        #expect(first.compact != second.compact)
    }

    @Test("many threads share one verifier")
    func concurrent() async throws {
        let compact = try store.sign()
        let stranger = try TestStore().sign()
        let verifier = verifier
        let failures = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<64 {
                group.addTask {
                    let wrong = verifier.refusal(of: compact) != nil || verifier.refusal(of: stranger) == nil
                    return wrong ? 1 : 0
                }
            }
            return await group.reduce(0, +)
        }
        #expect(failures == 0)
    }
}

/// HMAC-SHA-256 (RFC 2104) for an attack; the product has no use for it.
private func hmacSHA256(key: [UInt8], _ message: [UInt8]) -> [UInt8] {
    let short = key.count > 64 ? SHA256.hash(key) : key
    let block = short + [UInt8](repeating: 0, count: 64 - short.count)
    return SHA256.hash(block.map { $0 ^ 0x5C } + SHA256.hash(block.map { $0 ^ 0x36 } + message))
}

/// The order of P-256 minus the number, both of 32 bytes, big end first.
private func negatedModuloOrder(_ number: ArraySlice<UInt8>) -> [UInt8] {
    let order: [UInt8] = [
        0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
        0xBC, 0xE6, 0xFA, 0xAD, 0xA7, 0x17, 0x9E, 0x84, 0xF3, 0xB9, 0xCA, 0xC2, 0xFC, 0x63, 0x25, 0x51,
    ]
    var result = [UInt8](repeating: 0, count: 32)
    var borrow = 0
    for (index, digit) in Array(number).enumerated().reversed() {
        let difference = Int(order[index]) - Int(digit) - borrow
        borrow = difference < 0 ? 1 : 0
        result[index] = UInt8(difference + borrow * 256)
    }
    return result
}
