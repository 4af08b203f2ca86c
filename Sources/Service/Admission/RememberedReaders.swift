import EntitlementCore
import Ledger

/// Secret keys that may read customers, by the whole value of the `Authorization` header that bears them.
///
/// A key counts here as long as the `Authenticator` remembers it, and is looked up there when it does not. For one
/// thread.
final class RememberedReaders {
    /// A key that may read customers.
    final class Reader {
        let keyID: String
        /// The environment meant when a request names none.
        let environment: StoreEnvironment
        fileprivate let header: [UInt8]
        fileprivate let until: ContinuousClock.Instant

        fileprivate init(_ key: APIKey, header: [UInt8], until: ContinuousClock.Instant) {
            keyID = key.id
            environment = key.environment ?? .production
            self.header = header
            self.until = until
        }
    }

    /// The most keys remembered, and the longest header looked at.
    private static let capacity = 1024
    private static let headerLimit = 512

    private let authenticator: Authenticator
    private var readers: [Int: Reader] = [:]

    init(_ authenticator: Authenticator) { self.authenticator = authenticator }

    /// The key that a header bears; `nil` for whatever the general path has to look at.
    func reader(_ header: UnsafeBufferPointer<UInt8>, at now: ContinuousClock.Instant) -> Reader? {
        guard header.count <= Self.headerLimit else { return nil }
        var hasher = Hasher()
        hasher.combine(bytes: UnsafeRawBufferPointer(header))
        let hash = hasher.finalize()
        if let known = readers[hash], now < known.until, Self.isSame(known.header, header) { return known }
        readers[hash] = nil
        guard
            let (key, until) = authenticator.rememberedSecretKey(
                authorization: String(decoding: header, as: UTF8.self), at: now), key.allows(.customersRead)
        else { return nil }
        if readers.count >= Self.capacity { readers = [:] }
        let reader = Reader(key, header: Array(header), until: until)
        readers[hash] = reader
        return reader
    }

    /// Takes as long for a header that differs in its last byte as for one that differs in its first.
    private static func isSame(_ known: [UInt8], _ header: UnsafeBufferPointer<UInt8>) -> Bool {
        guard known.count == header.count else { return false }
        var difference: UInt8 = 0
        for index in known.indices { difference |= known[index] ^ header[index] }
        return difference == 0
    }
}
