import EntitlementCore
import OpenSSLCrypto

/// A draft made ready outside the lock: its evidence taken apart and hashed.
struct PreparedEvent: Sendable {
    let draft: EventDraft
    let evidence: EvidenceParts?
    let evidenceHash: Digest?

    init(_ draft: EventDraft) {
        self.draft = draft
        evidence = draft.evidence.map { EvidenceParts(jws: $0) }
        evidenceHash = draft.evidence.flatMap { Digest(SHA256.hash($0)) }
    }

    var statementID: String? {
        guard case .statement(let id, _) = draft.identity else { return nil }
        return id
    }

    var commandKey: String? {
        guard case .command(let key, _) = draft.identity else { return nil }
        return key
    }

    var originalKey: OriginalKey? {
        guard let environment = draft.environment, let id = draft.fact.originalTransactionID else { return nil }
        return OriginalKey(environment: environment, originalTransactionID: id)
    }
}

/// The end of the log, as read under its lock.
struct LedgerHead: Sendable, Equatable {
    var position: Int64
    var recordedAt: Timestamp
    var hash: Digest
    var nextIdentity: Int64
    var liveViews: ViewTable
}

/// What a batch needs to know of the database before it can be decided.
struct AppendContext: Sendable {
    var head: LedgerHead
    /// Positions by source id, then payload hash.
    var keys: [ExactText: [Digest: Int64]]
    var commands: [ExactText: CommandRecord]
    /// Where the catalog in force was written; 0 before any.
    var catalogPosition: Int64
    /// Where somebody last said something of a customer or original transaction that a condition names.
    var lastWords: [WordSubject: Int64] = [:]
    var identities: [ExactText: IdentityRef]
    var states: [OriginalKey: OriginalState]
    var knownHeaders: Set<Digest>
}

/// What links, claims, transfers, grants, conflicts and drift are about.
enum WordSubject: Hashable, Sendable {
    case customer(ExactText)
    case original(OriginalKey)
}

extension UnchangedSince {
    var subjects: [WordSubject] { customers.map { .customer(ExactText($0)) } + originals.map { .original($0) } }
}

/// What a batch writes: decided without touching anything.
struct AppendPlan: Sendable {
    struct Key: Sendable {
        let sourceID: String
        let payloadHash: Digest
        let position: Int64
    }

    private(set) var head: LedgerHead
    private(set) var outcomes: [Result<AppendOutcome, AppendRefusal>] = []
    private(set) var events: [EventRecord] = []
    private(set) var evidence: [(position: Int64, parts: [UInt8])] = []
    private(set) var newKeys: [Key] = []
    private(set) var newCommands: [ExactText: CommandRecord] = [:]
    private(set) var newIdentities: [(value: String, ref: IdentityRef)] = []
    private(set) var newHeaders: [Digest: [UInt8]] = [:]
    private(set) var touched: Set<OriginalKey> = []
    private(set) var states: [OriginalKey: OriginalState]

    private var keys: [ExactText: [Digest: Int64]]
    private var commands: [ExactText: CommandRecord]
    private var catalogPosition: Int64
    private var lastWords: [WordSubject: Int64]
    private var identities: [ExactText: IdentityRef]
    private var knownHeaders: Set<Digest>

    /// Gives each draft its position, or the one it already has.
    init(_ batch: [PreparedEvent], context: AppendContext, now: Timestamp) {
        head = context.head
        // A clock set back must not make time run backwards along the log; and no two batches share an instant, so that
        // nothing can be added to what was recorded by the head's.
        head.recordedAt = max(now, context.head.recordedAt.adding(milliseconds: 1))
        states = context.states
        keys = context.keys
        commands = context.commands
        catalogPosition = context.catalogPosition
        lastWords = context.lastWords
        identities = context.identities
        knownHeaders = context.knownHeaders
        for event in batch { add(event) }
    }

