package import EntitlementCore
import PostgresClient

/// How a customer is looked up by what a statement says.
package enum CustomerLookup: Sendable, Hashable {
    /// Also what Stripe calls a purchase, or any part of one that an event names beside it.
    case transactionID(String)
    case appAccountToken(String)
    case appTransactionID(String)
}

/// A customer, and the original transaction through which they were found.
package struct CustomerMatch: Sendable, Hashable {
    /// The one whose it is now: links, claims and transfers considered.
    package let customerID: String
    package let environment: StoreEnvironment
    package let originalTransactionID: String
}

extension LedgerReader {
    /// How often a look-up goes on after original transactions that must not be shown, and how many it reads each time
    /// at least.
    private static let lookupRounds = 20
    private static let lookupPage = 100

    /// The owners of the periods that bear what is asked for, in the order of environments and original transactions.
    ///
    /// Periods without an owner, and those of people who were forgotten, are left out.
    ///
    /// - Parameter most: of how many original transactions is told.
    /// - Returns: also whether there are more of them.
    package func customers(
        _ lookup: CustomerLookup, only scope: LogScope = .whole, most: Int = LedgerReader.pageLimit
    ) async throws -> (matches: [CustomerMatch], hasMore: Bool) {
        // Either a transaction's id, or an identity's value and how events name it.
        var transaction: String?
        var bearer: String?
        var kinds: [Int16] = []
        switch lookup {
        case .transactionID(let id):
            transaction = id
        case .appAccountToken(let token):
            guard let customer = CustomerID(token) else { return ([], false) }
            bearer = customer.value
            kinds = [NameKind.owner.rawValue, NameKind.ownership.rawValue, NameKind.report.rawValue]
        case .appTransactionID(let id):
            guard let customer = CustomerID.ofAppTransaction(id) else { return ([], false) }
            bearer = customer.value
            kinds = [
                NameKind.owner.rawValue, NameKind.besideToken.rawValue, NameKind.ownership.rawValue,
                NameKind.report.rawValue,
            ]
        }
        return try await read { [transaction, bearer, kinds] connection in
            let position = try Statements.headPosition(on: connection)
            let asked = try bearer.flatMap { value in
                let statement = Statements.identity(of: value)
                return try connection.query(statement.sql, statement.parameters).first.map {
                    IdentityRef(try $0.int(0))
                }
            }
            let page = max(most, Self.lookupPage)
            var told: [OriginalKey: [CustomerMatch]] = [:]
            var last: OriginalKey?
            var hasMore = true
            // Matches that are not shown (other apps' purchases, and those without an owner) must not use up the limit.
            for _ in 0..<Self.lookupRounds where hasMore && told.count <= most {
                let found = try connection.query(
                    """
                    SELECT environment, original FROM (
                        SELECT environment, original_transaction_id FROM event
                        WHERE ledger_id = $1 AND transaction_id = $2 AND transaction_id <> original_transaction_id
                            AND environment = ANY ($5)
                        UNION
                        SELECT key.environment, $2 FROM unnest($5::smallint[]) AS key (environment)
                        CROSS JOIN LATERAL (
                            SELECT FROM event WHERE ledger_id = $1 AND event.environment = key.environment
                                AND original_transaction_id = $2 LIMIT 1) AS known
                        UNION
                        SELECT environment, original_transaction_id FROM event_name
                        WHERE ledger_id = $1 AND environment = ANY ($5) AND kind = ANY ($4)
                            AND original_transaction_id <> ''
                            AND identity = (SELECT identity FROM identity WHERE ledger_id = $1 AND value = $3)
                        UNION
                        SELECT event.environment, event.original_transaction_id FROM event_name AS part
                        \(Statements.search(
                            """
                            SELECT environment, original_transaction_id FROM event
                            WHERE event.ledger_id = $1 AND event.position = part.position
                            """, as: "event"))
                        WHERE part.ledger_id = $1 AND part.identity = \(EventName.nobody.number)
                            AND part.environment = ANY ($5) AND part.kind = \(NameKind.part.rawValue)
                            AND part.original_transaction_id = $2
                    ) AS found (environment, original)
                    WHERE $6::smallint IS NULL OR (environment, original) > ($6, $7)
                    ORDER BY 1, 2 LIMIT \(page + 1)
                    """,
                    [
                        .int(ledgerID), .text(transaction), .text(bearer), .int2Array(kinds),
                        .int2Array(StoreEnvironment.allCases.filter { scope.holds($0) }.map(\.number)),
                        .int2(last?.environment.number), .text(last?.originalTransactionID),
                    ])
                let keys = try found.rows.map {
                    OriginalKey(
                        environment: try StoreEnvironment(stored: $0.int(0)), originalTransactionID: try $0.text(1))
                }
                let states = try StateQuery.states(of: keys, upTo: position, app: scope.app, on: connection)
                told.merge(
                    try Self.matches(lookup, bearing: asked, states, upTo: position, on: connection)
                ) { $1 }
                last = keys.last
                hasMore = keys.count > page
            }
            // In the order in which they were looked at.
            let order = told.keys.sorted { left, right in
                left.environment == right.environment
                    ? left.originalTransactionID.utf8.lexicographicallyPrecedes(right.originalTransactionID.utf8)
                    : left.environment.number < right.environment.number
            }
            let matches = order.prefix(most).flatMap { told[$0] ?? [] }.sorted {
                ($0.environment.rawValue, $0.originalTransactionID, $0.customerID)
                    < ($1.environment.rawValue, $1.originalTransactionID, $1.customerID)
            }
            return (matches, hasMore || told.count > most)
        }
    }

