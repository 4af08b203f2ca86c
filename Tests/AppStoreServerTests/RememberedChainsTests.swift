import EntitlementCore
import OpenSSLCrypto
import Synchronization
import Testing

@testable import AppStoreServer

@Suite("The cache of verified certificate chains")
struct RememberedChainsTests {
    let store: TestStore
    let verifier: JWSVerifier

    init() throws {
        store = try TestStore()
        verifier = try store.verifier()
    }

    @Test("a remembered chain is held against each signed date")
    func validityOnEachUse() throws {
        let compact = try store.sign()
        for _ in 0..<2 {
            #expect(verifier.refusal(of: compact, signedAt: Instant.signed) == nil)
            #expect(verifier.rememberedChainCount == 1)
            for (signedAt, word) in [
                (Instant.start - 1, "not yet valid"), (Instant.end, "expired"), (Instant.end + Instant.day, "expired"),
                (0, "not yet valid"), (Int64.max, "trusted root"), (Int64.min, "trusted root"),
            ] {
                let refusal = try #require(verifier.refusal(of: compact, signedAt: signedAt), "\(signedAt)")
                #expect(refusal.isUntrusted(about: word), "\(signedAt): \(refusal)")
            }
            #expect(verifier.refusal(of: compact, signedAt: Instant.start) == nil)
            #expect(verifier.refusal(of: compact, signedAt: Instant.end - 1) == nil)
        }
    }

