import Foundation
package import OpenSSLCrypto

/// The simulated store's certificate authority: it signs what the store says, the way the App Store does.
///
/// A P-384 root, a P-384 intermediate and a P-256 leaf, the last two bearing Apple's marker extensions. Nothing but
/// trust in another root tells its signatures from the real ones, so its keys are for tests and demonstrations.
package struct SimulatedAuthority: Sendable {
    /// The marker extension of the intermediate that issues signing certificates for receipts.
    package static let intermediateMarker = "1.2.840.113635.100.6.2.1"
    /// The marker extension of the leaf that signs them.
    package static let leafMarker = "1.2.840.113635.100.6.11.1"
    /// The stretch in which all three certificates are valid: 2025 to 2045.
    package static let validity = SimulatedCalendar.instant(2025, 1, 1)...SimulatedCalendar.instant(2045, 1, 1)

    /// The root, which has to be trusted for anything signed here to be believed.
    package let root: CertificateAuthority
    /// The intermediate.
    package let intermediate: CertificateAuthority
    /// The certificate whose key signs.
    package let leaf: Certificate
    /// The key that signs.
    package let leafKey: PrivateKey
    private let header: String

    /// An authority of given parts, right or wrong.
    package init(
        root: CertificateAuthority, intermediate: CertificateAuthority, leaf: Certificate, leafKey: PrivateKey
    ) throws {
        self.root = root
        self.intermediate = intermediate
        self.leaf = leaf
        self.leafKey = leafKey
        header = try Self.segment(
            .object([
                "alg": .string("ES256"),
                "x5c": Self.chain([leaf, intermediate.certificate, root.certificate]),
            ]))
    }

    /// A new authority with new keys.
    package init() throws {
        let root = try CertificateAuthority.selfSigned(
            .root(
                commonName: "Simulated Root CA", notBefore: Self.validity.lowerBound,
                notAfter: Self.validity.upperBound))
        let intermediate = try root.issueAuthority(
            .intermediate(
                commonName: "Simulated Developer Relations CA", notBefore: Self.validity.lowerBound,
                notAfter: Self.validity.upperBound, marker: Self.intermediateMarker))
        let leafKey = try PrivateKey.generate(.p256)
        let leaf = try intermediate.issue(Self.leafTemplate(), for: leafKey.publicKey)
        try self.init(root: root, intermediate: intermediate, leaf: leaf, leafKey: leafKey)
    }

    /// What an honest leaf says.
    static func leafTemplate() -> CertificateTemplate {
        .leaf(
            commonName: "Simulated App Store Signing", notBefore: validity.lowerBound,
            notAfter: validity.upperBound, marker: leafMarker)
    }

    /// Signs a notification: the inner statements first, then the whole.
    ///
    /// - Returns: the `signedPayload`, a compact JWS.
    package func sign(_ notification: StoreNotification) throws -> String {
        var inner: [String: PayloadValue] = [:]
        if let transaction = notification.transaction {
            inner["signedTransactionInfo"] = .string(try sign(.object(transaction)))
        }
        if let renewal = notification.renewal { inner["signedRenewalInfo"] = .string(try sign(.object(renewal))) }
        if let app = notification.appTransaction {
            inner["signedAppTransactionInfo"] = .string(try sign(.object(app)))
        }
        return try sign(notification, inner: inner)
    }

    /// Signs the transaction a notification carries, alone: what a device holds and posts.
    ///
    /// - Returns: nil for a notification without a transaction.
    package func signTransaction(of notification: StoreNotification) throws -> String? {
        try notification.transaction.map { try sign(.object($0)) }
    }

    /// Signs a notification around inner statements that are signed already.
    package func sign(_ notification: StoreNotification, inner: [String: PayloadValue]) throws -> String {
        var payload = notification.payload
        for member in ["data", "appData"] {
            if case .object(let content) = payload[member] {
                payload[member] = .object(content.merging(inner) { _, new in new })
            }
        }
        return try sign(.object(payload))
    }

    /// Signs any payload.
    package func sign(_ payload: PayloadValue) throws -> String {
        try sign(header: header, payload: Self.segment(payload))
    }

    /// Signs bytes that may be no JSON.
    package func sign(payloadBytes: [UInt8]) throws -> String {
        try sign(header: header, payload: Base64.encodeURL(payloadBytes))
    }

    /// Signs two encoded segments.
    func sign(header: String, payload: String) throws -> String {
        let message = header + "." + payload
        return message + "." + Base64.encodeURL(try leafKey.signES256(Array(message.utf8)))
    }

    /// The body that the store posts for a signed payload.
    package static func requestBody(_ signedPayload: String) throws -> [UInt8] {
        try PayloadValue.object(["signedPayload": .string(signedPayload)]).encoded()
    }

    /// A JSON value as a segment of a JWS.
    static func segment(_ value: PayloadValue) throws -> String {
        Base64.encodeURL(try value.encoded())
    }

    /// Certificates as an `x5c` header.
    static func chain(_ certificates: [Certificate]) -> PayloadValue {
        .array(certificates.map { .string(Base64.encode($0.der)) })
    }
}

extension SimulatedAuthority {
    /// The file of the root certificate inside an authority's directory: the one to trust.
    package static let rootCertificateFile = "root.pem"

    /// Writes certificates and keys into a directory, which is made where it is missing; keys with mode 0600.
    package func save(to directory: String) throws {
        let manager = FileManager.default
        try manager.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let files: [(name: String, text: String, mode: Int)] = [
            (Self.rootCertificateFile, try root.certificate.pem(), 0o644),
            ("root.key", try root.key.pem(), 0o600),
            ("intermediate.pem", try intermediate.certificate.pem(), 0o644),
            ("intermediate.key", try intermediate.key.pem(), 0o600),
            ("leaf.pem", try leaf.pem(), 0o644),
            ("leaf.key", try leafKey.pem(), 0o600),
        ]
        for file in files {
            let path = directory + "/" + file.name
            let isWritten = manager.createFile(
                atPath: path, contents: Data(file.text.utf8), attributes: [.posixPermissions: file.mode])
            if !isWritten { throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: path]) }
        }
    }

    /// Reads an authority that was saved before.
    package init(directory: String) throws {
        func text(_ name: String) throws -> String {
            try String(contentsOfFile: directory + "/" + name, encoding: .utf8)
        }
        try self.init(
            root: CertificateAuthority(
                certificate: try Certificate(pem: text(Self.rootCertificateFile)),
                key: try PrivateKey(pem: text("root.key"))),
            intermediate: CertificateAuthority(
                certificate: try Certificate(pem: text("intermediate.pem")),
                key: try PrivateKey(pem: text("intermediate.key"))),
            leaf: try Certificate(pem: text("leaf.pem")), leafKey: try PrivateKey(pem: text("leaf.key")))
    }

    /// The authority of a directory; a new one is made and saved there where none is.
    package static func kept(in directory: String) throws -> SimulatedAuthority {
        if FileManager.default.fileExists(atPath: directory + "/" + rootCertificateFile) {
            return try SimulatedAuthority(directory: directory)
        }
        let authority = try SimulatedAuthority()
        try authority.save(to: directory)
        return authority
    }
}
