import EntitlementCore
import HTTPServer
import Ledger

/// API keys by the whole value of the `Authorization` header that bears them.
///
/// A key counts here as long as the `Authenticator` remembers it, and is looked up there when it does not. For one
/// thread.
final class RememberedKeys {
    /// A key that was recognised lately.
    final class Key {
        let key: APIKey
        /// Whether it may read customers, and all of them alike: what is about one app is not kept in memory.
        let readsCustomers: Bool
        fileprivate let header: [UInt8]
        fileprivate let until: ContinuousClock.Instant

        /// The environment meant when a request names none.
        var environment: StoreEnvironment { key.environment ?? .production }

        fileprivate init(_ key: APIKey, header: [UInt8], until: ContinuousClock.Instant) {
            self.key = key
            readsCustomers = !key.isPublishable && key.allows(.customersRead) && key.bundleID == nil
            self.header = header
            self.until = until
        }
    }

    /// The most keys remembered, and the longest header looked at.
    private static let capacity = 1024
    private static let headerLimit = 512

    private let authenticator: Authenticator
    private var keys: [Int: Key] = [:]

    init(_ authenticator: Authenticator) { self.authenticator = authenticator }

    /// The key that a header bears; `nil` for whatever the general path has to look at.
    func key(_ header: UnsafeBufferPointer<UInt8>, at now: ContinuousClock.Instant) -> Key? {
        guard header.count <= Self.headerLimit else { return nil }
        var hasher = Hasher()
        hasher.combine(bytes: UnsafeRawBufferPointer(header))
        let hash = hasher.finalize()
        if let known = keys[hash], now < known.until, Self.isSame(known.header, header) { return known }
        keys[hash] = nil
        guard
            let (key, until) = authenticator.rememberedKey(
                authorization: String(decoding: header, as: UTF8.self), at: now)
        else { return nil }
        if keys.count >= Self.capacity { keys = [:] }
        let known = Key(key, header: Array(header), until: until)
        keys[hash] = known
        return known
    }

    /// Takes as long for a header that differs in its last byte as for one that differs in its first.
    private static func isSame(_ known: [UInt8], _ header: UnsafeBufferPointer<UInt8>) -> Bool {
        guard known.count == header.count else { return false }
        var difference: UInt8 = 0
        for index in known.indices { difference |= known[index] ^ header[index] }
        return difference == 0
    }
}
