package import EntitlementCore
import PostgresClient
import Synchronization

/// What is asked of the ledger as it stands now.
package struct LedgerQuestion: Sendable, Hashable {
    /// `nil`: nobody's own original transactions are wanted.
    package var customer: CustomerID?
    package var environment: StoreEnvironment
    /// Original transactions wanted beside the customer's own, whoever's they are.
    package var originals: [String]
    /// Customer ids whose numbers and links are wanted too.
    package var customers: [String]

    package init(
        of customer: CustomerID?, _ environment: StoreEnvironment, originals: [String] = [], customers: [String] = []
    ) {
        self.customer = customer
        self.environment = environment
        self.originals = originals
        self.customers = customers
    }
}

/// The answer: everything that bears on a customer, and what else was asked for, as of one position.
package struct LedgerSnapshot: Sendable {
    package let position: Int64
    package let recordedAt: Timestamp
    /// Its original transactions are those in which the customer has, or had, a part, and those asked for.
    package let facts: CustomerFacts
    /// The position at which the catalog was written; 0 before any.
    package let catalogPosition: Int64
    /// The ledger's numbers for those of the customer ids asked for which it knows.
    package let identities: [ExactText: IdentityRef]

    /// A number for somebody whom the ledger does not know: nothing is theirs.
    package static let nobody = IdentityRef(0)
}

extension LedgerReader {
    /// The most conflicts that are recorded of one original transaction.
    package static let conflictLimit = 1000

    /// Who was found claiming somebody else's original transactions before, by original transaction.
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

    /// The last drifts recorded of a customer, newest first.
    package func drifts(
        of customer: CustomerID, _ environment: StoreEnvironment, limit: Int
    ) async throws -> [(fact: DriftFact, recordedAt: Timestamp)] {
        try await read { connection in
            let rows = try connection.query(
                """
                SELECT recorded_at, facts FROM event
                WHERE ledger_id = $1 AND type = 'drift' AND environment = $3
                    AND identity = (SELECT identity FROM identity WHERE ledger_id = $1 AND value = $2)
                ORDER BY position DESC LIMIT $4
                """,
                [.int(ledgerID), .text(customer.value), .text(environment.rawValue), .int(Int64(limit))]
            ).rows
            return try rows.compactMap { row in
                guard case .drift(let fact) = try FactCodec.decode(row.bytes(1)) else { return nil }
                return (fact, Timestamp(milliseconds: try row.timestamp(0)))
            }
        }
    }

    /// Answers from one position: one round trip, and another where somebody linked, claimed or transferred something.
    package func snapshot(_ question: LedgerQuestion) async throws -> LedgerSnapshot {
        try await read { connection in
            var bound = newest.bound
            while true {
                if let snapshot = try snapshot(question, bound: bound, on: connection) { return snapshot }
                bound = newest.bound
            }
        }
    }

    /// The same while the log ends at or before `bound`, which spares the database the partitions after it; else `nil`.
    private func snapshot(
        _ question: LedgerQuestion, bound: Int64, on connection: isolated PostgresConnection
    ) throws -> LedgerSnapshot? {
        let environment = question.environment
        let own = question.customer?.value
        let values = [own].compactMap(\.self) + question.customers
        // The head is read first, and the log only grows: what came after it is left out below.
        let results = try connection.pipeline([
            Statements.headAndCatalog,
            Statements.identities(of: values),
            OwnershipQuery.words(about: values, environment, bound: bound),
            StateQuery.latest(of: own, and: question.originals, environment, bound: bound),
        ])
        guard let head = results[0].first else { throw Statements.missingHead }
        let position = try head.int(0)
        newest.saw(position)
        guard position <= bound else { return nil }
        let catalogPosition = try head.optionalInt(2)
        let catalog = try catalogs.catalog(writtenAt: catalogPosition, on: connection)
        var identities: [ExactText: IdentityRef] = [:]
        for row in results[1].rows { identities[ExactText(try row.text(0))] = IdentityRef(try row.int(1)) }
        var words = try results[2].rows.map { try OwnershipQuery.Word($0) }
        var latest = results[3]
        if words.contains(where: \.isLink) {
            let connected = OwnershipQuery.words(ofCustomers: values, environment, upTo: position)
            words = try connection.query(connected.sql, connected.parameters).rows.map { try OwnershipQuery.Word($0) }
            let theirs = StateQuery.latest(
                ofConnected: own, and: question.originals, environment, bound: bound)
            latest = try connection.query(theirs.sql, theirs.parameters)
        }
        let states = try StateQuery.states(from: latest, upTo: position, on: connection)
        let disputed = states.filter(\.value.hasOwnershipWords).map(\.key.originalTransactionID)
        if !disputed.isEmpty {
            let more = OwnershipQuery.words(onOriginals: disputed, environment, upTo: position)
            words += try connection.query(more.sql, more.parameters).rows.map { try OwnershipQuery.Word($0) }
        }
        words.removeAll { $0.position > position }
        let ownership = OwnershipMap(words)
        let customer = own.flatMap { identities[ExactText($0)] } ?? LedgerSnapshot.nobody
        return LedgerSnapshot(
            position: position, recordedAt: Timestamp(milliseconds: try head.timestamp(1)),
            facts: CustomerFacts(
                customer: ownership.customer(of: customer),
                originals: Dictionary(uniqueKeysWithValues: states.map { ($0.key.originalTransactionID, $0.value) }),
                grants: Array(GrantBook(words).grants.values), ownership: ownership, catalog: catalog),
            catalogPosition: catalogPosition ?? 0, identities: identities)
    }
}

extension OwnershipQuery.Word {
    fileprivate var isLink: Bool {
        if case .link = fact { true } else { false }
    }
}

/// The end of the log as this process has seen it, which says how far a read has to look.
final class NewestPosition: Sendable {
    /// How far the log may grow between two reads before one of them has to look twice.
    private static let margin: Int64 = 1_000_000

    private let position = Mutex<Int64>(0)

    var bound: Int64 { position.withLock { $0 } + Self.margin }

    func saw(_ seen: Int64) { position.withLock { $0 = max($0, seen) } }
}
