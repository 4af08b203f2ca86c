import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("The chain of a JWS")
struct ChainTests {
    /// One spoiled template each, under a root that is trusted.
    static let spoiled: [(String, String, @Sendable () throws -> TestStore)] = [
        ("leaf without its marker", "leaf", { try TestStore(leaf: { $0.markers = [] }) }),
        (
            "leaf with the intermediate's marker alone", "leaf",
            { try TestStore(leaf: { $0.markers = [JWSVerifier.intermediateMarker] }) }
        ),
        ("intermediate without its marker", "intermediate", { try TestStore(intermediate: { $0.markers = [] }) }),
        (
            "intermediate with the leaf's marker alone", "intermediate",
            { try TestStore(intermediate: { $0.markers = [JWSVerifier.leafMarker] }) }
        ),
        (
            "intermediate that says CA:FALSE", "may not issue",
            {
                try TestStore(intermediate: {
                    $0.isCA = false
                    $0.pathLength = nil
                })
            }
        ),
        (
            "intermediate without basic constraints", "may not issue",
            { try TestStore(intermediate: { $0.isCA = nil }) }
        ),
        (
            "leaf expired when signed", "expired",
            { try TestStore(leaf: { $0.notAfter = Instant.signed - Instant.day }) }
        ),
        (
            "leaf not yet valid when signed", "not yet valid",
            { try TestStore(leaf: { $0.notBefore = Instant.signed + Instant.day }) }
        ),
        (
            "intermediate expired when signed", "expired",
            { try TestStore(intermediate: { $0.notAfter = Instant.signed - Instant.day }) }
        ),
        (
            "intermediate not yet valid when signed", "not yet valid",
            { try TestStore(intermediate: { $0.notBefore = Instant.signed + Instant.day }) }
        ),
        (
            "root expired when signed", "expired",
            { try TestStore(root: { $0.notAfter = Instant.signed - Instant.day }) }
        ),
    ]

    @Test("a spoiled certificate is untrusted", arguments: spoiled.indices)
    func refused(index: Int) throws {
        let (name, words, make) = Self.spoiled[index]
        let store = try make()
        let verifier = try store.verifier()
        let refusal = try #require(verifier.refusal(of: try store.sign()), "accepted: \(name)")
        #expect(refusal.isUntrusted(about: words), "\(name): \(refusal)")
        #expect(verifier.rememberedChainCount == 0)
    }

    @Test("an attacker's own root with all the right marks is untrusted, though it bears the trusted root's name")
    func ownRoot() throws {
        let attacker = try TestStore()
        let verifier = try TestStore().verifier()
        #expect(try #require(verifier.refusal(of: try attacker.sign())).isUntrusted(about: "trusted root"))
        let apple = try JWSVerifier(trusting: .apple())
        #expect(try #require(apple.refusal(of: try attacker.sign())).isUntrusted(about: "trusted root"))
    }

    @Test("the trusted root appended to an attacker's chain changes nothing")
    func borrowedRoot() throws {
        let attacker = try TestStore()
        let store = try TestStore()
        let compact = try attacker.sign(x5c: [attacker.chain[0], attacker.chain[1], store.chain[2]])
        #expect(try #require(try store.verifier().refusal(of: compact)).isUntrusted(about: "trusted root"))
        let mixed = try attacker.sign(x5c: [attacker.chain[0], store.chain[1], store.chain[2]])
        #expect(try #require(try store.verifier().refusal(of: mixed)).isUntrusted(about: "trusted root"))
    }

    @Test("a genuine leaf does not vouch for a key that is not its own")
    func otherKey() throws {
        let store = try TestStore()
        let compact = try store.sign("{}", x5c: store.chain, key: .generate(.p256))
        #expect(try #require(try store.verifier().refusal(of: compact)).isUntrusted(about: "signature"))
    }

    @Test("a leaf cannot issue: neither as it is, nor with the intermediate's mark upon it")
    func leafAsIssuer() throws {
        let marks = [JWSVerifier.leafMarker, JWSVerifier.intermediateMarker]
        let store = try TestStore(leaf: { $0.markers = marks })
        let mallory = try PrivateKey.generate(.p256)
        let forged = try CertificateAuthority(certificate: store.leaf, key: store.leafKey).issue(
            .leaf(
                commonName: "Forged", notBefore: Instant.start, notAfter: Instant.end, marker: JWSVerifier.leafMarker),
            for: mallory.publicKey)
        let x5c = [forged, store.leaf, store.intermediate.certificate].map { Base64.encode($0.der) }
        let compact = try store.sign("{}", x5c: x5c, key: mallory)
        #expect(try #require(try store.verifier().refusal(of: compact)).isUntrusted(about: "may not issue"))
    }

    @Test("the path has exactly three certificates: a leaf right below the root is untrusted")
    func shortPath() throws {
        let store = try TestStore()
        let key = try PrivateKey.generate(.p256)
        let direct = try store.root.issue(
            .leaf(
                commonName: "Direct", notBefore: Instant.start, notAfter: Instant.end, marker: JWSVerifier.leafMarker),
            for: key.publicKey)
        let compact = try store.sign("{}", x5c: [Base64.encode(direct.der), store.chain[1], store.chain[2]], key: key)
        #expect(try #require(try store.verifier().refusal(of: compact)).isUntrusted(about: "path of three"))
    }

    @Test("leaf and intermediate swapped are untrusted")
    func swapped() throws {
        let store = try TestStore()
        let compact = try store.sign(x5c: [store.chain[1], store.chain[0], store.chain[2]])
        #expect(try #require(try store.verifier().refusal(of: compact)).isUntrusted(about: "leaf"))
    }

    @Test("a leaf on P-384 is untrusted, whatever the signature")
    func otherCurve() throws {
        let store = try TestStore(leafCurve: .p384)
        let compact = try store.sign("{}", x5c: store.chain, key: .generate(.p256))
        #expect(try #require(try store.verifier().refusal(of: compact)).isUntrusted(about: "P-256"))
    }

    @Test("chains without key identifiers are accepted")
    func noKeyIdentifiers() throws {
        let store = try TestStore(
            intermediate: { $0.hasKeyIdentifiers = false }, leaf: { $0.hasKeyIdentifiers = false },
            root: { $0.hasKeyIdentifiers = false })
        #expect(try store.verifier().refusal(of: try store.sign()) == nil)
    }
}
