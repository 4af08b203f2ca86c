import EntitlementCore
import OpenSSLCrypto

/// What a batch writes: decided without touching anything.
struct AppendPlan: Sendable {
    /// A row of `event_name`.
    struct NewName: Sendable {
        let name: EventName
        let position: Int64
        /// Whether its identity got its number in this batch, so that no earlier event can have named it.
        let isOfNewIdentity: Bool
    }

    /// A row of `identity`.
    struct NewIdentity: Sendable {
        let value: ExactText
        let ref: IdentityRef
        let salt: [UInt8]
    }

    /// A row of `command_key`.
    struct NewCommand: Sendable {
        let key: String
        let record: CommandRecord
        let customer: CustomerID?
    }

    /// The end of the log that the plan goes on from.
    let base: LedgerHead
    private(set) var head: LedgerHead
    private(set) var outcomes: [Result<AppendOutcome, AppendRefusal>] = []
    private(set) var events: [EventRecord] = []
    private(set) var dedupKeys: [DedupKey?] = []
    private(set) var evidence: [(position: Int64, parts: [UInt8])] = []
    private(set) var newNames: [NewName] = []
    private(set) var newCommands: [NewCommand] = []
    private(set) var newIdentities: [NewIdentity] = []
    private(set) var newHeaders: [Digest: [UInt8]] = [:]

    private var statements: [DedupKey: RecordedStatement]
    private var commands: [ExactText: CommandRecord]
    private var lastOwnershipEvents: [OwnershipSubject: Int64]
    private let heldMarks: Set<EventMark>
    private var identities: [ExactText: IdentityRef]
    private var states: [OriginalKey: OriginalState]
    private var knownHeaders: Set<Digest>
    private var namedInBatch: Set<EventName> = []
    private let memory: WriterMemory?
    private let salt: @Sendable () -> [UInt8]

    /// The statements it records, by their dedup keys.
    private(set) var newStatements: [(key: DedupKey, statement: RecordedStatement)] = []

    /// Gives each draft its position, or the one it already has.
    ///
    /// - Parameter salt: makes the salt of each new identity, of 16 bytes that nobody can guess.
    init(
        _ batch: [PreparedEvent], context: AppendContext, now: Timestamp,
        salt: @escaping @Sendable () -> [UInt8] = IdentityCommitment.salt
    ) {
        self.salt = salt
        base = context.head
        head = context.head
        head.recordedAt = Self.date(after: context.head.recordedAt, now: now)
        statements = context.statements
        commands = context.commands
        lastOwnershipEvents = context.lastOwnershipEvents
        heldMarks = context.heldMarks
        identities = context.identities
        states = context.states
        knownHeaders = context.knownHeaders
        memory = context.memory
        outcomes.reserveCapacity(batch.count)
        events.reserveCapacity(batch.count)
        dedupKeys.reserveCapacity(batch.count)
        evidence.reserveCapacity(batch.count)
        newStatements.reserveCapacity(batch.count)
        for event in batch { add(event) }
        // All outcomes of a batch have the same end, so whoever appends many events has few marks to keep.
        let end = head.mark
        for index in outcomes.indices {
            outcomes[index] = outcomes[index].map { outcome in
                var outcome = outcome
                outcome.end = end
                return outcome
            }
        }
    }

    /// When what is appended now is dated, behind an event that was dated so.
    ///
    /// A clock set back must not make time run backwards along the log; and no two batches share an instant, so that nothing
    /// can be added to what was recorded by the head's.
    static func date(after last: Timestamp, now: Timestamp) -> Timestamp { max(now, last.adding(milliseconds: 1)) }

