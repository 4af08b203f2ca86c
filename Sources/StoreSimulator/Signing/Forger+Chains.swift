import OpenSSLCrypto

// Signatures that are right, under certificates that are not.
extension Forger {
    func badChains() throws -> [Forgery] {
        let stranger = try SimulatedAuthority()
        return [
            untrusted("stranger_root", try stranger.sign(good)),
            untrusted(
                "stranger_leaf_under_our_chain",
                try signed(by: stranger, chain: [stranger.leaf, intermediate, root])),
            untrusted(
                "stranger_leaf_before_our_whole_chain",
                try signed(by: stranger, chain: [stranger.leaf, authority.leaf, intermediate]), mayBeMalformed: true),
            untrusted(
                "our_leaf_with_strange_key", try signed(by: stranger, chain: [authority.leaf, intermediate, root])),
            untrusted(
                "chain_of_two", try signed(by: authority, chain: [authority.leaf, intermediate]), mayBeMalformed: true),
            untrusted(
                "chain_of_four", try signed(by: authority, chain: [authority.leaf, intermediate, root, root]),
                mayBeMalformed: true),
            untrusted("chain_empty", try signed(by: authority, chain: []), mayBeMalformed: true),
            Forgery(
                "chain_of_garbage", try signedUnder(.array(Array(repeating: .string("AAAA"), count: 3))),
                "malformed_jws", or: ["untrusted_signature"]),
            Forgery("chain_missing", try signedUnder(nil), "malformed_jws", or: ["untrusted_signature"]),
            untrusted("inner_transaction_by_stranger", try innerBy(stranger, "signedTransactionInfo")),
            untrusted("inner_renewal_by_stranger", try innerBy(stranger, "signedRenewalInfo")),
        ] + (try badCertificates())
    }

    /// Chains from the trusted root in which one certificate is not what it should be.
    private func badCertificates() throws -> [Forgery] {
        let early = good.signedDate - 30 * Span.day
        let late = good.signedDate + 30 * Span.day
        return [
            untrusted("leaf_without_marker", try signed { leaf, _ in leaf.markers = [] }),
            untrusted("intermediate_without_marker", try signed { _, intermediate in intermediate.markers = [] }),
            untrusted(
                "markers_swapped",
                try signed { leaf, intermediate in swap(&leaf.markers, &intermediate.markers) }),
            untrusted("leaf_expired", try signed { leaf, _ in leaf.notAfter = early }),
            untrusted("leaf_not_yet_valid", try signed { leaf, _ in leaf.notBefore = late }),
            untrusted("intermediate_expired", try signed { _, intermediate in intermediate.notAfter = early }),
            untrusted("intermediate_not_yet_valid", try signed { _, intermediate in intermediate.notBefore = late }),
            untrusted("intermediate_is_no_authority", try signed { _, intermediate in intermediate.isCA = false }),
        ]
    }

    private var intermediate: Certificate { authority.intermediate.certificate }
    private var root: Certificate { authority.root.certificate }

    private func untrusted(_ name: String, _ signedPayload: String, mayBeMalformed: Bool = false) -> Forgery {
        Forgery(name, signedPayload, "untrusted_signature", or: mayBeMalformed ? ["malformed_jws"] : [])
    }

    /// The good notification, signed under a chain from the trusted root whose templates were tampered with.
    private func signed(
        tampering: (inout CertificateTemplate, inout CertificateTemplate) -> Void
    ) throws -> String {
        var leaf = SimulatedAuthority.leafTemplate()
        leaf.serial = 13
        var intermediate = CertificateTemplate.intermediate(
            commonName: "Simulated Developer Relations CA", serial: 12,
            notBefore: SimulatedAuthority.validity.lowerBound, notAfter: SimulatedAuthority.validity.upperBound,
            marker: SimulatedAuthority.intermediateMarker)
        tampering(&leaf, &intermediate)
        let issuer = try authority.root.issueAuthority(intermediate)
        let key = try PrivateKey.generate(.p256)
        return try SimulatedAuthority(
            root: authority.root, intermediate: issuer, leaf: try issuer.issue(leaf, for: key.publicKey),
            leafKey: key
        ).sign(good)
    }

    /// The good notification under any chain, the outer signature by the signer's leaf key.
    private func signed(by signer: SimulatedAuthority, chain: [Certificate]) throws -> String {
        let header = PayloadValue.object(["alg": .string("ES256"), "x5c": SimulatedAuthority.chain(chain)])
        return try signer.sign(
            header: SimulatedAuthority.segment(header), payload: SimulatedAuthority.segment(nested(good)))
    }

    private func signedUnder(_ chain: PayloadValue?) throws -> String {
        var header: [String: PayloadValue] = ["alg": .string("ES256")]
        header["x5c"] = chain
        return try authority.sign(
            header: SimulatedAuthority.segment(.object(header)),
            payload: SimulatedAuthority.segment(nested(good)))
    }

    /// A trusted notification in which a stranger signed one statement.
    private func innerBy(_ stranger: SimulatedAuthority, _ slot: String) throws -> String {
        let statement = slot == "signedRenewalInfo" ? good.renewal : good.transaction
        var inner = try statements()
        inner[slot] = .string(try stranger.sign(.object(statement ?? [:])))
        return try authority.sign(good, inner: inner)
    }
}
