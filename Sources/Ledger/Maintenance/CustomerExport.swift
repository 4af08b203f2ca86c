package import EntitlementCore
import OpenSSLCrypto
import PostgresClient

/// What the log ties to one customer.
package struct CustomerExport: Sendable {
    package struct Item: Sendable {
        package let record: EventRecord
        package let fact: LedgerFact
        /// The signed bytes; `nil` where there are none, they were erased, or they are withheld.
        package let evidence: [UInt8]?
        /// They name somebody else, and so are left out.
        package let isWithheld: Bool

        package init(record: EventRecord, fact: LedgerFact, evidence: [UInt8]?, isWithheld: Bool) {
            self.record = record
            self.fact = fact
            self.evidence = evidence
            self.isWithheld = isWithheld
        }

        /// What shows that the event is not the log's; `nil` where everything fits.
        package var fault: String? {
            if record.computedHash() != record.hash { return "its hash is not that of its content" }
            if let evidence, Digest(SHA256.hash(evidence)) != record.evidenceHash {
                return "its evidence is not what the event was taken from"
            }
            return nil
        }
    }

    /// The ledger's number for the customer.
    package let identity: IdentityRef
    /// What is known of the customer in clear: customer ids, account tokens and app transaction ids.
    package let identities: [IdentityRef: String]
    /// In the order of their positions; every catalog among them.
    package let items: [Item]
    /// The end of the log when it was read.
    package let position: Int64
    package let recordedAt: Timestamp
    package let hash: Digest
}

extension LedgerReader {
    /// What the log ties to a customer; `nil` where nothing is.
    ///
    /// What only a search through all evidence finds is left out.
    ///
    /// Of others it holds only the numbers that stand for them.
    package func export(
        of customer: CustomerID, environments: [StoreEnvironment]
    ) async throws -> CustomerExport? {
        try await read { connection in
            let results = try connection.pipeline([Statements.head, Statements.identity(of: customer.value)])
            guard let head = results[0].first else { throw Statements.missingHead }
            guard let identity = try results[1].first.map({ IdentityRef(try $0.int(0)) }) else { return nil }
            let position = try head.int(0)
            var selection = ExportSelection()
            for environment in environments {
                var query = CustomerHistoryQuery(environment: environment, upTo: position)
                try query.gather(identity, on: connection)
                selection.add(
                    query.events,
                    bearingOn: CustomerHistory(
                        of: identity, environment: environment, position: position, events: query.events.map(\.history))
                )
            }
            guard !selection.events.isEmpty else { return nil }
            var catalogs = CustomerHistoryQuery(environment: .production, upTo: position)
            try catalogs.addCatalogs(latest: nil, on: connection)
            let events = (catalogs.events + selection.events.values).sorted { $0.record.position < $1.record.position }
            let identities = try Statements.customerIDs(
                of: Array(selection.identities.union([identity])), on: connection)
            let (evidence, foreign) = try Self.evidence(
                of: events.map(\.record).filter { $0.evidenceHash != nil && !selection.withheld.contains($0.position) }
                    .map(\.position), naming: Set(identities.values.map { ExactText($0) }), on: connection)
            return CustomerExport(
                identity: identity, identities: identities,
                items: events.map { event in
                    let position = event.record.position
                    return CustomerExport.Item(
                        record: event.record, fact: event.fact, evidence: evidence[position],
                        isWithheld: selection.withheld.contains(position) || foreign.contains(position))
                }, position: position, recordedAt: try head.instant(1),
                hash: try head.digest(2))
        }
    }

    /// How many pieces of evidence are put together at once.
    private static let evidenceBatch = 500

