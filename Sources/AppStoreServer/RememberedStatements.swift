import AppStorePayloads
import EntitlementCore
import OpenSSLCrypto
import Synchronization

/// The statements verified lately, by the SHA-256 of their exact bytes.
///
/// What makes a statement valid is in its bytes, the trusted roots and the configured apps, and the last two never change
/// while the process lives; so what was valid once stays valid. Only whether it is dated in the future depends on the
/// present, which is asked each time. A statement without a date of its own is verified as of the present, and is not
/// remembered.
///
/// Bounded in bytes; where there is no room, what was not asked for lately is forgotten first (the clock algorithm). Divided
/// into shards, each with a lock of its own that is held for a look-up and no longer.
package final class RememberedStatements: Sendable {
    /// 64 MiB: room for about 28,000 transactions of the usual size.
    package static let defaultByteLimit = 64 << 20
    private static let shardCount = 16

    private let shards: [StatementShard]

    /// - Parameter byteLimit: about how much memory the statements may take together, in bytes; 0 remembers none.
    package init(byteLimit: Int = defaultByteLimit) {
        shards = (0..<Self.shardCount).map { _ in StatementShard(byteLimit: byteLimit / Self.shardCount) }
    }

    /// How many statements are remembered.
    package var count: Int { shards.reduce(0) { $0 + $1.state.withLock(\.count) } }

    /// About how many bytes they take.
    package var byteCount: Int { shards.reduce(0) { $0 + $1.state.withLock(\.byteCount) } }

    /// Whether a statement with this hash is remembered, of whatever kind.
    func contains(_ hash: Digest) -> Bool {
        RememberedKind.allCases.contains { kind in
            let name = StatementName(hash, kind)
            return shard(of: name).state.withLock { $0.contains(name) }
        }
    }

    /// The statement with this hash.
    ///
    /// - Parameter received: the bytes with this hash, where they are at hand; else they are put together again.
    func statement<Payload: RememberedPayload>(
        _ hash: Digest, received: [UInt8]? = nil, now: Timestamp
    ) -> VerifiedStatement<Payload>? {
        let name = StatementName(hash, Payload.kind)
        let kept = shard(of: name).state.withLock { $0.statement(name) }
        guard let kept = kept as? RememberedStatement<Payload> else { return nil }
        return kept.statement(hash, received: received, now: now)
    }

    /// Remembers a verified statement.
    func remember<Payload: RememberedPayload>(_ statement: VerifiedStatement<Payload>) {
        guard statement.signedDate != nil else { return }
        let name = StatementName(statement.evidenceParts.hash, Payload.kind)
        let kept = RememberedStatement(statement)
        shard(of: name).state.withLock { $0.remember(kept, name, byteCount: kept.byteCount) }
    }

    private func shard(of name: StatementName) -> StatementShard {
        shards[Int(truncatingIfNeeded: name.words.0 & UInt64(Self.shardCount - 1))]
    }
}

/// What a device posts.
enum RememberedKind: UInt8, CaseIterable {
    case transaction
    case renewal
    case appTransaction
}

/// A payload that statements of one kind have.
protocol RememberedPayload: Hashable, Sendable {
    static var kind: RememberedKind { get }
}

extension TransactionPayload: RememberedPayload {
    static var kind: RememberedKind { .transaction }
}

extension RenewalPayload: RememberedPayload {
    static var kind: RememberedKind { .renewal }
}

extension AppTransactionPayload: RememberedPayload {
    static var kind: RememberedKind { .appTransaction }
}

/// A verified statement as it is kept: without the received bytes, which its parts give back.
///
/// The header is shared by all that came with it: it is signed along, so nobody but the store can vary it.
private final class RememberedStatement<Payload: RememberedPayload>: Sendable {
    private let payload: Payload
    private let payloadHash: Digest
    private let environment: StoreEnvironment
    private let signedDate: Timestamp?
    private let header: JWSParts.Header
    private let payloadBytes: [UInt8]
    private let signature: [UInt8]

    init(_ statement: VerifiedStatement<Payload>) {
        payload = statement.payload
        payloadHash = statement.payloadHash
        environment = statement.environment
        signedDate = statement.signedDate
        header = statement.evidenceParts.header
        payloadBytes = statement.evidenceParts.payload
        signature = statement.evidenceParts.signature
    }

    /// What it takes in memory, about: the payload's text, and its decoded fields with everything around them.
    var byteCount: Int { payloadBytes.count + 1536 }

    func statement(_ hash: Digest, received: [UInt8]?, now: Timestamp) -> VerifiedStatement<Payload> {
        let parts = JWSParts(
            compact: received ?? compact, hash: hash, header: header, payload: payloadBytes, signature: signature)
        return VerifiedStatement(
            payload, payloadHash: payloadHash, evidenceParts: parts, signedDate: signedDate, environment: environment,
            now: now)
    }

    /// The received bytes: base64url was decoded strictly, so it is written in one way alone.
    private var compact: [UInt8] {
        header.encoded + Array(".\(Base64.encodeURL(payloadBytes)).\(Base64.encodeURL(signature))".utf8)
    }
}