    private mutating func add(_ event: PreparedEvent) {
        var isReused = false
        switch precedent(of: event) {
        case .outcome(let outcome):
            outcomes.append(outcome)
            return
        case .none(let reused):
            isReused = reused
        }
        if let expected = event.draft.expectedCatalogPosition, expected != head.catalogPosition {
            outcomes.append(.failure(.catalogChanged(writtenAt: head.catalogPosition)))
            return
        }
        if isOvertaken(event.draft) {
            outcomes.append(.failure(.conflict))
            return
        }
        let position = head.position + 1
        let known = newIdentities.count
        let references = event.identities.map { reference(for: $0) }
        var fact = event.draft.fact.replacingIdentities { references[Int($0.number)] }
        if isReused { fact = fact.remarking(LedgerFact.reusedID) }
        let dedupKey = isReused ? event.reusedDedupKey : event.dedupKey
        let record = record(of: event, fact: fact, newIdentities: newIdentities[known...], position: position)
        remember(event, dedupKey, position: position)
        note(fact, of: event, position: position)
        addNames(of: fact, in: event.draft.environment, hasEvidence: event.evidence != nil, position: position)
        if let parts = event.evidence {
            evidence.append((position, parts.bytes))
            for (name, header) in parts.headers where knownHeaders.insert(name).inserted { newHeaders[name] = header }
        }
        events.append(record)
        dedupKeys.append(dedupKey)
        head.position = position
        head.hash = record.hash
        outcomes.append(.success(AppendOutcome(position: position, isDuplicate: false, idIsReused: isReused)))
    }

    /// Whether the log has changed since an event was decided, so that it has to be decided again.
    private func isOvertaken(_ draft: EventDraft) -> Bool {
        // The log may have lost its end since, and with it the event that this one settles. That event cannot be in
        // this batch, whose positions nobody knew then: so compare with the end before the batch.
        if case .storeRequest(let fact) = draft.fact, (fact.settles ?? 0) > base.position { return true }
        guard let condition = draft.unchangedSince else { return false }
        if let mark = condition.mark, mark.position > 0, !heldMarks.contains(mark) { return true }
        return condition.position > base.position
            || condition.subjects.contains { lastOwnershipEvents[$0, default: 0] > condition.position }
    }

    /// What the log already holds of a draft.
    private enum Precedent {
        case outcome(Result<AppendOutcome, AppendRefusal>)
        case none(idIsReused: Bool)
    }

    private func precedent(of event: PreparedEvent) -> Precedent {
        switch event.draft.deduplication {
        case .statement: return statedPrecedent(of: event)
        case .command(let key, let requestHash, _):
            guard let record = commands[ExactText(key)], record.counts(at: head.recordedAt) else {
                return statedPrecedent(of: event)
            }
            guard record.requestHash == requestHash else { return .outcome(.failure(.idempotencyConflict)) }
            return .outcome(.success(AppendOutcome(position: record.position, isDuplicate: true)))
        case .news:
            guard let state = event.originalKey.flatMap({ states[$0] }), !isNews(event.draft, to: state) else {
                return .none(idIsReused: false)
            }
            return .outcome(.success(AppendOutcome(position: state.lastPosition, isDuplicate: true)))
        case .unique: return statedPrecedent(of: event)
        }
    }

    /// What the log holds under the id that the source gave the fact, if it did: that is one event, whoever orders it.
    private func statedPrecedent(of event: PreparedEvent) -> Precedent {
        guard let payloadHash = event.payloadHash, let first = event.dedupKey.flatMap({ statement(of: $0) }) else {
            return .none(idIsReused: false)
        }
        if first.payloadHash == payloadHash {
            return .outcome(.success(AppendOutcome(position: first.position, isDuplicate: true)))
        }
        guard let again = event.reusedDedupKey.flatMap({ statement(of: $0) }) else { return .none(idIsReused: true) }
        return .outcome(.success(AppendOutcome(position: again.position, isDuplicate: true)))
    }

    private func statement(of key: DedupKey) -> RecordedStatement? { statements[key] ?? memory?.statement(of: key) }

    /// Whether statements would change what is known of their original transaction.
    private func isNews(_ draft: EventDraft, to state: OriginalState) -> Bool {
        let references = draft.identities.compactMap { identities[ExactText($0)] }
        // An identity without a number has been named by no statement yet.
        guard references.count == draft.identities.count else { return true }
        return state.learns(
            from: draft.fact.replacingIdentities { references[Int($0.number)] },
            originalTransactionID: draft.fact.originalTransactionID ?? "", source: draft.source.statementSource)
    }

