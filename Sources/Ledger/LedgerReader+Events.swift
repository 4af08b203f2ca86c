package import EntitlementCore
import PostgresClient

/// How a customer is looked up by what a statement says.
package enum CustomerLookup: Sendable, Hashable {
    case transactionID(String)
    case appAccountToken(String)
    case appTransactionID(String)
}

extension LedgerReader {
    /// The most events one page holds.
    package static let pageLimit = 1000

    /// The log after a position, in order.
    package func events(after: Int64, limit: Int) async throws -> EventPage {
        try await page(
            """
            SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position > $2
            ORDER BY position LIMIT $3
            """, [.int(ledgerID), .int(after)], after: after, limit: limit)
    }

    /// The events whose statement is this customer's, in order.
    package func events(
        of customer: CustomerID, environment: StoreEnvironment, after: Int64, limit: Int
    ) async throws -> EventPage {
        try await page(
            """
            SELECT \(EventColumns.list) FROM event
            WHERE ledger_id = $1 AND position > $2 AND (environment = $4 OR environment IS NULL)
                AND identity = (SELECT identity FROM identity WHERE ledger_id = $1 AND value = $5)
            ORDER BY position LIMIT $3
            """, [.int(ledgerID), .int(after)], after: after, limit: limit,
            more: [.text(environment.rawValue), .text(customer.value)])
    }

    /// One event and its evidence, which is `nil` where none was given or it was erased; `nil` for no such position.
    package func event(at position: Int64) async throws -> (event: ShownEvent, evidence: [UInt8]?)? {
        try await read { connection in
            let row = try connection.query(
                "SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position = $2",
                [.int(ledgerID), .int(position)]
            ).first
            guard let row else { return nil }
            let shown = try Self.shown([EventRecord(row)], on: connection)
            let parts = try connection.query(
                "SELECT parts FROM evidence WHERE ledger_id = $1 AND position = $2", [.int(ledgerID), .int(position)]
            ).first?.bytes(0)
            guard let parts else { return (shown[0], nil) }
            let names = try EvidenceParts.headerNames(in: parts)
            let stored = try connection.query(
                "SELECT sha256, header FROM jws_header WHERE ledger_id = $1 AND sha256 = ANY($2)",
                [.int(ledgerID), .bytesArray(names.map(\.bytes))])
            var headers: [Digest: [UInt8]] = [:]
            for row in stored.rows { headers[try row.digest(0)] = try row.bytes(1) }
            return (shown[0], try EvidenceParts.assemble(parts, headers: headers))
        }
    }

    /// The customers whose statements bear what is asked for, in the order of their ids.
    package func customers(_ lookup: CustomerLookup) async throws -> [CustomerMatch] {
        let condition: String
        let value: String
        switch lookup {
        case .transactionID(let id):
            // Both environments are named so that the index on original transactions serves.
            condition = """
                event.transaction_id = $2 OR event.environment = ANY (ARRAY['production', 'sandbox'])
                AND event.original_transaction_id = $2
                """
            value = id
        case .appAccountToken(let token):
            guard let customer = CustomerID(token) else { return [] }
            condition = "event.identity = (SELECT identity FROM identity WHERE ledger_id = $1 AND value = $2)"
            value = customer.value
        case .appTransactionID(let id):
            guard let customer = CustomerID.ofAppTransaction(id) else { return [] }
            condition = """
                event.identity = (SELECT identity FROM identity WHERE ledger_id = $1 AND value = $2)
                OR event.other_identity = (SELECT identity FROM identity WHERE ledger_id = $1 AND value = $2)
                """
            value = customer.value
        }
        return try await read { connection in
            let result = try connection.query(
                """
                SELECT DISTINCT identity.value, event.environment, event.original_transaction_id
                FROM event JOIN identity ON identity.ledger_id = event.ledger_id AND identity.identity = event.identity
                WHERE event.ledger_id = $1 AND event.environment IS NOT NULL
                    AND event.original_transaction_id IS NOT NULL AND (\(condition))
                ORDER BY 1, 2, 3 LIMIT 1000
                """, [.int(ledgerID), .text(value)])
            return try result.rows.map {
                CustomerMatch(
                    customerID: try $0.text(0), environment: try StoreEnvironment(stored: $0.text(1)),
                    originalTransactionID: try $0.text(2))
            }
        }
    }

    private func page(
        _ sql: String, _ parameters: [PostgresValue], after: Int64, limit: Int, more: [PostgresValue] = []
    ) async throws -> EventPage {
        let limit = min(max(limit, 1), Self.pageLimit)
        return try await read { connection in
            let rows = try connection.query(sql, parameters + [.int(Int64(limit + 1))] + more).rows
            let records = try rows.prefix(limit).map { try EventRecord($0) }
            return EventPage(
                events: try Self.shown(records, on: connection), hasMore: rows.count > limit,
                nextAfter: records.last?.position ?? after)
        }
    }

    private static func shown(
        _ records: [EventRecord], on connection: isolated PostgresConnection
    ) throws -> [ShownEvent] {
        let customers = try Statements.customerIDs(of: records.compactMap(\.identity), on: connection)
        return try records.map { record in
            ShownEvent(
                record: record, fact: try FactCodec.decode(record.facts),
                customerID: record.identity.flatMap { customers[$0] })
        }
    }
}

/// A customer, and the original transaction through which they were found.
package struct CustomerMatch: Sendable, Hashable {
    package let customerID: String
    package let environment: StoreEnvironment
    package let originalTransactionID: String
}
