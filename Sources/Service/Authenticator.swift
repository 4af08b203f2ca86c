import EntitlementCore
import HTTPServer
import Ledger
import Synchronization

/// Tells who sends a request, and whether they may.
///
/// Keys recognised lately are remembered for a few seconds by the hash of their secret, so that reads need not ask the
/// database twice; what is no key is not remembered, so that strangers cannot fill the memory.
final class Authenticator: Sendable {
    /// The most keys remembered.
    private static let capacity = 1024
    /// Longer than any key that was ever made.
    private static let secretLimit = 256

    private let keys: APIKeyStore
    private let lifetime: Duration
    private let sha256: @Sendable ([UInt8]) -> Digest
    private let remembered = Mutex<[Digest: (key: APIKey, until: ContinuousClock.Instant)]>([:])

    init(keys: APIKeyStore, lifetime: Duration, sha256: @escaping @Sendable ([UInt8]) -> Digest) {
        self.keys = keys
        self.lifetime = lifetime
        self.sha256 = sha256
    }

    /// The key of a request.
    ///
    /// With `worksInOutage` a key recognised before is taken while the database is away, so that a monitor can be told
    /// that it is.
    ///
    /// - Throws: `unauthenticated`, or what the database throws.
    func authenticate(_ request: HTTPRequest, worksInOutage: Bool = false) async throws -> APIKey {
        guard let header = request.header("Authorization") else {
            throw Self.unauthenticated("Send an API key as Authorization: Bearer <key>.", "Bearer")
        }
        let words = header.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bearer" else {
            throw Self.unauthenticated("The only way to authenticate is Authorization: Bearer <key>.", "Bearer")
        }
        let secret = String(words[1].drop { $0 == " " })
        guard secret.hasPrefix("rk_") || secret.hasPrefix("rp_"), secret.utf8.count <= Self.secretLimit,
            let key = try await find(secret, worksInOutage: worksInOutage)
        else {
            throw Self.unauthenticated("The API key is unknown or was revoked.", #"Bearer error="invalid_token""#)
        }
        return key
    }

    /// - Throws: `forbidden`.
    static func check(_ key: APIKey, for scope: APIScope) throws(Problem) {
        guard !key.isPublishable else {
            throw Problem(
                .forbidden, "A publishable key may only reconcile; use a secret key of scope \(scope.rawValue).")
        }
        guard key.allows(scope) else {
            throw Problem(.forbidden, "The API key lacks the scope \(scope.rawValue).")
        }
    }

    private func find(_ secret: String, worksInOutage: Bool) async throws -> APIKey? {
        let hash = sha256(Array(secret.utf8))
        let now = ContinuousClock.now
        let known = remembered.withLock { $0[hash] }
        if let known, now < known.until { return known.key }
        let found: APIKey?
        do {
            found = try await keys.find(secret: secret)
        } catch let error as LedgerError where error.code == .unavailable {
            guard worksInOutage, let known else { throw error }
            return known.key
        }
        guard let key = found else {
            remembered.withLock { $0[hash] = nil }
            return nil
        }
        remembered.withLock { remembered in
            if remembered.count >= Self.capacity { remembered = remembered.filter { now < $0.value.until } }
            if remembered.count >= Self.capacity { remembered.removeAll() }
            remembered[hash] = (key, now + lifetime)
        }
        return key
    }

    private static func unauthenticated(_ detail: String, _ challenge: String) -> Problem {
        Problem(.unauthenticated, detail, headers: [("WWW-Authenticate", challenge)])
    }
}