    @Test("intermediate and root are held against each signed date too")
    func validityOfAll() throws {
        let day = Instant.day
        for store in [
            try TestStore(intermediate: { $0.notAfter = Instant.signed + day }),
            try TestStore(root: { $0.notAfter = Instant.signed + day }),
        ] {
            let verifier = try store.verifier()
            let compact = try store.sign()
            #expect(verifier.refusal(of: compact) == nil)
            #expect(
                try #require(verifier.refusal(of: compact, signedAt: Instant.signed + day)).isUntrusted(
                    about: "expired"))
            #expect(verifier.refusal(of: compact) == nil)
        }
    }

    @Test("of two roots with one key, the one valid at the signed date counts, whichever is remembered")
    func twoRoots() throws {
        let renewed = try CertificateAuthority.selfSigned(
            .root(commonName: "Test Root", serial: 7, notBefore: Instant.signed, notAfter: Instant.end),
            key: store.root.key)
        let old = try CertificateAuthority.selfSigned(
            .root(commonName: "Test Root", serial: 8, notBefore: Instant.start, notAfter: Instant.signed),
            key: store.root.key)
        let verifier = try JWSVerifier(trusting: TrustAnchors([old.certificate, renewed.certificate]))
        let compact = try store.sign()
        for (signedAt, root) in [
            (Instant.signed + 1_000, renewed), (Instant.signed - 1_000, old), (Instant.signed + 1_000, renewed),
        ] {
            let verified = try verifier.verify(compact, signedAt: signedAt)
            #expect(verified.chain.rootSHA256 == root.certificate.fingerprint)
        }
    }

    @Test("a chain is remembered whoever shows it, a header only when its signature was right, and a stranger's never")
    func failures() throws {
        let key = try PrivateKey.generate(.p256)
        _ = verifier.refusal(of: try TestStore().sign())
        _ = verifier.refusal(of: try store.sign(), signedAt: Instant.end)
        #expect(verifier.rememberedChainCount == 0)
        _ = verifier.refusal(of: try store.sign("{}", x5c: store.chain, key: key))
        #expect(verifier.rememberedChainCount == 1)
        #expect(verifier.rememberedHeaderCount == 0)
        #expect(verifier.refusal(of: try store.sign()) == nil)
        #expect(verifier.rememberedHeaderCount == 1)
    }

    @Test("no more than 32 headers are remembered, and one chain for all that carry its certificates")
    func bounded() throws {
        for index in 0..<40 {
            let compact = try store.sign(x5c: [store.chain[0], store.chain[1], "\(index)"])
            #expect(verifier.refusal(of: compact) == nil)
            #expect(verifier.rememberedHeaderCount == min(index + 1, RememberedChains.capacity))
            #expect(verifier.rememberedChainCount == 1)
        }
    }

    @Test("no more than 32 chains are remembered; those with which nobody has signed go first")
    func boundedChains() throws {
        var remembered = RememberedChains()
        for index in 0..<40 {
            let chain = try validatedChain(UInt8(index))
            remembered.remember(chain, now: 0)
            if index < 4 {
                remembered.remember(try #require(VouchedHeader(encoded: [UInt8(index)], chain: chain)), validatedAt: 0)
            }
            #expect(remembered.chains.count == min(index + 1, RememberedChains.capacity))
        }
        let leaves = remembered.chains.map(\.chain.identity.leafSHA256)
        #expect(leaves.prefix(4) == [[0], [1], [2], [3]])
        #expect(leaves.suffix(28) == (12..<40).map { [UInt8($0)] })
    }

    @Test("the header used longest ago is forgotten first")
    func leastRecentlyUsed() throws {
        var remembered = RememberedChains()
        for index in 0..<32 { remembered.remember(try header([UInt8(index)]), validatedAt: 0) }
        #expect(remembered.header(of: [0], now: 1) != nil)
        remembered.remember(try header([32]), validatedAt: 2)
        #expect(remembered.headers.count == 32)
        #expect(remembered.header(of: [0], now: 3) != nil)
        #expect(remembered.header(of: [1], now: 3) == nil)
        #expect(remembered.header(of: [32], now: 3) != nil)
    }

    @Test("a chain is forgotten 15 minutes after its validation, however often it was used, and by a clock set back")
    func aging() throws {
        let header = try header([1])
        var remembered = RememberedChains()
        remembered.remember(header, validatedAt: 1_000)
        #expect(remembered.header(of: [1], now: 1_000 + RememberedChains.lifetime - 1) != nil)
        #expect(remembered.header(of: [1], now: 1_000 + RememberedChains.lifetime) == nil)
        #expect(remembered.headers.count == 0)
        remembered.remember(header, validatedAt: 1_000)
        #expect(remembered.header(of: [1], now: 999) == nil)
        #expect(remembered.headers.count == 0)
        // Said twice, it is remembered once, as of the later time.
        remembered.remember(header, validatedAt: 1_000)
        remembered.remember(header, validatedAt: 2_000)
        #expect(remembered.headers.count == 1)
        #expect(remembered.header(of: [1], now: 1_000 + RememberedChains.lifetime) != nil)
    }

    @Test("a header counts only as the very bytes that were remembered")
    func exactHeaders() throws {
        var remembered = RememberedChains()
        remembered.remember(try header([1, 2, 3]), validatedAt: 0)
        for other in [[], [1], [1, 2], [1, 2, 3, 4], [1, 2, 4], [0, 2, 3], [2, 3]] as [ArraySlice<UInt8>] {
            #expect(remembered.header(of: other, now: 0) == nil, "\(other)")
        }
        #expect(remembered.header(of: [0, 1, 2, 3].dropFirst(), now: 0)?.parts.encoded == [1, 2, 3])
    }

    private func header(_ encoded: [UInt8]) throws -> VouchedHeader {
        try #require(VouchedHeader(encoded: encoded, chain: try validatedChain()))
    }

    /// A chain with a made-up identity, which tells it from others.
    private func validatedChain(_ name: UInt8 = 0) throws -> ValidatedChain {
        ValidatedChain(
            leaf: store.leaf, intermediate: store.intermediate.certificate, root: store.root.certificate,
            key: store.leafKey.publicKey,
            identity: ChainIdentity(leafSHA256: [name], intermediateSHA256: [], rootSHA256: []))
    }
}

extension JWSVerifier {
    var rememberedChainCount: Int { remembered.withLock { $0.chains.count } }
    var rememberedHeaderCount: Int { remembered.withLock { $0.headers.count } }
}
