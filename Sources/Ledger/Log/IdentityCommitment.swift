import EntitlementCore
import OpenSSLCrypto

/// What binds an identity to its number: the SHA-256 of a random salt and the identity in clear.
///
/// The hash of the first event that bears the number covers it. The salt is stored beside the identity in clear and
/// erased with it; the commitment alone then tells nothing about the person.
enum IdentityCommitment {
    static let saltLength = 16

    static func salt() -> [UInt8] { SecureRandom.bytes(saltLength) }

    static func of(_ value: String, salt: [UInt8]) -> Digest {
        Digest(SHA256.hash(salt + Array(value.utf8))) ?? .zero
    }

    /// The column that holds an event's commitments; `nil` where there are none.
    static func column(_ commitments: [Digest]) -> [UInt8]? {
        commitments.isEmpty ? nil : commitments.flatMap(\.bytes)
    }

    /// Reads what `column` gave.
    static func read(_ column: [UInt8]?) throws -> [Digest] {
        guard let column else { return [] }
        let digests = stride(from: 0, to: column.count, by: 32).compactMap {
            Digest(Array(column[$0..<min($0 + 32, column.count)]))
        }
        guard !digests.isEmpty, digests.count * 32 == column.count else {
            throw LedgerError(.corrupt, "identity_commitments is \(column.count) bytes long, not a multiple of 32")
        }
        return digests
    }
}
