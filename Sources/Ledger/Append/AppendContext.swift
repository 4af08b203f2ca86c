import EntitlementCore

/// The end of the log.
struct LedgerHead: Sendable, Equatable {
    var position: Int64
    var recordedAt: Timestamp
    var hash: Digest
    var nextIdentity: Int64
    /// Where the catalog in force was written; 0 before any.
    var catalogPosition: Int64

    var mark: EventMark { EventMark(position: position, hash: hash) }
}

/// What a batch needs to know, read under the head's lock.
struct AppendContext: Sendable {
    var head: LedgerHead
    /// Who holds the read lease; see `ReadLease`.
    var leaseHolder: ReadLease.Holder?
    /// The database's clock, read under the head's lock.
    var databaseTime = Timestamp.earliest
    /// The statements already in the log under the batch's dedup keys.
    var statements: [DedupKey: RecordedStatement] = [:]
    /// The commands carried out under the batch's idempotency keys.
    var commands: [ExactText: CommandRecord] = [:]
    /// The position of the last ownership event or report about each customer or original transaction that a condition
    /// names.
    var lastOwnershipEvents: [OwnershipSubject: Int64] = [:]
    /// Of the events on which decisions rest, those that the log holds.
    var heldMarks: Set<EventMark> = []
    var identities: [ExactText: IdentityRef] = [:]
    /// The states of the originals for which it has to be decided whether an event is news.
    var states: [OriginalKey: OriginalState] = [:]
    var knownHeaders: Set<Digest> = []
    /// What the writer remembers in addition.
    var memory: WriterMemory?
}

/// Which payload has a dedup key, and where.
struct RecordedStatement: Sendable {
    let payloadHash: Digest
    let position: Int64
}

/// What links, claims, transfers, grants, conflicts and drift are about.
enum OwnershipSubject: Hashable, Sendable {
    case customer(ExactText)
    case original(OriginalKey)
    /// All that is recorded about an original transaction.
    case life(OriginalKey)
}

extension UnchangedSince {
    var subjects: [OwnershipSubject] {
        customers.map { .customer(ExactText($0)) } + originals.map { .original($0) } + lives.map { .life($0) }
    }
}
