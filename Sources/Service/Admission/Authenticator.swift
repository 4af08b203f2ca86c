import EntitlementCore
import HTTPServer
import Ledger
import Synchronization

/// Tells who sends a request.
///
/// Keys recognised lately are remembered for a few seconds by the hash of their secret, so that reads need not ask the
/// database twice; what is no key is not remembered, so that strangers cannot fill the memory.
final class Authenticator: Sendable {
    /// What a request presents, before anybody has looked whether it is good for anything.
    enum Presented: Sendable {
        case key(secret: String, hash: Digest)
        case token(String)
        /// The cookie of a session of the console.
        case session(String)

        /// Whether it may be a guess at a secret key, or at something as good as one.
        var looksLikeSecretKey: Bool {
            switch self {
            case .key(let secret, _): secret.hasPrefix(APIKeyStore.secretPrefix)
            case .token: false
            case .session: true
            }
        }
    }

    /// The most keys remembered, and the most sessions.
    private static let capacity = 1024
    /// Longer than any key that was ever made.
    private static let secretLimit = 256

    private let keys: APIKeyStore
    private let tokens: CustomerTokens
    private let sessions: ConsoleSessions?
    private let lifetime: Duration
    private let outageWait: Duration
    private let sha256: @Sendable ([UInt8]) -> Digest
    private let now: @Sendable () -> Timestamp
    private let remembered = Mutex<[Digest: (key: APIKey, until: ContinuousClock.Instant)]>([:])
    /// The hashes of sessions that were found when they were looked for last.
    private let foundSessions = Mutex<Set<Digest>>([])

    /// - Parameters:
    ///   - sessions: those of the console; `nil`: there is none.
    ///   - lifetime: how long a key counts without being looked up again.
    ///   - outageWait: how long the database may take where a key that was recognised before will do.
    init(
        keys: APIKeyStore, tokens: CustomerTokens, sessions: ConsoleSessions?, lifetime: Duration, outageWait: Duration,
        sha256: @escaping @Sendable ([UInt8]) -> Digest, now: @escaping @Sendable () -> Timestamp
    ) {
        self.keys = keys
        self.tokens = tokens
        self.sessions = sessions
        self.lifetime = lifetime
        self.outageWait = outageWait
        self.sha256 = sha256
        self.now = now
    }

    /// What a request presents; asks nobody.
    ///
    /// - Throws: `unauthenticated` for what cannot be a credential; `forbidden` for a session's command that another site may
    ///   have made a browser send.
    func presented(by request: HTTPRequest) throws(Problem) -> Presented {
        guard let header = request.header("Authorization") else {
            if sessions != nil, let token = ConsoleCookie.token(in: request) {
                if request.method != "GET" {
                    try ConsoleCookie.checkCommand(
                        request, of: token, sent: request.header(ConsoleCookie.tokenHeader))
                }
                return .session(token)
            }
            throw Self.unauthenticated("Send an API key or a customer token as Authorization: Bearer <key>.", "Bearer")
        }
        return try presented(in: header)
    }

    /// Whether the value of an `Authorization` header looks like a customer token's.
    static func bearsToken(_ header: UnsafeBufferPointer<UInt8>) -> Bool {
        header.starts(with: tokenHeaderStart)
    }

    private static let tokenHeaderStart = Array("Bearer \(CustomerTokens.prefix)".utf8)

