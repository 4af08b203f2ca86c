package import EntitlementCore
import PostgresClient

/// The columns of an event in the order in which `EventRecord` reads them.
enum EventColumns {
    static let list = """
        position, recorded_at, occurred_at, environment, source, type, original_transaction_id, transaction_id,
        product_id, identity, other_identity, facts, evidence_sha256, previous_hash, hash, identity_commitments
        """

    /// The same, each with the name of its table before it.
    static func list(of table: String) -> String {
        list.split(whereSeparator: { $0 == "," || $0.isWhitespace }).map { "\(table).\($0)" }.joined(separator: ", ")
    }
}

extension EventRecord {
    init(_ row: PostgresRow) throws {
        self.init(
            position: try row.int(0), recordedAt: try row.instant(1),
            occurredAt: try row.optionalInstant(2),
            environment: try row.optionalInt(3).map { try StoreEnvironment(stored: $0) },
            source: try EventSource(stored: row.int(4)), type: try row.text(5),
            originalTransactionID: try row.optionalText(6), transactionID: try row.optionalText(7),
            productID: try row.optionalText(8), identity: try row.optionalInt(9).map { IdentityRef($0) },
            otherIdentity: try row.optionalInt(10).map { IdentityRef($0) }, facts: try row.bytes(11),
            evidenceHash: try row.isNull(12) ? nil : row.digest(12), previousHash: try row.digest(13),
            hash: try row.digest(14), identityCommitments: try IdentityCommitment.read(row.optionalBytes(15)))
    }
}

/// An event as it is shown: with the customer its identity stands for, where that is still known.
package struct ShownEvent: Sendable {
    package let record: EventRecord
    package let fact: LedgerFact
    package let customerID: String?
}

/// A page of the log.
package struct EventPage: Sendable {
    package let events: [ShownEvent]
    package let hasMore: Bool
    /// The position to ask for the next page with.
    package let nextAfter: Int64
}

/// The end of the log and how far each projection has come.
package struct LedgerStatus: Sendable {
    package struct Projection: Sendable {
        package let name: String
        package let checkpoint: Int64
        package let version: Int64
    }

    package let position: Int64
    package let recordedAt: Timestamp
    package let hash: Digest
    package let projections: [Projection]

    /// Those that claim to have gone further than the log does: they were made from another one.
    package var projectionsBeyondLog: [Projection] { projections.filter { $0.checkpoint > position } }
}
