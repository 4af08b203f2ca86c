import Dispatch
import EntitlementCore
import Foundation
import Glibc
import Ledger
import OpenSSLCrypto
import PostgresClient
import Service

/// The keys of customer tokens in a file, for whoever keeps secrets out of the database.
///
/// It holds a line for each: the id, when it was made, the secret in base64url, and `alone` where it ended those before
/// it. Services that share a database need the same file.
struct TokenKeyFile: TokenKeyStore {
    let path: String

    /// The largest file read, in bytes: thousands of keys.
    private static let sizeLimit = 1 << 20
    /// How often, and after how many microseconds, it is tried to take the lock of the directory.
    private static let lockAttempts = 50
    private static let lockPause: UInt32 = 100_000

    func read() async throws -> [TokenKey] { try await onThread { try keys() } }

    func add(_ key: TokenKey) async throws {
        try await onThread {
            let lock = open(path.parentDirectory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard lock >= 0 else { throw failure("cannot be made: \(String(cString: strerror(errno)))") }
            defer { close(lock) }
            var attempts = 1
            while flock(lock, LOCK_EX | LOCK_NB) != 0 {
                guard attempts < Self.lockAttempts else { throw failure("is being changed by somebody else") }
                attempts += 1
                usleep(Self.lockPause)
            }
            let known = try keys()
            guard !known.contains(where: { $0.id == key.id }) else { return }
            do {
                // Services read it again and again, and none as root.
                try SecretFile.replace(
                    path, holding: Array((known + [key]).map(\.line).joined().utf8), heir: .server)
            } catch {
                throw failure("\(error)")
            }
        }
    }

    /// What is wrong with the file without making it useless; `nil`: nothing.
    var warning: String? {
        guard SecretFile.isOpenToOthers(path) else { return nil }
        return "token_key_path: others than its owner may use \(path), and so speak for every customer; chmod it to 600"
    }

    private func keys() throws -> [TokenKey] {
        guard access(path, F_OK) == 0 || errno != ENOENT else { return [] }
        let bytes: [UInt8]
        do throws(ConfigurationError) {
            bytes = try Files.read(path, for: ConfigurationKey.tokenKeyPath.rawValue)
        } catch {
            throw LedgerError(.unavailable, error.description)
        }
        guard bytes.count <= Self.sizeLimit else { throw failure("is larger than \(Self.sizeLimit) bytes") }
        let lines = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline)
        return try lines.enumerated().map { index, line in
            guard let key = TokenKey(line: line) else {
                throw failure("line \(index + 1) is no key of customer tokens")
            }
            return key
        }
    }

    private func failure(_ problem: String) -> LedgerError {
        LedgerError(.unavailable, "token_key_path: \(path): \(problem)")
    }

    /// Files are read and written on a thread that may wait.
    private func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
        }
    }
}

extension TokenKey {
    fileprivate init?(line: Substring) {
        let words = line.split(separator: " ")
        guard (3...4).contains(words.count), let id = Int64(words[0]), id > 0,
            let madeAt = Timestamp(rfc3339: String(words[1])), let secret = Base64.decodeURL(words[2].utf8),
            secret.count == Self.length, words.count == 3 || words[3] == "alone"
        else { return nil }
        self.init(id: id, secret: secret, madeAt: madeAt, isAlone: words.count == 4)
    }

    fileprivate var line: String { "\(id) \(madeAt) \(Base64.encodeURL(secret))\(isAlone ? " alone" : "")\n" }
}

extension Configuration {
    /// What is wrong with the file that keeps them.
    var tokenKeyWarning: String? { tokenKeyPath.flatMap { TokenKeyFile(path: $0).warning } }

    /// Where the keys of customer tokens are kept.
    func tokenKeys(pool: PostgresPool) -> any TokenKeyStore {
        tokenKeyPath.map { TokenKeyFile(path: $0) } ?? DatabaseTokenKeys(pool: pool)
    }
}
