package import EntitlementCore
import PostgresClient

/// What is asked of the ledger as it stands now.
package struct LedgerQuestion: Sendable, Hashable {
    /// `nil`: nobody's own original transactions are wanted.
    package var customer: CustomerID?
    package var environment: StoreEnvironment
    /// Original transactions wanted beside the customer's own, whoever's they are.
    package var originals: [String]
    /// Customer ids whose numbers and links are wanted too.
    package var customers: [String]
    /// Customer ids whose numbers alone are wanted: nothing of them is looked at, however much there is.
    package var numbered: [String]

    package init(
        of customer: CustomerID?, _ environment: StoreEnvironment, originals: [String] = [], customers: [String] = [],
        numbered: [String] = []
    ) {
        self.customer = customer
        self.environment = environment
        self.originals = originals
        self.customers = customers
        self.numbered = numbered
    }
}

/// The answer: everything that bears on a customer, and what else was asked for, as of one position.
package struct LedgerSnapshot: Sendable {
    /// The end of the log at which everything was read.
    package let mark: EventMark
    package let recordedAt: Timestamp
    /// Its original transactions are those in which the customer has, or had, a part, and those asked for.
    package let facts: CustomerFacts
    /// The position at which the catalog was written; 0 before any.
    package let catalogPosition: Int64
    /// The ledger's numbers for those of the customer ids asked for which it knows.
    package let identities: [ExactText: IdentityRef]
    /// The customer ids asked for and everybody whom any link, in force or not, connects with them; of those whose
    /// numbers alone were wanted only they themselves.
    package let connected: Set<IdentityRef>
    /// Every link, ever made, among those, in the order of positions.
    package let links: [RecordedLink]

    /// A number for somebody whom the ledger does not know: nothing is theirs.
    package static let nobody = IdentityRef(0)

    /// The position everything rests on.
    package var position: Int64 { mark.position }

    /// When an event that is appended now is dated at the earliest: later than the clock says where that was ahead once.
    package func nextDate(now: Timestamp) -> Timestamp { AppendPlan.date(after: recordedAt, now: now) }
}

extension LedgerReader {
    /// The most conflicts that are recorded of one original transaction, until it changes hands.
    package static let conflictLimit = 1000

    /// Who was found claiming somebody else's original transactions since these last changed hands, by original transaction.
    package func conflicts(
        on originals: [String], _ environment: StoreEnvironment
    ) async throws -> [String: [IdentityRef]] {
        try await read { connection in
            let query = OwnershipQuery.conflicts(on: originals, environment)
            var claimants: [String: [IdentityRef]] = [:]
            for row in try connection.query(query.sql, query.parameters).rows {
                claimants[try row.text(0), default: []].append(IdentityRef(try row.int(1)))
            }
            return claimants
        }
    }

    /// The last drifts that devices of a customer reported, and the ends of such, newest first.
    package func drifts(
        of customer: CustomerID, _ environment: StoreEnvironment, limit: Int
    ) async throws -> [(fact: DriftFact, recordedAt: Timestamp)] {
        try await read { connection in
            let rows = try connection.query(
                """
                SELECT event.recorded_at, event.facts FROM event_name AS name
                \(Statements.search(
                    """
                    SELECT position, recorded_at, facts FROM event
                    WHERE event.ledger_id = $1 AND event.position = name.position AND event.type = 'drift'
                        AND event.source = \(EventSource.device.number)
                    """, as: "event"))
                WHERE name.ledger_id = $1 AND name.environment = $3 AND name.kind = \(NameKind.report.rawValue)
                    AND name.identity = (SELECT identity FROM identity WHERE ledger_id = $1 AND value = $2)
                ORDER BY event.position DESC LIMIT $4
                """,
                [.int(ledgerID), .text(customer.value), .int2(environment.number), .int(Int64(limit))]
            ).rows
            return try rows.compactMap { row in
                guard case .drift(let fact) = try FactCodec.decode(row.bytes(1)) else { return nil }
                return (fact, Timestamp(milliseconds: try row.timestamp(0)))
            }
        }
    }

    /// Answers from one position: one statement, and another where an original transaction was claimed or transferred.
    package func snapshot(_ question: LedgerQuestion) async throws -> LedgerSnapshot {
        try await snapshots([question])[0]
    }

    /// Answers several questions from one position and with one statement, in their order.
    package func snapshots(_ questions: [LedgerQuestion]) async throws -> [LedgerSnapshot] {
        let snapshots = try await read { try CustomerQuery.run(questions, catalogs: catalogs, on: $0) }
        if let first = snapshots.first { hear(first.recordedAt) }
        return snapshots
    }
}
