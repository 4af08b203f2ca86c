import AppStoreServer
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

    /// Refuses private keys that could not sign, now rather than when the first signature is due.
    static func checkPrivateKeys(_ configuration: Configuration) throws {
        for app in configuration.apps {
            guard let access = app.appStoreAPI else { continue }
            _ = try privateKey(access.privateKeyPath, of: "app_store_api.private_key_path of \(app.bundleID)")
        }
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
