import EntitlementCore
import Synchronization

/// What a writer remembers of the ledger, so that it need not ask again under the head's lock.
///
/// Only what never changes once committed: the number of an identity, and that a header is stored. The one exception is
/// that a person is forgotten; a batch therefore asks whether that has happened since `position`.
final class WriterMemory: Sendable {
    /// The most identities and headers remembered, each; of those beyond, the ones not used lately go.
    private static let identityLimit = 200_000
    private static let headerLimit = 1000

    struct Known: Sendable {
        /// Where nothing is remembered there is nothing to ask about.
        fileprivate var position = Int64.max
        fileprivate var identities = RecentlyUsed<ExactText, IdentityRef>(limit: WriterMemory.identityLimit)
        fileprivate var headers = RecentlyUsed<Digest, Bool>(limit: WriterMemory.headerLimit)

        mutating func identity(of value: ExactText) -> IdentityRef? { identities.value(of: value) }
        mutating func hasHeader(_ name: Digest) -> Bool { headers.value(of: name) == true }
    }

    private let known = Mutex(Known())

    /// Up to where the log is known to have forgotten nobody who is remembered.
    var position: Int64 { known.withLock { $0.position } }

    /// Looks up what a batch needs to know.
    func lookUp<Value: Sendable>(_ body: @Sendable (inout Known) -> Value) -> Value { known.withLock { body(&$0) } }

    /// Remembers what was read of the database when its log ended at `position`, nobody having been forgotten since.
    func learn(identities: [ExactText: IdentityRef], headers: Set<Digest>, at position: Int64) {
        known.withLock { known in
            known.position = position
            for (value, number) in identities { known.identities.insert(number, for: value) }
            for name in headers { known.headers.insert(true, for: name) }
        }
    }

    /// Remembers what was committed.
    func learn(from plan: AppendPlan) {
        known.withLock { known in
            for (value, number) in plan.newIdentities { known.identities.insert(number, for: ExactText(value)) }
            for name in plan.newHeaders.keys { known.headers.insert(true, for: name) }
            known.position = plan.head.position
        }
    }

    /// Forgets all identities.
    func forget() {
        known.withLock { $0.identities = RecentlyUsed(limit: Self.identityLimit) }
    }
}

/// A dictionary of at most `limit` entries that lets go of what was not used lately.
///
/// Two halves: when the younger is full it becomes the older, and what the older still held is gone.
struct RecentlyUsed<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private var younger: [Key: Value] = [:]
    private var older: [Key: Value] = [:]
    private let half: Int

    init(limit: Int) { half = max(1, limit / 2) }

    var count: Int { younger.count + older.count }

    mutating func value(of key: Key) -> Value? {
        if let value = younger[key] { return value }
        guard let value = older.removeValue(forKey: key) else { return nil }
        insert(value, for: key)
        return value
    }

    mutating func insert(_ value: Value, for key: Key) {
        if younger.count >= half, younger[key] == nil {
            older = younger
            younger = [:]
        }
        younger[key] = value
    }
}