    /// The evidence that names nobody but some people, and the positions of what names anybody else.
    private static func evidence(
        of positions: [Int64], naming people: Set<ExactText>, on connection: isolated PostgresConnection
    ) throws -> (evidence: [Int64: [UInt8]], foreign: Set<Int64>) {
        var evidence: [Int64: [UInt8]] = [:]
        var foreign: Set<Int64> = []
        for start in stride(from: 0, to: positions.count, by: evidenceBatch) {
            let batch = Array(positions[start..<min(start + evidenceBatch, positions.count)])
            let rows = try connection.query(
                "SELECT position, parts FROM evidence WHERE ledger_id = $1 AND position = ANY($2)",
                [.int(ledgerID), .intArray(batch)]
            ).rows
            let stored = try rows.map { (position: try $0.int(0), parts: try $0.bytes(1)) }.filter { piece in
                // What does not read is told below, with its position.
                guard let steps = try? EvidenceParts.steps(of: piece.parts),
                    !StatedIdentities.all(in: steps).isSubset(of: people)
                else { return true }
                foreign.insert(piece.position)
                return false
            }
            evidence.merge(try StoredEvidence.received(stored, on: connection)) { first, _ in first }
        }
        return (evidence, foreign)
    }
}

/// What of the gathered events is exported, and whose identities.
private struct ExportSelection {
    private(set) var events: [Int64: DecodedEvent] = [:]
    private(set) var identities: Set<IdentityRef> = []
    private(set) var withheld: Set<Int64> = []

    /// Adds what may be handed out, by the links in force.
    ///
    /// Evidence that bears somebody else's identity is withheld; so is, in an original transaction of several owners,
    /// what does not say whose it is.
    mutating func add(_ gathered: [DecodedEvent], bearingOn history: CustomerHistory) {
        identities.formUnion(history.person)
        let positions = Set(history.handedOut.map(\.position))
        let kept = gathered.filter { positions.contains($0.record.position) }
        let facts = history.facts()
        // Whoever was forgotten is nobody.
        let known = history.person.union(
            facts.originals.values.flatMap { $0.web?.forgotten.map(\.customer) ?? [] })
        let foreign = kept.filter { $0.owners.contains { !known.contains($0) } }
        // What was given to them and is not theirs any more says nothing of whose it is, either.
        let mixed = Set(foreign.compactMap(\.record.originalTransactionID)).union(
            Set(kept.compactMap(\.record.originalTransactionID)).filter { !facts.holds($0) })
        for event in kept {
            let record = event.record
            events[record.position] = event
            let isOwn = event.owners.allSatisfy { known.contains($0) }
            let isInMixed = record.originalTransactionID.map { mixed.contains($0) } ?? false
            if !isOwn || event.owners.isEmpty && isInMixed {
                withheld.insert(record.position)
            } else if event.fact.eventType == nil {
                // The app transaction ids beside the customer's own account tokens.
                identities.formUnion(event.fact.transactions.compactMap(\.appTransaction))
            }
        }
    }
}

extension DecodedEvent {
    /// Whose it says something is; of what was bought on the web it may name several.
    fileprivate var owners: [IdentityRef] {
        if case .web(let fact) = fact { return fact.owners.map(\.customer) }
        return [record.identity].compactMap(\.self)
    }
}

extension EventRecord {
    /// An event read from a file.
    package static func read(
        position: Int64, recordedAt: Timestamp, occurredAt: Timestamp?, environment: StoreEnvironment?,
        source: EventSource, type: String, originalTransactionID: String?, transactionID: String?, productID: String?,
        identity: IdentityRef?, otherIdentity: IdentityRef?, facts: [UInt8], evidenceHash: Digest?,
        identityCommitments: [Digest], previousHash: Digest, hash: Digest
    ) -> EventRecord {
        EventRecord(
            position: position, recordedAt: recordedAt, occurredAt: occurredAt, environment: environment,
            source: source, type: type, originalTransactionID: originalTransactionID, transactionID: transactionID,
            productID: productID, identity: identity, otherIdentity: otherIdentity, facts: facts,
            evidenceHash: evidenceHash, previousHash: previousHash, hash: hash,
            identityCommitments: identityCommitments)
    }
}