    /// Whose some original transactions are, of those that bear what is asked for and whose owner is known.
    private static func matches(
        _ lookup: CustomerLookup, bearing asked: IdentityRef?, _ states: [OriginalKey: OriginalState],
        upTo position: Int64, on connection: isolated PostgresConnection
    ) throws -> [OriginalKey: [CustomerMatch]] {
        var matches: [(OriginalKey, IdentityRef)] = []
        for environment in StoreEnvironment.allCases {
            let here = states.filter { $0.key.environment == environment }
            guard !here.isEmpty else { continue }
            let ownership = try OwnershipQuery.ownership(
                of: Dictionary(uniqueKeysWithValues: here.map { ($0.key.originalTransactionID, $0.value) }),
                environment, upTo: position, on: connection)
            for (key, state) in here {
                // What was bought on the web belongs to one customer, and was found by an id of its own, or of a part of it.
                if case .transactionID = lookup, let web = state.web {
                    if let owner = ownership.currentOwner(of: web) { matches.append((key, owner)) }
                    continue
                }
                let owners = state.winningStatements().filter { lookup.matches($0, of: key, bearing: asked) }
                    .compactMap { ownership.currentOwner(of: $0.fact) }
                matches += Set(owners).map { (key, $0) }
            }
        }
        let names = try Statements.customerIDs(of: matches.map(\.1), on: connection)
        var told: [OriginalKey: [CustomerMatch]] = [:]
        for (key, owner) in matches {
            guard let name = names[owner] else { continue }
            told[key, default: []].append(
                CustomerMatch(
                    customerID: name, environment: key.environment,
                    originalTransactionID: key.originalTransactionID))
        }
        return told
    }
}

extension CustomerLookup {
    /// Whether a period is one of those asked for.
    fileprivate func matches(
        _ period: (fact: TransactionFact, transactionIDs: Set<String>), of key: OriginalKey, bearing asked: IdentityRef?
    ) -> Bool {
        switch self {
        case .transactionID(let id): id == key.originalTransactionID || period.transactionIDs.contains(id)
        case .appAccountToken: period.fact.accountToken == asked
        case .appTransactionID: period.fact.appTransaction == asked
        }
    }
}
