import EntitlementAPI
import EntitlementCore
import Foundation
import Glibc
import OpenSSLCrypto
import Service

/// The keys that sign passes, read from their files.
struct PassKeyFiles: Sendable {
    let ring: PassKeyRing
    /// What is wrong with the files without making them useless.
    let warnings: [String]

    /// The name, in the data directory, of the key that is made where none is configured.
    static let keptName = "pass-key.pem"

    /// Reads the keys that the configuration lists.
    init(configured configuration: Configuration) throws {
        var keys: [PassKeyRing.Key] = []
        var warnings: [String] = []
        for key in configuration.passKeys {
            let user = "pass_keys.private_key_path of \(key.keyID)"
            let pair = try TrustedMaterial.privateKey(key.privateKeyPath, of: user)
            keys.append(try PassKeyRing.Key(pair, id: key.keyID, notBefore: key.notBefore))
            if let warning = Self.warning(key.privateKeyPath, of: user) { warnings.append(warning) }
        }
        ring = PassKeyRing(keys)
        self.warnings = warnings
    }

    /// Reads the key that a data directory keeps, and makes it where there is none yet.
    init(keptIn dataDirectory: String) throws {
        let path = "\(dataDirectory)/\(Self.keptName)"
        var status = stat()
        if stat(path, &status) != 0, errno == ENOENT {
            try SecretFile.make(path, holding: try PrivateKey.generate(.p256).pem())
        }
        ring = PassKeyRing([try Self.key(keptAt: path)])
        warnings = [Self.warning(path, of: Self.keptUser)].compactMap { $0 }
    }

    /// What to say of a key that a data directory keeps and the ring lacks; `nil` where there is none.
    ///
    /// It signed passes as long as no other was listed, under the name that it has here and no other.
    func warning(ofKeyLeftIn dataDirectory: String) -> String? {
        let path = "\(dataDirectory)/\(Self.keptName)"
        guard let kept = try? Self.key(keptAt: path) else { return nil }
        let own = PassKeyRing([kept]).keySet.keys
        guard !own.allSatisfy(ring.keySet.keys.contains) else { return nil }
        return "pass_keys: \(path) is not listed with the key_id \(kept.id), as which it signed passes: these are "
            + "believed no more, and apps that pin that key (passKeys) believe no answer; list it so, or move it away once "
            + "nobody needs it"
    }

    private static let keptUser = "the data directory's pass key"

    private static func key(keptAt path: String) throws -> PassKeyRing.Key {
        let pair = try TrustedMaterial.privateKey(path, of: keptUser)
        return try PassKeyRing.Key(pair, id: try pair.publicKey.p256Point().thumbprint, notBefore: nil)
    }

    /// Who may read a key can give away every entitlement; only warned of, because some platforms mount secrets so.
    private static func warning(_ path: String, of user: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & (S_IROTH | S_IWOTH) != 0 else { return nil }
        return "\(user): every user of this machine may read or change \(path), and so sign passes; chmod it to 600"
    }
}

extension PassKeyRing.Key {
    init(_ pair: PrivateKey, id: String, notBefore: Timestamp?) throws {
        let point = try pair.publicKey.p256Point()
        self.init(id: id, notBefore: notBefore, x: point.x, y: point.y) { try pair.signES256($0) }
    }
}
