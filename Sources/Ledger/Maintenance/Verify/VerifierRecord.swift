import EntitlementCore
import PostgresClient

/// What must hold of one event by itself and beside the one before it.
struct RecordCheck: Sendable {
    let record: EventRecord
    let fact: LedgerFact

    private let dedupKey: [UInt8]?

    /// Reads a row of `EventColumns`, a flag for times finer than a millisecond, and the dedup key.
    init(_ row: PostgresRow, at position: Int64) throws {
        func differs(_ problem: String) -> VerificationDifference {
            VerificationDifference(event: position, problem)
        }
        do {
            record = try EventRecord(row)
        } catch {
            throw differs("cannot be read: \(error)")
        }
        // What is stored finer than it is read would be a byte that no hash covers.
        guard try row.bool(16), try row.timestamp(1) == record.recordedAt.milliseconds,
            try row.optionalTimestamp(2) == record.occurredAt?.milliseconds
        else { throw differs("recorded_at or occurred_at is not a whole millisecond of the years 1 to 9999") }
        dedupKey = try row.optionalBytes(17)
        do {
            fact = try FactCodec.decode(record.facts)
        } catch {
            throw differs("facts do not read (\(error))")
        }
    }

    func check(after previous: (hash: Digest, recordedAt: Timestamp)) throws {
        guard record.previousHash == previous.hash else {
            throw differs(
                "previous_hash is \(record.previousHash.hex); the hash of the event before is \(previous.hash.hex)")
        }
        let computed = record.computedHash()
        guard record.hash == computed else {
            throw differs("hash is \(record.hash.hex); its columns give \(computed.hex)")
        }
        guard record.recordedAt >= previous.recordedAt else {
            throw differs(
                "recorded_at is \(record.recordedAt), before the event before it at \(previous.recordedAt)")
        }
        try checkColumns()
    }

    /// The columns that the fact itself decides; a chain computed anew would cover them up.
    private func checkColumns() throws {
        let (first, second) = fact.indexedIdentities
        try expect(
            "original_transaction_id", record.originalTransactionID?.utf8.map(\.self),
            fact.originalTransactionID?.utf8.map(\.self))
        try expect(
            "transaction_id", record.transactionID?.utf8.map(\.self),
            fact.transaction?.transactionID.utf8.map(\.self))
        try expect("product_id", record.productID?.utf8.map(\.self), fact.transaction?.productID.utf8.map(\.self))
        try expect("identity", record.identity, first)
        try expect("other_identity", record.otherIdentity, second)
        try expect("dedup_key", dedupKey, fact.dedupKey(in: record.environment)?.bytes)
        // Signed statements are labelled by what they report; everything else is looked for by its type.
        if let type = fact.eventType {
            try expect("type", record.type, type)
        } else if LedgerFact.eventTypes.contains(record.type) {
            throw differs("type is not what its facts say")
        }
        try checkSource()
        if let forgetting = fact.forgetting {
            guard forgetting.evidencePositions.allSatisfy({ 0 < $0 && $0 < record.position }) else {
                throw differs("it erases evidence of events that come after it")
            }
        }
        if case .storeRequest(let request) = fact, let settled = request.settles {
            guard (1..<record.position).contains(settled) else {
                throw differs("it settles what comes after it")
            }
        }
    }

    /// Nothing counts as signed that brought no signed bytes with it.
    private func checkSource() throws {
        let isSigned: Bool
        switch (fact, record.source) {
        case (.notification, .notification), (.notification, .serverAPI), (.statements, .device),
            (.statements, .serverAPI), (.web, .stripeNotification), (.web, .stripeAPI):
            isSigned = true
        case (.notification, _), (.statements, _), (.web, _):
            throw differs("its source, \(record.source.rawValue), makes no such statements")
        case (.link, _), (.claim, _), (.transfer, _), (.transferUndo, _), (.conflict, _), (.grant, _),
            (.grantRevocation, _), (.drift, _), (.forgetting, _), (.catalog, _), (.access, _),
            (.storeRequest, .serverAPI), (.storeRequest, .operatorCommand), (.storeRequest, .api):
            isSigned = false
        case (.storeRequest, _):
            throw differs("its source, \(record.source.rawValue), asks nothing of the store")
        }
        guard isSigned == (record.evidenceHash != nil) else {
            throw differs(isSigned ? "is of a signed source, and names no evidence" : "names evidence of no statement")
        }
    }

    private func expect<Value: Equatable>(_ column: String, _ stored: Value, _ stated: Value) throws {
        guard stored == stated else { throw differs("\(column) is not what its facts say") }
    }

    private func differs(_ problem: String) -> VerificationDifference {
        VerificationDifference(event: record.position, problem)
    }
}

extension LedgerFact {
    var forgetting: ForgettingFact? {
        guard case .forgetting(let fact) = self else { return nil }
        return fact
    }

    /// Every identity the fact names.
    var identities: [IdentityRef] {
        var found: [IdentityRef] = []
        _ = replacingIdentities {
            found.append($0)
            return $0
        }
        return found
    }
}
