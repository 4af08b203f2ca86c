package import EntitlementCore
import PostgresClient

/// What is asked of the ledger as it stands now.
package struct LedgerQuestion: Sendable, Hashable {
    package var customer: CustomerID
    package var environment: StoreEnvironment
    /// Original transactions wanted beside the customer's own, whoever's they are.
    package var originals: [String]
    /// Customer ids whose numbers and links are wanted too.
    package var customers: [String]

    package init(
        of customer: CustomerID, _ environment: StoreEnvironment, originals: [String] = [], customers: [String] = []
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
    /// The ledger's numbers for those of the customer ids asked for which it knows.
    package let identities: [String: IdentityRef]

    /// A number for somebody whom the ledger does not know: nothing is theirs.
    package static let nobody = IdentityRef(0)
}

extension LedgerReader {
    /// Answers from one snapshot: one round trip, and a second one where something was claimed or transferred.
    package func snapshot(_ question: LedgerQuestion) async throws -> LedgerSnapshot {
        try await read { connection in
            let environment = question.environment
            let values = [question.customer.value] + question.customers
            let results = try connection.pipeline([
                PostgresStatement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
                Statements.headAndCatalog,
                Statements.identities(of: values),
                OwnershipQuery.words(ofCustomers: values, environment, upTo: .max),
                StateQuery.latest(of: question.customer.value, and: question.originals, environment),
                PostgresStatement("COMMIT"),
            ])
            guard let head = results[1].first else { throw Statements.missingHead }
            let position = try head.int(0)
            let catalog = try catalogs.catalog(writtenAt: head.optionalInt(2), on: connection)
            var identities: [String: IdentityRef] = [:]
            for row in results[2].rows { identities[try row.text(0)] = IdentityRef(try row.int(1)) }
            var words = try results[3].rows.map { try OwnershipQuery.Word($0) }
            let disputed = try results[4].rows.filter { try $0.bool(6) }.map { try $0.text(1) }
            if !disputed.isEmpty {
                // The log only grows, so up to a position it reads the same outside the snapshot.
                let more = OwnershipQuery.words(onOriginals: disputed, environment, upTo: position)
                words += try connection.query(more.sql, more.parameters).rows.map { try OwnershipQuery.Word($0) }
            }
            let states = try StateQuery.states(from: results[4], upTo: position, on: connection)
            let ownership = OwnershipMap(words)
            let customer = identities[question.customer.value] ?? LedgerSnapshot.nobody
            return LedgerSnapshot(
                position: position, recordedAt: Timestamp(milliseconds: try head.timestamp(1)),
                facts: CustomerFacts(
                    customer: ownership.customer(of: customer),
                    originals: Dictionary(
                        uniqueKeysWithValues: states.map { ($0.key.originalTransactionID, $0.value) }),
                    grants: Array(GrantBook(words).grants.values),
                    ownership: ownership, catalog: catalog),
                identities: identities)
        }
    }
}
