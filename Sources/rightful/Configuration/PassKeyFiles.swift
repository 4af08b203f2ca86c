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
        let user = "the data directory's pass key"
        let pair = try TrustedMaterial.privateKey(path, of: user)
        ring = PassKeyRing([
            try PassKeyRing.Key(pair, id: try pair.publicKey.p256Point().thumbprint, notBefore: nil)
        ])
        warnings = [Self.warning(path, of: user)].compactMap { $0 }
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

/// A file that only its owner may read, made once.
enum SecretFile {
    /// Makes a file with mode 0600; does nothing when somebody else made it meanwhile.
    ///
    /// It is there as a whole or not at all: it is written under another name and then linked to its own, which fails
    /// for all but the first of those who try at once. In a directory of somebody else's, root leaves it to that owner.
    static func make(_ path: String, holding text: String) throws {
        let directory = (path as NSString).deletingLastPathComponent
        let draft = "\(path).\(getpid())-\(Base64.encodeURL(SecureRandom.bytes(9)))"
        defer { unlink(draft) }
        try write(text, to: draft, in: directory)
        guard link(draft, path) == 0 || errno == EEXIST else { throw failure("make", path) }
        try syncDirectory(directory)
    }

    /// Makes a file with mode 0600, in the place of the one that is there; whoever reads meanwhile reads either.
    static func replace(_ path: String, holding text: String) throws {
        let directory = (path as NSString).deletingLastPathComponent
        let draft = "\(path).\(getpid())-\(Base64.encodeURL(SecureRandom.bytes(9)))"
        defer { unlink(draft) }
        try write(text, to: draft, in: directory)
        guard rename(draft, path) == 0 else { throw failure("replace", path) }
        try syncDirectory(directory)
    }

    private static func syncDirectory(_ directory: String) throws {
        let folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { throw failure("open", directory) }
        defer { close(folder) }
        guard fsync(folder) == 0 else { throw failure("write", directory) }
    }

    private static func write(_ text: String, to path: String, in directory: String) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw failure("make", path) }
        defer { close(file) }
        var status = stat()
        if geteuid() == 0, stat(directory, &status) == 0, fchown(file, status.st_uid, status.st_gid) != 0 {
            throw failure("chown", path)
        }
        let bytes = Array(text.utf8)
        guard Glibc.write(file, bytes, bytes.count) == bytes.count, fsync(file) == 0 else {
            throw failure("write", path)
        }
    }

    private static func failure(_ action: String, _ path: String) -> CommandFailure {
        let code = errno
        return CommandFailure(description: "cannot \(action) \(path): \(String(cString: strerror(code)))")
    }
}
