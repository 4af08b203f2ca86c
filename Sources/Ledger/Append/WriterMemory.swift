import EntitlementCore
import Synchronization

/// What a writer remembers of the ledger, so that it need not ask again.
///
/// It holds only what does not change once committed: the number of an identity, that a header or a name is stored,
/// which payload has a dedup key. Two things can still make it wrong: a person is forgotten, or the log loses its end,
/// as when a backup is restored or a replica that lacked the last events takes over. So a batch either goes on from
/// exactly the remembered head, which the commit then proves, or asks whether the log still holds that head and whether
/// anybody was forgotten since.
final class WriterMemory: Sendable {
    /// The most of each kind remembered; of those beyond, the ones not used lately go.
    private static let identityLimit = 200_000
    private static let nameLimit = 200_000
    private static let statementLimit = 50_000
    private static let headerLimit = 1000

    private struct State {
        /// The end of the log after the last batch that was planned or read; `nil` before any, where nothing is remembered.
        var head: LedgerHead?
        var identities = RecentlyUsed<ExactText, IdentityRef>(limit: WriterMemory.identityLimit)
        var headers = RecentlyUsed<Digest, Bool>(limit: WriterMemory.headerLimit)
        var names = RecentlyUsed<EventName, Bool>(limit: WriterMemory.nameLimit)
        var statements = RecentlyUsed<DedupKey, RecordedStatement>(limit: WriterMemory.statementLimit)
    }

    /// What is remembered of what a batch speaks of.
    struct Knowledge: Sendable {
        fileprivate(set) var identities: [ExactText: IdentityRef] = [:]
        fileprivate(set) var headers: Set<Digest> = []
        fileprivate(set) var unknownIdentities: Set<ExactText> = []
        fileprivate(set) var unknownHeaders: Set<Digest> = []

        /// Whether nothing has to be asked.
        var isComplete: Bool { unknownIdentities.isEmpty && unknownHeaders.isEmpty }
    }

    private let state = Mutex(State())

    /// The end of the log, unless somebody else has appended since; `nil` before anything was read.
    ///
    /// Up to there the log has forgotten nobody who is remembered.
    var head: LedgerHead? { state.withLock { $0.head } }

    /// Looks up the identities and headers that a batch names.
    func knowledge(of batch: [PreparedEvent]) -> Knowledge {
        state.withLock { state in
            var knowledge = Knowledge()
            knowledge.identities.reserveCapacity(batch.count * 2)
            for event in batch {
                for value in event.identities where knowledge.identities[value] == nil {
                    if let number = state.identities.value(of: value) {
                        knowledge.identities[value] = number
                    } else {
                        knowledge.unknownIdentities.insert(value)
                    }
                }
                guard let headers = event.evidence?.headers.keys else { continue }
                for header in headers where !knowledge.headers.contains(header) {
                    if state.headers.value(of: header) == true {
                        knowledge.headers.insert(header)
                    } else {
                        knowledge.unknownHeaders.insert(header)
                    }
                }
            }
            return knowledge
        }
    }

    /// Which payload is known to have a dedup key.
    func statement(of key: DedupKey) -> RecordedStatement? { state.withLock { $0.statements.value(of: key) } }

    /// Whether the log is known to hold a name of which only the first event has a row.
    func hasName(_ name: EventName) -> Bool { state.withLock { $0.names.value(of: name) == true } }

    /// Remembers what was read when the log ended at `head`, since when nobody has been forgotten.
    func learn(identities: [ExactText: IdentityRef], headers: Set<Digest>, at head: LedgerHead) {
        state.withLock { state in
            state.head = head
            for (value, number) in identities { state.identities.insert(number, for: value) }
            for name in headers { state.headers.insert(true, for: name) }
        }
    }

    /// Remembers what was read, wherever the log ends.
    func learn(from context: AppendContext, unknownTo known: Knowledge) {
        state.withLock { state in
            for value in known.unknownIdentities {
                if let number = context.identities[value] { state.identities.insert(number, for: value) }
            }
            for name in known.unknownHeaders where context.knownHeaders.contains(name) {
                state.headers.insert(true, for: name)
            }
        }
    }

    /// Remembers what was committed, or is about to be; if it was not after all, `reset` has to follow.
    func learn(from plan: AppendPlan) {
        state.withLock { state in
            for new in plan.newIdentities { state.identities.insert(new.ref, for: new.value) }
            for name in plan.newHeaders.keys { state.headers.insert(true, for: name) }
            for name in plan.newNames where name.name.kind.isFirstOnly { state.names.insert(true, for: name.name) }
            for (key, statement) in plan.newStatements { state.statements.insert(statement, for: key) }
            state.head = plan.head
        }
    }

    /// Forgets all identities.
    func forget() {
        state.withLock { $0.identities = RecentlyUsed(limit: Self.identityLimit) }
    }

    /// Forgets everything.
    func reset() { state.withLock { $0 = State() } }
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
        guard !older.isEmpty, let value = older.removeValue(forKey: key) else { return nil }
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
