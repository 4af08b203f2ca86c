import EntitlementCore
import PostgresClient

/// An event of a signed source, with its evidence as it was received.
struct SignedEvent: Sendable {
    let record: EventRecord
    let fact: LedgerFact
    let evidence: [UInt8]
}

/// Holds events against what their evidence says.
enum EvidenceProof {
    /// Whom the events name by number, as their evidence says it in clear, and how many pieces of evidence are signed in
    /// which way.
    ///
    /// - Throws: `VerificationDifference` at the first event that is not what its evidence says.
    static func identities(
        of events: [SignedEvent], by derive: @escaping EvidenceDerivation
    ) async throws -> (named: [NamedIdentity], signatures: [EvidenceSignature: Int64]) {
        let part = max(1, (events.count + parts - 1) / parts)
        return try await withThrowingTaskGroup(of: (Int, [Checked]).self) { group in
            for start in stride(from: 0, to: events.count, by: part) {
                group.addTask {
                    (start, try events[start..<min(start + part, events.count)].map { try check($0, by: derive) })
                }
            }
            var found: [Int: [Checked]] = [:]
            for try await (start, checked) in group { found[start] = checked }
            let all = found.sorted { $0.key < $1.key }.flatMap(\.value)
            return (all.flatMap(\.named), Dictionary(all.map { ($0.signature, 1) }, uniquingKeysWith: +))
        }
    }

    private struct Checked: Sendable {
        let named: [NamedIdentity]
        let signature: EvidenceSignature
    }

    /// Parts that are worked on at once; there is one thread for each core.
    private static let parts = 16

    private static func check(_ event: SignedEvent, by derive: EvidenceDerivation) throws -> Checked {
        let position = event.record.position
        let derived: DerivedEvent
        do {
            derived = try derive(event.evidence, event.record, event.fact)
        } catch {
            throw VerificationDifference("evidence", "position \(position)", "does not prove its event: \(error)")
        }
        func require(_ holds: Bool, _ what: String) throws {
            guard holds else {
                throw VerificationDifference(event: position, "\(what) is not what its evidence says")
            }
        }
        try require(event.record.environment == derived.environment, "environment")
        try require(event.record.type == derived.type, "type")
        try require(event.record.occurredAt == derived.occurredAt, "occurred_at")
        let (numbers, indices) = (event.fact.identities, derived.fact.identities)
        try require(numbers.count == indices.count, "facts")
        var next = numbers.makeIterator()
        let fact = derived.fact.replacingIdentities { next.next() ?? $0 }
        try require(fact.withoutRemarks == event.fact.withoutRemarks, "facts")
        let named = zip(numbers, indices).map {
            NamedIdentity(number: $0.number, value: derived.identities[Int($1.number)], position: position)
        }
        return Checked(named: named, signature: derived.signature)
    }
}

/// An identity in clear, as the evidence of an event bears it, and the number that stands for it in the event.
struct NamedIdentity: Sendable, Hashable {
    let number: Int64
    let value: String
    let position: Int64
}

extension Verifier {
    /// Checks the signatures of a page's evidence, derives every fact again, and holds the numbers that stand for people
    /// against the identities that were signed.
    ///
    /// - Returns: how many pieces of evidence are signed in which way.
    func prove(_ events: [SignedEvent], by derive: @escaping EvidenceDerivation) async throws -> [EvidenceSignature:
        Int64]
    {
        let (named, signatures) = try await EvidenceProof.identities(of: events, by: derive)
        let numbers = Set(named.map(\.number)).sorted()
        guard !numbers.isEmpty else { return signatures }
        let known = try await page { connection in
            try connection.query(
                "SELECT identity, value FROM identity WHERE ledger_id = $1 AND identity = ANY($2)",
                [.int(ledgerID), .intArray(numbers)]
            ).rows.map { (try $0.int(0), try $0.text(1)) }
        }
        let values = Dictionary(known) { first, _ in first }
        // One that is not there was forgotten, or is reported as missing.
        for identity in named {
            guard let value = values[identity.number], ExactText(value) != ExactText(identity.value) else { continue }
            throw VerificationDifference(
                event: identity.position, "names identity \(identity.number), which is not whom its evidence names")
        }
        return signatures
    }
}

extension LedgerFact {
    /// The fact without what was odd about it when it came.
    fileprivate var withoutRemarks: LedgerFact {
        switch self {
        case .notification(var fact):
            fact.remarks = []
            return .notification(fact)
        case .statements(var fact):
            fact.remarks = []
            return .statements(fact)
        case .web(var fact):
            fact.remarks = []
            return .web(fact)
        case .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift, .forgetting,
            .catalog, .access, .storeRequest:
            return self
        }
    }
}
