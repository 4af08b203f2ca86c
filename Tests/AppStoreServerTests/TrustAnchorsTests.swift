import EntitlementCore
import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("Trust anchors")
struct TrustAnchorsTests {
    @Test("the built-in root is Apple Root CA - G3, by its published fingerprint")
    func apple() throws {
        let roots = try TrustAnchors.apple().roots
        let fingerprint: [UInt8] = [
            0x63, 0x34, 0x3A, 0xBF, 0xB8, 0x9A, 0x6A, 0x03, 0xEB, 0xB5, 0x7E, 0x9B, 0x3F, 0x5F, 0xA7, 0xBE,
            0x7C, 0x4F, 0x5C, 0x75, 0x6F, 0x30, 0x17, 0xB3, 0xA8, 0xC4, 0x88, 0xC3, 0x65, 0x3E, 0x91, 0x79,
        ]
        #expect(roots.map(\.fingerprint) == [fingerprint])
        #expect(roots[0].isCA)
        #expect(roots[0].isSelfIssued)
        #expect(try roots[0].publicKey().curve == .p384)
        #expect(roots[0].subject.contains("Apple Root CA - G3"))
    }

    @Test("several roots come from PEM and DER alike, and each is trusted")
    func several() throws {
        let stores = try (0..<3).map { _ in try TestStore() }
        let two = try stores[0].root.certificate.pem() + stores[1].root.certificate.pem()
        let anchors = try TrustAnchors(contents: [Array(two.utf8), stores[2].root.certificate.der])
        #expect(anchors.roots.map(\.fingerprint) == stores.map(\.root.certificate.fingerprint))
        let verifier = try JWSVerifier(trusting: anchors)
        for store in stores { #expect(verifier.refusal(of: try store.sign()) == nil) }
    }

    @Test("none, too many, garbage, or a certificate that is no root are refused by name")
    func refused() throws {
        let store = try TestStore()
        let root = store.root.certificate
        #expect(throws: CryptoError.self) { try TrustAnchors([]) }
        #expect(throws: CryptoError.self) { try TrustAnchors(contents: []) }
        #expect(throws: CryptoError.self) { try TrustAnchors(Array(repeating: root, count: 33)) }
        #expect(throws: CryptoError.self) { try TrustAnchors(contents: [root.der, Array("garbage".utf8)]) }
        do throws(CryptoError) {
            _ = try TrustAnchors([root, store.intermediate.certificate])
            Issue.record("an intermediate was accepted as a root")
        } catch {
            #expect(error.message.contains("Test Intermediate"))
        }
        let powerless = try TestStore(root: { $0.isCA = false }).root.certificate
        do throws(CryptoError) {
            _ = try TrustAnchors([root, powerless])
            Issue.record("a certificate that may issue none was accepted as a root")
        } catch {
            #expect(error.message.contains("may not issue certificates"))
        }
    }

    @Test("roots that are not valid now, or not for long, are named, and one that has ended beside a valid one is not")
    func validity() throws {
        func root(_ name: String, _ days: ClosedRange<Int64>) throws -> Certificate {
            try TestStore(root: {
                $0.commonName = name
                $0.notBefore = Instant.start + days.lowerBound * Instant.day
                $0.notAfter = Instant.start + days.upperBound * Instant.day
            }).root.certificate
        }
        let (ended, ending) = (try root("Ended", -900 ... -1), try root("Ending", -900...200))
        let (lasting, coming) = (try root("Lasting", -900...4000), try root("Coming", 30...4000))
        let table: [(roots: [Certificate], warnings: [[String]])] = [
            ([lasting], []), ([ended, lasting], []), ([ending, lasting], []),
            ([ending], [["after 2024-06-01", "Ending"]]),
            ([lasting, coming], [["Coming", "only from 2023-12-14"]]),
            ([ended], [["none is valid now", "Ended from", "until 2023-11-13"]]),
            ([ended, coming], [["none is valid now", "Ended", "Coming from 2023-12-14"]]),
        ]
        for (roots, expected) in table {
            let warnings = try TrustAnchors(roots).warnings(now: Timestamp(milliseconds: Instant.start))
            #expect(warnings.count == expected.count, "\(warnings)")
            for (warning, parts) in zip(warnings, expected) {
                for part in parts { #expect(warning.contains(part), "\(warning)") }
            }
        }
    }
}
