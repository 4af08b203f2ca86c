import EmbeddedPostgres
import Foundation
import Glibc
import Ledger
import OpenSSLCrypto

/// The key that signs the log's checkpoints, read from its file.
enum LogKeyFile {
    /// The name, in the data directory, of the key that is made where none is configured.
    static let keptName = "log-key.pem"

    /// Reads the configured key, or else the one that the data directory keeps.
    ///
    /// - Parameters:
    ///   - ownID: the ledger's own id, which names the log where the configuration does not.
    ///   - isMade: whether one is made where the data directory keeps none yet.
    static func read(_ configuration: Configuration, ownID: String, isMade: Bool) throws -> LogKey {
        LogKey(
            name: name(configuration, ownID: ownID), privateKey: try privateKey(configuration, isMade: isMade))
    }

    /// Whether there is none yet where one would be made.
    static func isMissing(_ configuration: Configuration) -> Bool {
        var status = stat()
        return configuration.logKeyPath == nil && stat("\(configuration.dataDirectory)/\(keptName)", &status) != 0
            && errno == ENOENT
    }

    /// Reads the key itself, for which nobody has to know yet what the log is called.
    static func privateKey(_ configuration: Configuration, isMade: Bool) throws -> Ed25519PrivateKey {
        let path = configuration.logKeyPath ?? "\(configuration.dataDirectory)/\(keptName)"
        if isMade, configuration.logKeyPath == nil { try makeIfMissing(path, in: configuration.dataDirectory) }
        let text = String(decoding: try Files.read(path, for: "log_key_path"), as: UTF8.self)
        do {
            return try Ed25519PrivateKey(pem: text)
        } catch {
            // OpenSSL's own words could quote what it read.
            throw ConfigurationError(file: path, "log_key_path: is not an Ed25519 private key in PEM")
        }
    }

    /// What the log is called in its checkpoints.
    static func name(_ configuration: Configuration, ownID: String) -> String {
        configuration.logOrigin ?? "rightful/\(ownID)"
    }

    /// What is wrong with the key's file without making it useless; `nil`: nothing.
    static func warning(_ configuration: Configuration) -> String? {
        let path = configuration.logKeyPath ?? "\(configuration.dataDirectory)/\(keptName)"
        guard SecretFile.isOpenToOthers(path) else { return nil }
        return "the log's key: others than its owner may use \(path), and so sign checkpoints; chmod it to 600"
    }

    private static func makeIfMissing(_ path: String, in directory: String) throws {
        var status = stat()
        guard stat(path, &status) != 0, errno == ENOENT else { return }
        try DataDirectory.make(directory)
        try SecretFile.make(path, holding: try Ed25519PrivateKey.generate().pem())
    }
}
