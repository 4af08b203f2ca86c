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
}

/// What a batch needs to know of the database before it can be decided.
struct AppendContext: Sendable {
    var head: LedgerHead
    /// Positions by source id, then payload hash.
    var keys: [String: [Digest: Int64]]
    var identities: [String: IdentityRef]
    var states: [OriginalKey: OriginalState]
    var knownHeaders: Set<Digest>
}

/// What a batch writes: decided without touching anything.
struct AppendPlan: Sendable {
    struct Key: Sendable {
        let sourceID: String
        let payloadHash: Digest
        let position: Int64
    }

    private(set) var head: LedgerHead
    private(set) var outcomes: [AppendOutcome] = []
    private(set) var events: [EventRecord] = []
    private(set) var evidence: [(position: Int64, parts: [UInt8])] = []
    private(set) var newKeys: [Key] = []
    private(set) var newIdentities: [(value: String, ref: IdentityRef)] = []
    private(set) var newHeaders: [Digest: [UInt8]] = [:]
    private(set) var touched: Set<OriginalKey> = []
    private(set) var states: [OriginalKey: OriginalState]

    private var keys: [String: [Digest: Int64]]
    private var identities: [String: IdentityRef]
    private var knownHeaders: Set<Digest>

    /// Gives each draft its position, or the one it already has.
    init(_ batch: [PreparedEvent], context: AppendContext, now: Timestamp) {
        head = context.head
        // A clock set back must not make time run backwards along the log.
        head.recordedAt = max(now, context.head.recordedAt)
        states = context.states
        keys = context.keys
        identities = context.identities
        knownHeaders = context.knownHeaders
        for event in batch { add(event) }
    }

    private mutating func add(_ event: PreparedEvent) {
        let draft = event.draft
        let known = keys[draft.sourceID] ?? [:]
        if let position = known[draft.payloadHash] {
            outcomes.append(AppendOutcome(position: position, isDuplicate: true))
            return
        }
        let position = head.position + 1
        let references = draft.identities.map { reference(for: $0) }
        var fact = draft.fact.replacingIdentities { references[Int($0.number)] }
        if !known.isEmpty { fact = fact.remarking("id_reused") }
        let record = record(of: event, fact: fact, position: position)

        keys[draft.sourceID, default: [:]][draft.payloadHash] = position
        newKeys.append(Key(sourceID: draft.sourceID, payloadHash: draft.payloadHash, position: position))
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
        outcomes.append(AppendOutcome(position: position, isDuplicate: false))
    }

    private mutating func reference(for identity: String) -> IdentityRef {
        if let known = identities[identity] { return known }
        let reference = IdentityRef(head.nextIdentity)
        head.nextIdentity += 1
        identities[identity] = reference
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
