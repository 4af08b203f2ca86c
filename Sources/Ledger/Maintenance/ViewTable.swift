import PostgresClient

/// The two tables of view rows: one is live, the other waits to be filled by the next rebuild.
enum ViewTable: Int64, Sendable, CaseIterable {
    case first = 0
    case second = 1

    init(stored number: Int64) throws {
        guard let table = ViewTable(rawValue: number) else {
            throw LedgerError(.corrupt, "the head row says that view table \(number) is live; there are 0 and 1")
        }
        self = table
    }

    var name: String {
        switch self {
        case .first: "original_view"
        case .second: "original_view_second"
        }
    }

    var other: ViewTable {
        switch self {
        case .first: .second
        case .second: .first
        }
    }

    /// Selects version, last position and state of the live row of `key`, in the snapshot of the statement it is part
    /// of.
    ///
    /// Which table is live is looked up once a statement, and the other one is then not touched.
    static let liveRow = allCases.map { table in
        """
        SELECT fold_version, last_position, state FROM \(table.name) AS candidate
        WHERE (SELECT live_views FROM ledger_head WHERE ledger_id = $1) = \(table.rawValue)
            AND candidate.ledger_id = $1 AND candidate.environment = key.environment
            AND candidate.original_transaction_id = key.original_transaction_id
        """
    }.joined(separator: "\nUNION ALL\n")

    /// The live table as of now; only under the head's lock does it stay so.
    static func live(on connection: isolated PostgresConnection) throws -> ViewTable {
        let row = try connection.query("SELECT live_views FROM ledger_head WHERE ledger_id = $1", [.int(ledgerID)])
            .first
        guard let row else { throw Statements.missingHead }
        return try ViewTable(stored: row.int(0))
    }
}
