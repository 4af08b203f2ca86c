import EntitlementCore
import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("What signatures that do not verify cost")
struct SignatureWorkTests {
    let store: TestStore
    let verifier: JWSVerifier

    init() throws {
        store = try TestStore()
        verifier = try store.verifier()
    }

    /// Verifies at the expense of somebody who may waste so much.
    private func verify(
        _ compact: String, signedAt: Int64 = Instant.signed, now: Int64 = 0, allowance: Int64 = .max
    ) throws -> (isVerified: Bool, work: SignatureWork) {
        var work = SignatureWork(allowance: allowance)
        let jws = try UnverifiedJWS(compact)
        do throws(JWSError) {
            _ = try verifier.verify(jws, signedAt: signedAt, now: now, work: &work)
            return (true, work)
        } catch {
            return (false, work)
        }
    }

    /// The store's public certificates around something that it never signed, under a header that nobody has seen.
    private func forgery(_ number: Int) throws -> String {
        try store.sign("{}", x5c: [store.chain[0], store.chain[1], "\(number)"], key: .generate(.p256))
    }

    @Test("the store's own certificates are validated once, however many headers carry them to forgeries")
    func everNewHeaders() throws {
        #expect(try verify(forgery(0)).work.wasted == SignatureWork.chainUnits + 1)
        for number in 1..<40 { #expect(try verify(forgery(number)).work.wasted == 1) }
        #expect(verifier.rememberedHeaderCount == 0)
    }

    @Test("the store's own certificates at a date at which they were not valid cost no validation")
    func otherDates() throws {
        for signedAt in [Instant.start - 1, Instant.end, 0, .max] {
            #expect(try verify(forgery(0), signedAt: signedAt).work.wasted < SignatureWork.chainUnits * 2)
        }
        _ = try verify(forgery(1))
        for signedAt in [Instant.start - 1, Instant.end, 0, .max] {
            #expect(try verify(forgery(2), signedAt: signedAt).work.wasted == 1)
        }
    }

    @Test("what the store has signed wastes nothing, known or not")
    func genuine() throws {
        for _ in 0..<3 {
            let (isVerified, work) = try verify(store.sign())
            #expect(isVerified && work.wasted == 0 && !work.isCutShort)
        }
    }

    @Test("a stranger's certificates cost a validation each, until the allowance is spent")
    func strangers() throws {
        var work = SignatureWork(allowance: 30)
        for (wasted, isCutShort) in [(20, false), (40, false), (40, true), (40, true)] as [(Int64, Bool)] {
            let jws = try UnverifiedJWS(try TestStore().sign())
            #expect(throws: JWSError.self) { try verifier.verify(jws, signedAt: Instant.signed, now: 0, work: &work) }
            #expect(work.wasted == wasted)
            #expect(work.isCutShort == isCutShort)
        }
    }

    @Test(
        "a spent allowance keeps out certificates that are not known, and nothing that the store signs with known ones")
    func spent() throws {
        let first = try verify(store.sign(), allowance: 0)
        #expect(!first.isVerified && first.work.isCutShort)
        #expect(try verify(store.sign()).isVerified)
        let other = try store.sign(x5c: [store.chain[0], store.chain[1], "another header"])
        for compact in [try store.sign(), other] {
            let (isVerified, work) = try verify(compact, allowance: 0)
            #expect(isVerified && !work.isCutShort)
        }
        let (isVerified, work) = try verify(forgery(1), allowance: 0)
        #expect(!isVerified && work.wasted == 1 && !work.isCutShort)
        let later = RememberedChains.lifetime
        #expect(try verify(store.sign(), now: later, allowance: 0).isVerified, "validated again at our own expense")
    }

    @Test("what a forged notification carries is not looked at")
    func outerFirst() throws {
        let rig = try NotificationRig(store: store)
        var payload = try NotificationDraft().payload(signedBy: store)
        var data = try #require(payload["data"] as? Members)
        data["signedTransactionInfo"] = "not a JWS"
        payload["data"] = data
        let forged = try store.sign(text(payload), key: .generate(.p256))
        #expect(rig.refusal(of: forged)?.code == .untrustedSignature)
        #expect(rig.refusal(of: try store.sign(text(payload)))?.code == .malformedJWS)
    }
}
