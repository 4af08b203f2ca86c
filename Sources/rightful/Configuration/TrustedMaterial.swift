import AppStoreServer
import EmbeddedPostgres
import Foundation
import OpenSSLCrypto
import Service

/// Certificates and keys that the configuration names, read and checked.
enum TrustedMaterial {
    /// The roots that signed payloads must lead to.
    static func anchors(_ configuration: Configuration) throws -> TrustAnchors {
        var roots: [Certificate] = []
        for source in configuration.rootCertificates {
            switch source {
            case .apple:
                roots += try TrustAnchors.apple().roots
            case .file(let path):
                do {
                    roots += try TrustAnchors(contents: [Files.read(path, for: "root_certificates")]).roots
                } catch let error as CryptoError {
                    throw ConfigurationError(file: path, "root_certificates: \(error)")
                }
            }
        }
        return try TrustAnchors(roots)
    }

    /// The name, in the data directory, of the file that keeps the roots that a service has trusted.
    private static let keptName = "trusted-roots.pem"

    /// Keeps the roots that a service trusts, so that what they vouched for can be verified later, and by commands that are
    /// run without its configuration.
    ///
    /// The file stands outside the database: whoever can only write there can add no root.
    static func keep(_ anchors: TrustAnchors, _ configuration: Configuration) throws {
        let kept = try keptRoots(configuration)
        let new = anchors.roots.filter { root in !kept.contains { $0.der == root.der } }
        guard !new.isEmpty else { return }
        let text = (kept + new).map { root in
            let lines = Data(root.der).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
            return "-----BEGIN CERTIFICATE-----\n\(lines)\n-----END CERTIFICATE-----\n"
        }
        try DataDirectory.make(configuration.dataDirectory)
        try SecretFile.replace(keptPath(configuration), holding: Array(text.joined().utf8))
    }

    /// The roots that evidence may lead to: those configured now, and those that a service trusted before.
    static func anchorsOfEvidence(_ configuration: Configuration) throws -> TrustAnchors {
        let configured = try anchors(configuration).roots
        let kept = try keptRoots(configuration).filter { root in !configured.contains { $0.der == root.der } }
        return try TrustAnchors(Array((configured + kept).prefix(TrustAnchors.maximumCount)))
    }

    private static func keptRoots(_ configuration: Configuration) throws -> [Certificate] {
        let path = keptPath(configuration)
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        do {
            return try Certificate.list(pemOrDER: Files.read(path, for: keptName))
        } catch let error as CryptoError {
            throw ConfigurationError(file: path, "holds no certificates: \(error)")
        }
    }

    private static func keptPath(_ configuration: Configuration) -> String {
        "\(configuration.dataDirectory)/\(keptName)"
    }

    /// Reads a private key that can make ES256 signatures; `user` names what it is for.
    static func privateKey(_ path: String, of user: String) throws -> PrivateKey {
        let text = String(decoding: try Files.read(path, for: user), as: UTF8.self)
        do {
            let key = try PrivateKey(pem: text)
            guard key.curve == .p256 else {
                throw ConfigurationError(file: path, "\(user): the private key is not on the curve P-256")
            }
            return key
        } catch is CryptoError {
            // OpenSSL's own words could quote what it read.
            throw ConfigurationError(file: path, "\(user): is not a private key in PEM")
        }
    }
}
