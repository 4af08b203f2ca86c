package import EntitlementCore
import OpenSSLCrypto
package import PostgresClient
import Synchronization

/// What a device may speak for, and until when.
package struct CustomerToken: Sendable, Hashable {
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
/// The key of the code is in the database, so every instance takes what any of them made.
package final class CustomerTokens: Sendable {
    /// What a text that was sent as a token is.
    package enum Verdict: Sendable, Hashable {
        case valid(CustomerToken)
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
    private static let secretName = "customer_tokens"
    private static let secretLength = 32

    private let pool: PostgresPool
    private let secret = Mutex<[UInt8]?>(nil)

    package init(pool: PostgresPool) { self.pool = pool }

    /// The token as text; the same token is always the same text.
    package func make(_ token: CustomerToken) async throws -> String {
        let text = Self.prefix + Base64.encodeURL(token.payload)
        let code = HMACSHA256.code(of: text.utf8, key: try await key(now: token.issuedAt))
        return text + "." + Base64.encodeURL(code)
    }

    /// What a text is at `now`; throws `LedgerError` when the key cannot be read.
    package func verify(_ text: String, now: Timestamp) async throws -> Verdict {
        guard text.utf8.count <= Self.lengthLimit, text.hasPrefix(Self.prefix) else { return .forged }
        let parts = text.utf8.split(separator: UInt8(ascii: "."), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 2, let code = Base64.decodeURL(parts[1]), code.count == HMACSHA256.length else {
            return .forged
        }
        let expected = HMACSHA256.code(of: parts[0], key: try await key(now: now))
        // Nothing is read of what is not ours.
        guard ConstantTime.equal(code, expected),
            let payload = Base64.decodeURL(parts[0].dropFirst(Self.prefix.utf8.count)),
            let token = CustomerToken(payload: payload)
        else { return .forged }
        guard now < token.expiresAt else { return .expired }
        let latestEnd = token.issuedAt.adding(milliseconds: Self.longestLife * 1000)
        guard token.expiresAt <= latestEnd, token.issuedAt <= now.adding(milliseconds: Self.clockDifference) else {
            return .overlong
        }
        return .valid(token)
    }

    /// The key that all instances share, made by the first that needs it.
    private func key(now: Timestamp) async throws -> [UInt8] {
        if let known = secret.withLock({ $0 }) { return known }
        let found: [UInt8]?
        do {
            found = try await pool.withConnection { connection in
                if let known = try Self.read(on: connection) { return known }
                try connection.query(
                    """
                    INSERT INTO server_secret (ledger_id, name, secret, created_at) VALUES ($1, $2, $3, $4)
                    ON CONFLICT (ledger_id, name) DO NOTHING
                    """,
                    [
                        .int4(Int32(ledgerID)), .text(Self.secretName),
                        .bytes(SecureRandom.bytes(Self.secretLength)), .timestamp(now.milliseconds),
                    ])
                return try Self.read(on: connection)
            }
        } catch {
            throw LedgerError(error, doing: "reading the key of customer tokens")
        }
        guard let found, found.count == Self.secretLength else {
            throw LedgerError(.corrupt, "the key of customer tokens in server_secret is not \(Self.secretLength) bytes")
        }
        secret.withLock { $0 = found }
        return found
    }

    private static func read(on connection: isolated PostgresConnection) throws -> [UInt8]? {
        try connection.query(
            "SELECT secret FROM server_secret WHERE ledger_id = $1 AND name = $2", [.int(ledgerID), .text(secretName)]
        ).first?.bytes(0)
    }
}

/// What a token says, in bytes: a version, the environment, two instants in milliseconds, the customer's id behind its
/// length, and the app's to the end; numbers with the high byte first.
extension CustomerToken {
    private static let version: UInt8 = 1
    private static let fixedLength = 20

    fileprivate var payload: [UInt8] {
        let customer = Array(customerID.value.utf8)
        return [Self.version, environment == .production ? 0 : 1] + Self.bytes(of: issuedAt.milliseconds)
            + Self.bytes(of: expiresAt.milliseconds) + Self.bytes(of: UInt16(customer.count)) + customer
            + Array((bundleID ?? "").utf8)
    }

    fileprivate init?(payload: [UInt8]) {
        guard payload.count > Self.fixedLength, payload[0] == Self.version, payload[1] <= 1 else { return nil }
        let customerEnd = Self.fixedLength + Int(payload[18]) << 8 + Int(payload[19])
        guard customerEnd <= payload.count,
            let customer = CustomerID(String(decoding: payload[Self.fixedLength..<customerEnd], as: UTF8.self))
        else { return nil }
        let bundle = payload[customerEnd...]
        self.init(
            customerID: customer, environment: payload[1] == 0 ? .production : .sandbox,
            bundleID: bundle.isEmpty ? nil : String(decoding: bundle, as: UTF8.self),
            issuedAt: Timestamp(milliseconds: Self.number(payload[2..<10])),
            expiresAt: Timestamp(milliseconds: Self.number(payload[10..<18])))
    }

    private static func bytes(of number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int64 { bytes.reduce(0) { $0 << 8 | Int64($1) } }
}
