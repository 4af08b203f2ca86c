package import EntitlementCore
import OpenSSLCrypto

/// A key that customer tokens are made with.
package struct TokenKey: Sendable, Hashable {
    /// The length of its secret, in bytes.
    package static let length = 32

    /// Counts the keys of a ledger, from 1.
    package let id: Int64
    package let secret: [UInt8]
    package let madeAt: Timestamp
    /// Whether the keys before it end at once, rather than when the last of their tokens has run out.
    package let isAlone: Bool

    package init(id: Int64, secret: [UInt8], madeAt: Timestamp, isAlone: Bool) {
        self.id = id
        self.secret = secret
        self.madeAt = madeAt
        self.isAlone = isAlone
    }

    /// A key of 256 random bits.
    fileprivate static func fresh(id: Int64, madeAt: Timestamp, isAlone: Bool) -> TokenKey {
        TokenKey(id: id, secret: SecureRandom.bytes(length), madeAt: madeAt, isAlone: isAlone)
    }
}

/// Where the keys of customer tokens are kept: in the database, unless a file is configured.
package protocol TokenKeyStore: Sendable {
    /// All keys, in whatever order.
    ///
    /// - Throws: `LedgerError`.
    func read() async throws -> [TokenKey]
    /// Adds a key, unless there is one of its id by now.
    ///
    /// - Throws: `LedgerError`.
    func add(_ key: TokenKey) async throws
}

extension TokenKeyStore {
    private static var attempts: Int { 8 }

    /// The keys, of which the first is made by whoever needs it first: of many at once, all get the same.
    func readOrMake(now: Timestamp) async throws -> TokenKeyRing {
        let found = try await read()
        if !found.isEmpty { return TokenKeyRing(found) }
        try await add(.fresh(id: 1, madeAt: now, isAlone: false))
        return TokenKeyRing(try await read())
    }

    /// Makes a new key behind those that are there.
    ///
    /// - Parameter endsEarlier: whether the others end at once.
    /// - Throws: `LedgerError`.
    package func rotate(now: Timestamp, endsEarlier: Bool) async throws -> TokenKey {
        for _ in 0..<Self.attempts {
            let last = try await read().map(\.id).max() ?? 0
            let key = TokenKey.fresh(id: last + 1, madeAt: now, isAlone: endsEarlier)
            try await add(key)
            // Somebody else may have added another of the same id first.
            if try await read().contains(key) { return key }
        }
        throw LedgerError(.unavailable, "others kept making keys of customer tokens; try again")
    }
}

/// The keys of customer tokens, and which of them count at an instant.
struct TokenKeyRing: Sendable {
    /// How long a new key is known before the first token is made with it, in milliseconds: every instance reads the keys
    /// again within that time.
    static let notice: Int64 = 10_000
    /// How much later than its last token an old key ends, in milliseconds: clocks may be that far apart.
    private static let margin: Int64 = 60_000

    /// In the order of their ids.
    private let keys: [TokenKey]

    init(_ keys: [TokenKey]) { self.keys = keys.sorted { $0.id < $1.id } }

    /// The key that tokens are made with; `nil` where there is none at all.
    func signer(at now: Timestamp) -> TokenKey? {
        keys.last { $0.isAlone || $0.madeAt.adding(milliseconds: Self.notice) <= now } ?? keys.first
    }

    /// The key of an id, if tokens that were made with it may still count.
    func key(_ id: Int64, at now: Timestamp) -> TokenKey? {
        guard let index = keys.firstIndex(where: { $0.id == id }) else { return nil }
        let later = keys[(index + 1)...]
        guard !later.contains(where: \.isAlone) else { return nil }
        if let next = later.first, now >= Self.end(ofThoseBefore: next) { return nil }
        return keys[index]
    }

    /// The oldest key that counts, which names the set of those that do; 0 where there is none.
    func oldest(at now: Timestamp) -> Int64 { keys.first { key($0.id, at: now) != nil }?.id ?? 0 }

    /// When the last token has run out that was made with a key before this one.
    private static func end(ofThoseBefore key: TokenKey) -> Timestamp {
        key.madeAt.adding(milliseconds: notice + CustomerTokens.longestLife * 1000 + margin)
    }
}

extension TokenKey {
    /// When the keys before this one end.
    package var endOfEarlier: Timestamp {
        isAlone ? madeAt : madeAt.adding(milliseconds: TokenKeyRing.notice + CustomerTokens.longestLife * 1000)
    }

    /// When the first token is made with it.
    package var firstUse: Timestamp { isAlone ? madeAt : madeAt.adding(milliseconds: TokenKeyRing.notice) }
}