    private func presented(in header: String) throws(Problem) -> Presented {
        let words = header.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bearer" else {
            throw Self.unauthenticated("The only way to authenticate is Authorization: Bearer <key>.", "Bearer")
        }
        let text = String(words[1].drop { $0 == " " })
        if text.hasPrefix(CustomerTokens.prefix) { return .token(text) }
        guard text.hasPrefix(APIKeyStore.secretPrefix) || text.hasPrefix(APIKeyStore.publishablePrefix),
            text.utf8.count <= Self.secretLimit
        else { throw Self.unknownKey }
        return .key(secret: text, hash: sha256(Array(text.utf8)))
    }

    /// Whether it was a secret key, or a session of one, when it was last looked up, however long ago.
    func wasSecretKey(_ presented: Presented) -> Bool {
        switch presented {
        case .key(_, let hash): remembered.withLock { $0[hash]?.key.isPublishable } == false
        case .session(let token): foundSessions.withLock { $0.contains(sha256(Array(token.utf8))) }
        case .token: false
        }
    }

    /// A session of the console, which is asked for each time.
    func findSession(_ token: String) async throws -> ConsoleSession? {
        let session = try await sessions?.find(token: token, now: now())
        let hash = sha256(Array(token.utf8))
        foundSessions.withLock { found in
            if session == nil {
                found.remove(hash)
            } else if found.count < Self.capacity || found.contains(hash) {
                found.insert(hash)
            } else {
                found = [hash]
            }
        }
        return session
    }

    /// Whether it is a key that was recognised lately, so that nobody has to be asked.
    func isRemembered(_ presented: Presented, at now: ContinuousClock.Instant) -> Bool {
        guard case .key(_, let hash) = presented else { return false }
        return remembered.withLock { $0[hash] }.map { now < $0.until } ?? false
    }

    /// The rate limits that a request would be counted against, as far as is known without asking the database.
    func payers(
        of presented: Presented, _ address: ClientAddress, at now: ContinuousClock.Instant
    ) -> [RateLimiter.Subject] {
        guard case .key(_, let hash) = presented else {
            return [presented.looksLikeSecretKey ? .secretKeyGuesses(address) : .address(address)]
        }
        guard let key = remembered.withLock({ $0[hash]?.key }) else {
            return [presented.looksLikeSecretKey ? .secretKeyGuesses(address) : .address(address)]
        }
        return key.isPublishable ? [.address(address), .publishableKey(id: key.id)] : [.secretKey(id: key.id)]
    }

    /// The API key that was recognised lately by a header's value, and until when that counts; asks nobody.
    func rememberedKey(
        authorization header: String, at now: ContinuousClock.Instant
    ) -> (key: APIKey, until: ContinuousClock.Instant)? {
        guard case .key(_, let hash) = try? presented(in: header) else { return nil }
        guard let known = remembered.withLock({ $0[hash] }), now < known.until else { return nil }
        return known
    }

    /// The credential that a request presents.
    ///
    /// With `worksInOutage` a key that was recognised before is accepted while the database is away, so that a monitor
    /// can be told of the outage.
    ///
    /// - Throws: `unauthenticated`, or what the database throws.
    func credential(_ presented: Presented, worksInOutage: Bool = false) async throws -> Credential {
        switch presented {
        case .key(let secret, let hash):
            guard let key = try await find(secret, hash, worksInOutage: worksInOutage) else { throw Self.unknownKey }
            return Credential(key)
        case .session(let token):
            // Asked each time, so that it is over everywhere as soon as somebody signs out, or the key is revoked.
            guard let session = try await findSession(token) else {
                throw Self.unauthenticated("The session has ended; sign in to the console again.")
            }
            return Credential(session.key)
        case .token(let text):
            switch try await tokens.verify(text, now: now()) {
            case .valid(let token): return .customerToken(token)
            case .expired:
                throw Self.unauthenticated("The customer token has expired; ask your server for a new one.")
            case .overlong:
                throw Self.unauthenticated("The customer token claims a longer life than may be given.")
            case .forged: throw Self.unauthenticated("The customer token is not one that was made here.")
            }
        }
    }

    private func find(_ secret: String, _ hash: Digest, worksInOutage: Bool) async throws -> APIKey? {
        let now = ContinuousClock.now
        let known = remembered.withLock { $0[hash] }
        if let known, now < known.until { return known.key }
        let found: APIKey?
        do {
            if worksInOutage, let known {
                let answer = try await within(outageWait) { [keys] in Found(key: try await keys.find(secret: secret)) }
                // A database that hangs is as good as away.
                guard let answer else { return known.key }
                found = answer.key
            } else {
                found = try await keys.find(secret: secret)
            }
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

    /// What the database says of a secret.
    private struct Found: Sendable {
        let key: APIKey?
    }

    private static var unknownKey: Problem { unauthenticated("The API key is unknown or was revoked.") }

    static func unauthenticated(
        _ detail: String, _ challenge: String = #"Bearer error="invalid_token""#
    ) -> Problem {
        Problem(.unauthenticated, detail, headers: [("WWW-Authenticate", challenge)])
    }
}
