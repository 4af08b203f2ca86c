import AppStorePayloads
import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Foundation
import Ledger
import OpenSSLCrypto
import Service
import StoreSimulator

extension FuzzTarget {
    /// A day in the life of the corpus.
    static let now = Timestamp(milliseconds: Int64(1_795_000_000_000))

    /// What is believed by its signature: it must be, to the byte, one of the genuine ones.
    static func signed(_ corpus: FuzzCorpus) throws -> [FuzzTarget] {
        let anchors = try TrustAnchors([Certificate(pem: corpus.root)])
        let genuine = try Genuine(corpus)
        let world = StoreWorld.standard
        let app = AppBinding(
            bundleID: world.bundleID, appAppleID: world.appAppleID, environments: Set(StoreEnvironment.allCases))
        let jws = try JWSVerifier(trusting: anchors)
        let notifications = NotificationVerifier(jws: jws, apps: [app])
        let statements = StatementVerifier(jws: jws, apps: [app])
        return [
            FuzzTarget("jws", .jws) { bytes throws(FuzzFinding) in
                guard let parsed = try? UnverifiedJWS(bytes),
                    (try? jws.verify(parsed, signedAt: now.milliseconds, now: now.milliseconds)) != nil
                else { return false }
                try require(genuine.payloads.contains(parsed.payload), "a payload that nobody signed was verified")
                return true
            },
            FuzzTarget("notification", .jws) { bytes throws(FuzzFinding) in
                var work = SignatureWork(allowance: 30)
                guard (try? notifications.verify(signedPayload: bytes, now: now, work: &work)) != nil else {
                    return false
                }
                try require(
                    genuine.payloads.contains((try? UnverifiedJWS(bytes))?.payload ?? []),
                    "a notification that nobody signed was taken")
                return true
            },
            FuzzTarget("statement", .jws) { bytes throws(FuzzFinding) in
                let text = String(decoding: bytes, as: UTF8.self)
                var work = SignatureWork()
                let isTaken =
                    (try? statements.transaction(text, now: now, work: &work)) != nil
                    || (try? statements.renewal(text, now: now, work: &work)) != nil
                    || (try? statements.appTransaction(text, now: now, work: &work)) != nil
                guard isTaken else { return false }
                try require(
                    genuine.payloads.contains((try? UnverifiedJWS(text))?.payload ?? []),
                    "a statement that nobody signed was taken")
                return true
            },
            FuzzTarget("certificate", .bytes) { bytes throws(FuzzFinding) in
                try checkCertificates(bytes, anchors, genuine)
            },
            FuzzTarget("note", .text) { bytes throws(FuzzFinding) in
                let text = String(decoding: bytes, as: UTF8.self)
                guard let note = SignedNote(text) else { return LogVerifier(text) != nil }
                _ = Checkpoint(text: note.text)
                guard note.isSigned(by: genuine.logKey) else { return false }
                try require(genuine.notes.contains(note.text), "a note that nobody signed was believed")
                return true
            },
            FuzzTarget("export", .json) { bytes throws(FuzzFinding) in try checkExport(bytes, genuine) },
        ]
    }

    /// What the corpus holds that was truly signed.
    private struct Genuine: Sendable {
        /// The decoded payloads of every JWS, and of those inside them.
        let payloads: Set<[UInt8]>
        /// Fingerprints of the certificates in their headers.
        let certificates: Set<[UInt8]>
        let logKey: LogVerifier
        let notes: Set<String>
        let exports: [CustomerExportDocument]

        init(_ corpus: FuzzCorpus) throws {
            var payloads: Set<[UInt8]> = []
            var pending = try corpus.inputs("notification") + corpus.inputs("statement") + corpus.inputs("jws")
            while let compact = pending.popLast() {
                guard let jws = try? UnverifiedJWS(compact), payloads.insert(jws.payload).inserted else { continue }
                let text = String(decoding: jws.payload, as: UTF8.self)
                pending += text.matches(of: /"(eyJ[A-Za-z0-9_.\-]+)"/).map { Array($0.1.utf8) }
            }
            guard let logKey = LogVerifier(corpus.logKey) else { throw FuzzFinding("the corpus has no key of a log") }
            self.logKey = logKey
            self.payloads = payloads
            certificates = Set(
                try corpus.inputs("certificate").flatMap { try Certificate.list(pemOrDER: $0) }.map(\.fingerprint))
            notes = Set(
                try corpus.inputs("note").compactMap { SignedNote(String(decoding: $0, as: UTF8.self))?.text })
            exports = try corpus.inputs("export").map { try CustomerExportDocument.read($0).document }
        }
    }

    private static func checkCertificates(
        _ bytes: [UInt8], _ anchors: TrustAnchors, _ genuine: Genuine
    ) throws(FuzzFinding) -> Bool {
        guard let list = try? Certificate.list(pemOrDER: bytes), let leaf = list.first else { return false }
        for certificate in list.prefix(8) {
            _ = certificate.hasExtension(oid: JWSVerifier.leafMarker)
            _ = (certificate.isCA, certificate.isSelfIssued, certificate.subject)
            _ = try? certificate.publicKey()
        }
        guard let store = try? CertificateStore(roots: anchors.roots),
            (try? store.validate(
                leaf: leaf, intermediates: Array(list.dropFirst().prefix(4)), atMilliseconds: now.milliseconds)) != nil
        else { return false }
        try require(genuine.certificates.contains(leaf.fingerprint), "a certificate that nobody issued was believed")
        return true
    }

    private static func checkExport(_ bytes: [UInt8], _ genuine: Genuine) throws(FuzzFinding) -> Bool {
        guard let (document, events) = try? CustomerExportDocument.read(bytes) else { return false }
        let history = CustomerHistory(
            of: IdentityRef(document.identity), environment: .production, position: document.ledger.position,
            events: events)
        guard let customer = CustomerID(document.customerID) else { return false }
        let question = ExplainQuestion(customer: customer, environment: .production, entitlementID: nil, at: now)
        _ = question.answer(from: history) { _ in false }
        guard let key = try? document.checkBinding(genuine.logKey), key == genuine.logKey else { return false }
        // An answer may depend on nothing else.
        let isGenuine = genuine.exports.contains {
            $0.customerID == document.customerID && $0.identity == document.identity
                && $0.identities == document.identities && $0.environments == document.environments
                && $0.ledger == document.ledger && $0.events.map(\.hash) == document.events.map(\.hash)
                && $0.events.map(\.canonicalFacts) == document.events.map(\.canonicalFacts)
                && $0.events.map(\.recordedAt) == document.events.map(\.recordedAt)
        }
        try require(isGenuine, "a file that was changed after its export was believed")
        return true
    }
}
