package import EntitlementCore
import OpenSSLCrypto
package import PostgresClient
import Synchronization

/// What a customer token says: what a device may speak for, and until when.
package struct CustomerTokenClaims: Sendable, Hashable {
    package let customerID: CustomerID
    package let environment: StoreEnvironment
    /// The only app it counts for; `nil` for any.
    package let bundleID: String?
    package let issuedAt: Timestamp
    package let expiresAt: Timestamp

    package init(
        customerID: CustomerID, environment: StoreEnvironment, bundleID: String?, issuedAt: Timestamp,
        expiresAt: Timestamp
    ) {
        self.customerID = customerID
        self.environment = environment
        self.bundleID = bundleID
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }
}

/// Makes and recognises customer tokens, of which nothing is stored: `rc_`, what the token says, and a code over both.
///
/// The keys of the code are where every instance finds them, so each takes what any of them made.
package final class CustomerTokens: Sendable {
    /// What a text that was sent as a token is.
    package enum Verdict: Sendable, Hashable {
        case valid(CustomerTokenClaims)
        case expired
        /// It claims a longer life than any token is given, or one that has not begun: whoever made it has the key and
        /// keeps to no rule.
        case overlong
        /// No instance of this ledger ever made it.
        case forged
    }

    /// How every token begins.
    package static let prefix = "rc_"
    /// The longest that a token may live, in seconds.
    package static let longestLife: Int64 = 86_400
    /// How far the clocks of two instances may be apart, in milliseconds.
    private static let clockDifference: Int64 = 60_000
    /// Longer than any token made here, in bytes.
    private static let lengthLimit = 4096

    private let keys: any TokenKeyStore
    private let lifetime: Duration
    private let unread: @Sendable (_ reason: String) -> Void
    private let remembered = Mutex<(ring: TokenKeyRing, readAt: ContinuousClock.Instant)?>(nil)

    /// - Parameters:
    ///   - keys: where the keys are kept.
    ///   - lifetime: how long they are believed before they are read again.
    ///   - unread: is told, each time, that they could not be read again, and why: those that were read last go on counting.
    package init(
        keys: any TokenKeyStore, lifetime: Duration = .seconds(5),
        unread: @escaping @Sendable (_ reason: String) -> Void = { _ in }
    ) {
        (self.keys, self.lifetime, self.unread) = (keys, lifetime, unread)
    }

    /// With the keys in the database.
    package convenience init(pool: PostgresPool) { self.init(keys: DatabaseTokenKeys(pool: pool)) }

    /// Reads the keys, and makes the first where there is none.
    ///
    /// - Throws: `LedgerError`.
    package func prepare(now: Timestamp) async throws { _ = try await ring(now: now) }

    /// The token as text; the same token is always the same text, as long as its key signs.
    package func make(_ token: CustomerTokenClaims) async throws -> String {
        guard let key = try await ring(now: token.issuedAt).signer(at: token.issuedAt) else {
            throw LedgerError(.unavailable, "there is no key to make customer tokens with")
        }
        let text = Self.prefix + Base64.encodeURL(token.payload(keyID: key.id))
        return text + "." + Base64.encodeURL(HMACSHA256.code(of: text.utf8, key: key.secret))
    }

    /// What a text is at `now`; throws `LedgerError` when the keys cannot be read.
    package func verify(_ text: String, now: Timestamp) async throws -> Verdict {
        guard text.utf8.count <= Self.lengthLimit, text.hasPrefix(Self.prefix) else { return .forged }
        let parts = text.utf8.split(separator: UInt8(ascii: "."), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 2, let code = Base64.decodeURL(parts[1]), code.count == HMACSHA256.length,
            let payload = Base64.decodeURL(parts[0].dropFirst(Self.prefix.utf8.count)),
            let keyID = CustomerTokenClaims.keyID(of: payload)
        else { return .forged }
        // A key that has ended may be anybody's.
        guard let key = try await ring(now: now).key(keyID, at: now) else { return .forged }
        let expected = HMACSHA256.code(of: parts[0], key: key.secret)
        // Nothing but the key's id is read of what is not ours.
        guard ConstantTime.equal(code, expected), let token = CustomerTokenClaims(payload: payload) else {
            return .forged
        }
        guard now < token.expiresAt else { return .expired }
        let latestEnd = token.issuedAt.adding(milliseconds: Self.longestLife * 1000)
        guard token.expiresAt <= latestEnd, token.issuedAt <= now.adding(milliseconds: Self.clockDifference) else {
            return .overlong
        }
        return .valid(token)
    }

    /// The oldest key that counts; `nil` where the keys would have to be read again first.
    ///
    /// Whoever keeps an answer to a token notices by it that keys have ended. It asks nobody.
    package func oldestKey(at now: Timestamp) -> Int64? {
        let clock = ContinuousClock.now
        return remembered.withLock { known in
            known.flatMap { clock < $0.readAt + lifetime ? $0.ring.oldest(at: now) : nil }
        }
    }

    /// The keys that all instances share, as they were a few seconds ago.
    private func ring(now: Timestamp) async throws -> TokenKeyRing {
        let known = remembered.withLock { $0 }
        let clock = ContinuousClock.now
        if let known, clock < known.readAt + lifetime { return known.ring }
        let read: TokenKeyRing
        if let known {
            do {
                let found = try await keys.read()
                guard !found.isEmpty else { throw LedgerError(.unavailable, "there is none any more") }
                read = TokenKeyRing(found)
            } catch {
                // Whoever asked has gone, which says nothing of the keys.
                guard !Task.isCancelled else { return known.ring }
                unread("\(error)")
                // What was good stays good while they cannot be read, which is not tried for each token.
                return remembered.withLock { latest in
                    let kept = latest ?? known
                    latest = (kept.ring, max(kept.readAt, clock))
                    return kept.ring
                }
            }
        } else {
            read = try await keys.readOrMake(now: now)
        }
        return remembered.withLock { latest in
            // Somebody else may have begun to read them later, and keys may have ended in between.
            if let latest, latest.readAt > clock { return latest.ring }
            latest = (read, clock)
            return read
        }
    }
}

/// What a token says, in bytes: a version, the key's id, the environment, two instants in milliseconds, the customer's id
/// behind its length, and the app's to the end; numbers with the high byte first.
extension CustomerTokenClaims {
    private static let version: UInt8 = 2
    private static let fixedLength = 28

    fileprivate func payload(keyID: Int64) -> [UInt8] {
        let customer = Array(customerID.value.utf8)
        return [Self.version] + Self.bytes(of: keyID) + [environment == .production ? 0 : 1]
            + Self.bytes(of: issuedAt.milliseconds) + Self.bytes(of: expiresAt.milliseconds)
            + Self.bytes(of: UInt16(customer.count)) + customer + Array((bundleID ?? "").utf8)
    }

    /// The id of the key that a token says it was made with; `nil` where it is none.
    fileprivate static func keyID(of payload: [UInt8]) -> Int64? {
        guard payload.count > fixedLength, payload[0] == version else { return nil }
        return number(payload[1..<9])
    }

    fileprivate init?(payload: [UInt8]) {
        guard payload.count > Self.fixedLength, payload[0] == Self.version, payload[9] <= 1 else { return nil }
        let customerEnd = Self.fixedLength + Int(payload[26]) << 8 + Int(payload[27])
        guard customerEnd <= payload.count,
            let customer = CustomerID(String(decoding: payload[Self.fixedLength..<customerEnd], as: UTF8.self))
        else { return nil }
        let bundle = payload[customerEnd...]
        self.init(
            customerID: customer, environment: payload[9] == 0 ? .production : .sandbox,
            bundleID: bundle.isEmpty ? nil : String(decoding: bundle, as: UTF8.self),
            issuedAt: Timestamp(milliseconds: Self.number(payload[10..<18])),
            expiresAt: Timestamp(milliseconds: Self.number(payload[18..<26])))
    }

    private static func bytes(of number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int64 { bytes.reduce(0) { $0 << 8 | Int64($1) } }
}