    /// Lets later drafts of the batch find this one as its precedent.
    private mutating func remember(_ event: PreparedEvent, _ dedupKey: DedupKey?, position: Int64) {
        if let dedupKey, let payloadHash = event.payloadHash {
            let statement = RecordedStatement(payloadHash: payloadHash, position: position)
            statements[dedupKey] = statement
            newStatements.append((dedupKey, statement))
        }
        switch event.draft.deduplication {
        case .command(let key, let requestHash, let customer):
            let record = CommandRecord(requestHash: requestHash, position: position, recordedAt: head.recordedAt)
            commands[ExactText(key)] = record
            newCommands.append(NewCommand(key: key, record: record, customer: customer))
        case .statement, .news, .unique:
            break
        }
    }

    /// Lets later drafts of the batch be decided by what this one states.
    private mutating func note(_ fact: LedgerFact, of event: PreparedEvent, position: Int64) {
        if case .catalog = fact { head.catalogPosition = position }
        let isOwnershipEvent = fact.eventType != nil
        let key = event.originalKey
        if let key, lastOwnershipEvents[.life(key)] != nil { lastOwnershipEvents[.life(key)] = position }
        guard isOwnershipEvent || !states.isEmpty else { return }
        if isOwnershipEvent {
            for identity in event.identities { lastOwnershipEvents[.customer(identity)] = position }
            if let key { lastOwnershipEvents[.original(key)] = position }
        }
        if let key, states[key] != nil {
            states[key]?.join(
                fact, originalTransactionID: key.originalTransactionID, source: event.draft.source.statementSource,
                position: position)
        }
    }

    private mutating func addNames(
        of fact: LedgerFact, in environment: StoreEnvironment?, hasEvidence: Bool, position: Int64
    ) {
        for name in fact.names(in: environment, hasEvidence: hasEvidence) {
            let isKnown =
                name.kind.isFirstOnly && (!namedInBatch.insert(name).inserted || memory?.hasName(name) == true)
            if isKnown { continue }
            newNames.append(
                NewName(
                    name: name, position: position, isOfNewIdentity: name.identity.number >= base.nextIdentity))
        }
    }

    private mutating func reference(for identity: ExactText) -> IdentityRef {
        if let known = identities[identity] { return known }
        let reference = IdentityRef(head.nextIdentity)
        head.nextIdentity += 1
        identities[identity] = reference
        newIdentities.append(NewIdentity(value: identity, ref: reference, salt: salt()))
        return reference
    }

    private func record(
        of event: PreparedEvent, fact: LedgerFact, newIdentities: ArraySlice<NewIdentity>, position: Int64
    ) -> EventRecord {
        let (first, second) = fact.indexedIdentities
        var record = EventRecord(
            position: position, recordedAt: head.recordedAt, occurredAt: event.draft.occurredAt,
            environment: event.draft.environment, source: event.draft.source, type: event.draft.type,
            originalTransactionID: fact.originalTransactionID, transactionID: fact.transaction?.transactionID,
            productID: fact.transaction?.productID, identity: first, otherIdentity: second,
            facts: FactCodec.encode(fact), evidenceHash: event.evidenceHash, previousHash: head.hash, hash: .zero,
            identityCommitments: newIdentities.map { IdentityCommitment.of($0.value.text, salt: $0.salt) })
        record.hash = record.computedHash()
        return record
    }
}

extension LedgerFact {
    fileprivate func remarking(_ remark: String) -> LedgerFact {
        switch self {
        case .notification(var fact):
            fact.remarks.append(remark)
            return .notification(fact)
        case .web(var fact):
            fact.remarks.append(remark)
            return .web(fact)
        case .statements, .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation,
            .drift, .forgetting, .access, .storeRequest:
            return self
        }
    }
}
