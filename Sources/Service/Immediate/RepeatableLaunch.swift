import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Synchronization

/// Names a launch by all that decides its answer.
///
/// It is the SHA-256 of who sends it, where to, and what.
struct LaunchKey: Hashable, Sendable {
    /// The largest body remembered, in bytes: hashing keeps the event loop for a time that others wait.
    static let bodyLimit = 256 << 10

    private let digest: Digest

    /// - Parameters:
    ///   - authorization: the value of the header field `Authorization`.
    ///   - target: path and query as sent.
    init(
        authorization: some Collection<UInt8>, target: some Collection<UInt8>, body: some Collection<UInt8>,
        sha256: ([UInt8]) -> Digest
    ) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(authorization.count + target.count + body.count + 16)
        for part in [authorization.count, target.count] {
            withUnsafeBytes(of: UInt64(part).bigEndian) { bytes.append(contentsOf: $0) }
        }
        bytes.append(contentsOf: authorization)
        bytes.append(contentsOf: target)
        bytes.append(contentsOf: body)
        digest = sha256(bytes)
    }
}

/// The answer to a device that posted nothing new, to be given again when it posts the same.
///
/// It holds as long as nothing comes into the log that bears on what it rests on, and until the instant at which time
/// alone changes it. All that was posted is known and was found valid, which it stays.
final class RepeatableLaunch: Sendable {
    /// What the answer states, and what differs from one time to the next.
    let template: AnswerTemplate
    /// The instants for which it holds.
    let holds: Range<Timestamp>
    /// Of an answer to a customer token: the oldest key of tokens that counted then.
    ///
    /// Once that one has ended, so may the token.
    let oldestTokenKey: Int64?
    /// How many known transactions were posted, for the metrics.
    let knownTransactions: Int
    private let customer: CustomerID
    private let app: String
    private let environment: StoreEnvironment
    private let answers: [EntitlementAnswer]
    private let lastPass = Mutex<(text: String, at: Timestamp)?>(nil)

    /// How long a pass is given out again before another is signed.
    private static let passAge: Int64 = 5_000

    init(
        _ template: AnswerTemplate, holds: Range<Timestamp>, oldestTokenKey: Int64?, knownTransactions: Int,
        customer: CustomerID,
        app: String, environment: StoreEnvironment, answers: [EntitlementAnswer]
    ) {
        self.template = template
        self.holds = holds
        self.oldestTokenKey = oldestTokenKey
        self.knownTransactions = knownTransactions
        self.customer = customer
        self.app = app
        self.environment = environment
        self.answers = answers
    }

    /// What it takes in memory, in bytes, about.
    var byteCount: Int { template.byteCount + 512 + answers.count * 512 }

    /// The JSON text of the pass that belongs into the answer: a string, or `null` where there is no key to sign with.
    ///
    /// - Throws: what the signing key throws.
    func pass(_ keys: PassKeyRing, position: Int64, at now: Timestamp, ttl: Duration) throws -> String {
        if let known = lastPass.withLock({ $0 }), known.at <= now,
            now < known.at.adding(milliseconds: Self.passAge)
        {
            return known.text
        }
        let pass = try keys.pass(
            customer: customer, audience: app, environment: environment, answers: answers, position: position, now: now,
            ttl: ttl)
        let text = Self.json(pass)
        lastPass.withLock { $0 = (text, now) }
        return text
    }
}

extension RepeatableLaunch {
    /// A pass as JSON text; a compact JWS has nothing that would have to be escaped.
    static func json(_ pass: String?) -> String { pass.map { "\"\($0)\"" } ?? "null" }
}

/// A launch on its way to the event loop, with what it rests on.
struct RememberedLaunch: Sendable {
    let key: LaunchKey
    let launch: RepeatableLaunch
    let environment: StoreEnvironment
    let mark: EventMark
    let dependencies: CustomerDependencies
}