    private mutating func add(_ event: PreparedEvent) {
        let draft = event.draft
        var isReused = false
        switch known(event) {
        case .outcome(let outcome):
            outcomes.append(outcome)
            return
        case .new(let reused):
            isReused = reused
        }
        if let expected = draft.expectedCatalogPosition, expected != catalogPosition {
            outcomes.append(.failure(.catalogChanged(writtenAt: catalogPosition)))
            return
        }
        if let condition = draft.unchangedSince,
            condition.subjects.contains(where: { lastWords[$0, default: 0] > condition.position })
        {
            outcomes.append(.failure(.overtaken))
            return
        }
        let position = head.position + 1
        let references = draft.identities.map { reference(for: $0) }
        var fact = draft.fact.replacingIdentities { references[Int($0.number)] }
        if isReused { fact = fact.remarking("id_reused") }
        let record = record(of: event, fact: fact, position: position)
        remember(draft.identity, position: position)
        if case .catalog = fact { catalogPosition = position }
        if fact.eventType != nil {
            for identity in draft.identities { lastWords[.customer(ExactText(identity))] = position }
            if let key = event.originalKey { lastWords[.original(key)] = position }
        }
        if let parts = event.evidence {
            evidence.append((position, parts.bytes))
            for (name, header) in parts.headers where knownHeaders.insert(name).inserted { newHeaders[name] = header }
        }
        if let key = event.originalKey {
            states[key, default: OriginalState()].join(
                fact, originalTransactionID: key.originalTransactionID, source: draft.source.statementSource,
                position: position)
            touched.insert(key)
        }
        events.append(record)
        head.position = position
        head.hash = record.hash
        outcomes.append(.success(AppendOutcome(position: position, isDuplicate: false, idIsReused: isReused)))
    }

    private enum Standing {
        case outcome(Result<AppendOutcome, AppendRefusal>)
        case new(idIsReused: Bool)
    }

    private func known(_ event: PreparedEvent) -> Standing {
        switch event.draft.identity {
        case .statement(let id, let payloadHash):
            let known = keys[ExactText(id)] ?? [:]
            guard let position = known[payloadHash] else { return .new(idIsReused: !known.isEmpty) }
            return .outcome(.success(AppendOutcome(position: position, isDuplicate: true)))
        case .command(let key, let requestHash):
            guard let record = commands[ExactText(key)], record.counts(at: head.recordedAt) else {
                return .new(idIsReused: false)
            }
            guard record.requestHash == requestHash else { return .outcome(.failure(.idempotencyConflict)) }
            return .outcome(.success(AppendOutcome(position: record.position, isDuplicate: true)))
        case .news:
            guard let state = event.originalKey.flatMap({ states[$0] }), !isNews(event.draft, to: state) else {
                return .new(idIsReused: false)
            }
            return .outcome(.success(AppendOutcome(position: state.lastPosition, isDuplicate: true)))
        case .unique:
            return .new(idIsReused: false)
        }
    }

    /// Whether statements would change what is known of their original transaction.
    private func isNews(_ draft: EventDraft, to state: OriginalState) -> Bool {
        let references = draft.identities.compactMap { identities[ExactText($0)] }
        // Whose name was never heard has said nothing yet.
        guard references.count == draft.identities.count else { return true }
        return state.learns(
            from: draft.fact.replacingIdentities { references[Int($0.number)] },
            originalTransactionID: draft.fact.originalTransactionID ?? "", source: draft.source.statementSource)
    }

    private mutating func remember(_ identity: EventIdentity, position: Int64) {
        switch identity {
        case .statement(let id, let payloadHash):
            keys[ExactText(id), default: [:]][payloadHash] = position
            newKeys.append(Key(sourceID: id, payloadHash: payloadHash, position: position))
        case .command(let key, let requestHash):
            let record = CommandRecord(requestHash: requestHash, position: position, recordedAt: head.recordedAt)
            commands[ExactText(key)] = record
            newCommands[ExactText(key)] = record
        case .news, .unique:
            break
        }
    }

    private mutating func reference(for identity: String) -> IdentityRef {
        if let known = identities[ExactText(identity)] { return known }
        let reference = IdentityRef(head.nextIdentity)
        head.nextIdentity += 1
        identities[ExactText(identity)] = reference
        newIdentities.append((identity, reference))
        return reference
    }

    private func record(of event: PreparedEvent, fact: LedgerFact, position: Int64) -> EventRecord {
        let (first, second) = fact.indexedIdentities
        var record = EventRecord(
            position: position, recordedAt: head.recordedAt, occurredAt: event.draft.occurredAt,
            environment: event.draft.environment, source: event.draft.source, type: event.draft.type,
            originalTransactionID: fact.originalTransactionID, transactionID: fact.transaction?.transactionID,
            productID: fact.transaction?.productID, identity: first, otherIdentity: second,
            facts: FactCodec.encode(fact), evidenceHash: event.evidenceHash, previousHash: head.hash, hash: .zero)
        record.hash = record.computedHash()
        return record
    }
}

extension LedgerFact {
    fileprivate func remarking(_ remark: String) -> LedgerFact {
        guard case .notification(var fact) = self else { return self }
        fact.remarks.append(remark)
        return .notification(fact)
    }
}
