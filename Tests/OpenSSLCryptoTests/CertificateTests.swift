import OpenSSLCrypto
import Testing

private let second: Int64 = 1_000
private let from: Int64 = 1_700_000_000_000
private let until: Int64 = 1_900_000_000_000
private let now: Int64 = 1_800_000_000_000

@Suite("Certificates and paths to a root")
struct CertificateTests {
    let root: CertificateAuthority
    let intermediate: CertificateAuthority
    let leafKey: PrivateKey
    let leaf: Certificate

    init() throws {
        root = try .selfSigned(.root(commonName: "Test Root", notBefore: from, notAfter: until))
        intermediate = try root.issueAuthority(
            .intermediate(commonName: "Test Intermediate", notBefore: from, notAfter: until, marker: "1.2.3.4"))
        leafKey = try .generate(.p256)
        leaf = try intermediate.issue(
            .leaf(commonName: "Tést Leaf", notBefore: from, notAfter: until, marker: "1.2.840.113635.100.6.11.1"),
            for: leafKey.publicKey)
    }

    @Test("a certificate says what it was issued with")
    func contents() throws {
        #expect(leaf.notBefore == from)
        #expect(leaf.notAfter == until)
        #expect(leaf.hasExtension(oid: "1.2.840.113635.100.6.11.1"))
        #expect(!leaf.hasExtension(oid: "1.2.840.113635.100.6.2.1"))
        #expect(!leaf.hasExtension(oid: "no oid"))
        #expect(!leaf.isCA)
        #expect(intermediate.certificate.isCA)
        #expect(intermediate.certificate.hasExtension(oid: "1.2.3.4"))
        #expect(root.certificate.isCA)
        #expect(root.certificate.isSelfIssued)
        #expect(!leaf.isSelfIssued)
        #expect(leaf.subject == "CN = Tést Leaf")
        #expect(try leaf.publicKey().derBytes() == leafKey.publicKey.derBytes())
        #expect(try root.certificate.publicKey().curve == .p384)
        // The marker's value is DER's NULL.
        let marker: [UInt8] = [
            0x06, 0x0A, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x63, 0x64, 0x06, 0x0B, 0x01, 0x04, 0x02, 0x05, 0x00,
        ]
        #expect(leaf.der.firstRange(of: marker) != nil)
    }

    @Test("a certificate survives DER and PEM, and nothing else is one")
    func encodings() throws {
        #expect(try Certificate(der: leaf.der).fingerprint == leaf.fingerprint)
        #expect(try Certificate(pem: leaf.pem()).der == leaf.der)
        let two = try root.certificate.pem() + "between\n" + leaf.pem()
        #expect(try Certificate.list(pemOrDER: Array(two.utf8)).map(\.der) == [root.certificate.der, leaf.der])
        #expect(try Certificate.list(pemOrDER: leaf.der).map(\.der) == [leaf.der])
        let malformed = CryptoError(.malformedCertificate, "")
        #expect(throws: malformed) { try Certificate(der: []) }
        #expect(throws: malformed) { try Certificate(der: leaf.der + [0]) }
        #expect(throws: malformed) { try Certificate(der: Array(leaf.der.dropLast())) }
        #expect(throws: malformed) { try Certificate(pem: "none") }
        #expect(throws: malformed) { try Certificate.list(pemOrDER: []) }
        let damaged = try leaf.pem() + root.certificate.pem().replacing("MII", with: "!II")
        #expect(throws: malformed) { try Certificate.list(pemOrDER: Array(damaged.utf8)) }
    }

    @Test("the path runs from the leaf over the intermediate to the root")
    func path() throws {
        let store = try CertificateStore(roots: [stranger("Other Root").certificate, root.certificate])
        let path = try store.validate(
            leaf: leaf, intermediates: [intermediate.certificate], atMilliseconds: now)
        #expect(path.map(\.der) == [leaf.der, intermediate.certificate.der, root.certificate.der])
    }

    @Test("a path needs its intermediate, its root, and right signatures")
    func noPath() throws {
        let store = try CertificateStore(roots: [root.certificate])
        let others = try CertificateStore(roots: [stranger("Test Root").certificate])
        let anchoredBelow = try CertificateStore(roots: [intermediate.certificate])
        let untrusted = CryptoError(.untrustedChain, "")
        #expect(throws: untrusted) { try store.validate(leaf: leaf, intermediates: [], atMilliseconds: now) }
        for store in [others, anchoredBelow, try CertificateStore(roots: [])] {
            #expect(throws: untrusted) {
                try store.validate(leaf: leaf, intermediates: [intermediate.certificate], atMilliseconds: now)
            }
        }
        let impostor = try root.issueAuthority(
            .intermediate(commonName: "Test Intermediate", notBefore: from, notAfter: until, marker: "1.2.3.4"))
        #expect(throws: untrusted) {
            try store.validate(leaf: leaf, intermediates: [impostor.certificate], atMilliseconds: now)
        }
    }

    @Test("path validation and isValid draw the same line, to the millisecond")
    func validity() throws {
        let store = try CertificateStore(roots: [root.certificate])
        for (instant, valid) in [
            (from - 1, false), (from, true), (now, true), (until - 1, true), (until, false), (until + second, false),
            (0, false), (-1, false), (Int64.min, false), (Int64.max, false),
        ] {
            #expect(leaf.isValid(atMilliseconds: instant) == valid, "\(instant)")
            let path = try? store.validate(
                leaf: leaf, intermediates: [intermediate.certificate], atMilliseconds: instant)
            #expect((path != nil) == valid, "\(instant)")
        }
    }

    @Test("key identifiers may be lacking; a CA flag may not, and path lengths are kept")
    func constraints() throws {
        let store = try CertificateStore(roots: [root.certificate])
        func accepts(_ change: (inout CertificateTemplate) -> Void) throws -> Bool {
            var template = CertificateTemplate.intermediate(
                commonName: "Test Intermediate", notBefore: from, notAfter: until, marker: "1.2.3.4")
            change(&template)
            let middle = try root.issue(template, for: intermediate.key.publicKey)
            return (try? store.validate(leaf: leaf, intermediates: [middle], atMilliseconds: now)) != nil
        }
        #expect(try accepts { _ in })
        #expect(try accepts { $0.hasKeyIdentifiers = false })
        #expect(try !accepts { $0.isCA = false })
        #expect(try !accepts { $0.isCA = nil })
        let deeper = try intermediate.issueAuthority(
            .intermediate(commonName: "Deeper", notBefore: from, notAfter: until, marker: "1.2.3.4"))
        let below = try deeper.issue(
            .leaf(commonName: "Below", notBefore: from, notAfter: until, marker: "1.2.3"), for: leafKey.publicKey)
        #expect(throws: CryptoError(.untrustedChain, "")) {
            try store.validate(
                leaf: below, intermediates: [deeper.certificate, intermediate.certificate], atMilliseconds: now)
        }
    }

    private func stranger(_ name: String) throws -> CertificateAuthority {
        try .selfSigned(.root(commonName: name, notBefore: from, notAfter: until))
    }
}
