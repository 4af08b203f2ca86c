import PostgresClient

/// A row of work that one process holds at a time.
///
/// It is taken, shows signs of life, is changed by its holder alone, and is let go. Times are the database's own.
///
/// In what changes it `$1` is the ledger, then come the columns that name the row, then the holder, then the values.
struct LeasedRow: Sendable {
    private let pool: PostgresPool
    private let table: String
    private let key: [(column: String, value: PostgresValue)]
    private let holder: String
    private let work: String
    private let names: Names

    /// The columns that say who holds a row, and when its holder was last heard from.
    struct Names: Sendable {
        var holder = "holder"
        var heartbeat = "heartbeat_at"
    }

    /// - Parameters:
    ///   - key: the columns that name the row beside `ledger_id`.
    ///   - holder: a name that no other process has.
    ///   - work: what the holder does, such as `reading Stripe's list of events`.
    ///   - names: where a row is of several kinds of work, with a holder each.
    init(
        _ pool: PostgresPool, _ table: String, _ key: [(column: String, value: PostgresValue)], holder: String,
        work: String, names: Names = Names()
    ) {
        self.pool = pool
        self.table = table
        self.key = key
        self.holder = holder
        self.work = work
        self.names = names
    }

    /// Takes the row, which is made where there is none, or goes on holding it.
    ///
    /// - Parameters:
    ///   - columns: what is read of it.
    ///   - first: what a row that is made now says besides.
    /// - Returns: `nil` where another process holds it.
    func take(
        _ columns: String, making first: [(column: String, value: PostgresValue)] = [],
        on connection: isolated PostgresConnection
    ) throws -> PostgresRow? {
        let named = ["ledger_id"] + key.map(\.column)
        let made = (named + [names.holder] + first.map(\.column)).joined(separator: ", ")
        let places = (1...named.count + 1 + first.count).map { "$\($0)" }.joined(separator: ", ")
        let fresh = Lease.isFresh("leased.\(names.heartbeat)", "$\(named.count + first.count + 2)")
        return try connection.query(
            """
            INSERT INTO \(table) AS leased (\(made), \(names.heartbeat)) VALUES (\(places), clock_timestamp())
            ON CONFLICT (\(named.joined(separator: ", "))) DO UPDATE
            SET \(names.holder) = excluded.\(names.holder), \(names.heartbeat) = clock_timestamp()
            WHERE leased.\(names.holder) IS NULL OR leased.\(names.holder) = excluded.\(names.holder) OR NOT (\(fresh))
            RETURNING \(columns)
            """,
            [.int(ledgerID)] + key.map(\.value) + [.text(holder)] + first.map(\.value) + [.double(Lease.seconds)]
        ).first
    }

    /// Takes the row, or goes on holding it; `false` where another process holds it.
    func hold() async throws -> Bool {
        try await pool.run(doing: work) { try take("1", on: $0) != nil }
    }

    /// Changes the row, which is a sign of life.
    ///
    /// - Parameters:
    ///   - assignments: as they stand behind `SET`.
    ///   - place: what the row says of how far the work has come. It says something else where the database has lost what was
    ///     written last, as after a failover: then the log has lost events of that work too.
    ///   - ends: where the log ended once it held what was appended, or found in it, since then. That came after the row said
    ///     what it says, so a failover may lose it and leave the row as it was.
    /// - Throws: `invalid` where another has taken over, the row says something else, or the log has lost one of `ends`.
    func change(
        _ assignments: String = "", _ values: [PostgresValue] = [],
        from place: [(column: String, value: PostgresValue)] = [], restingOn ends: Set<EventMark> = []
    ) async throws {
        guard
            try await update(
                "\(names.heartbeat) = clock_timestamp()" + (assignments.isEmpty ? "" : ", ") + assignments, values,
                from: place, restingOn: ends)
        else {
            throw LedgerError(
                .invalid,
                "another process has taken over \(work), since this one was silent too long, or the database has lost what "
                    + "this one wrote last; it goes on from what the database says")
        }
    }

    /// Lets go of the row, and changes it once more; nothing happens where another has taken over.
    func letGo(_ assignments: String = "", _ values: [PostgresValue] = []) async throws {
        _ = try await update("\(names.holder) = NULL" + (assignments.isEmpty ? "" : ", ") + assignments, values)
    }

    private func update(
        _ assignments: String, _ values: [PostgresValue], from place: [(column: String, value: PostgresValue)] = [],
        restingOn ends: Set<EventMark> = []
    ) async throws -> Bool {
        var conditions = [isNamed, "\(names.holder) = $\(key.count + 2)"]
        var parameters: [PostgresValue] = [.int(ledgerID)] + key.map(\.value) + [.text(holder)] + values
        for (column, value) in place {
            parameters.append(value)
            conditions.append("\(column) IS NOT DISTINCT FROM $\(parameters.count)")
        }
        if !ends.isEmpty {
            conditions.append(Set<EventMark>.areHeld(parameters.count + 1))
            parameters += ends.columns
        }
        let statement = PostgresStatement(
            "UPDATE \(table) SET \(assignments) WHERE \(conditions.joined(separator: " AND ")) RETURNING 1", parameters)
        return try await pool.run(doing: work) { connection in
            try connection.query(statement.sql, statement.parameters).first != nil
        }
    }

    private var isNamed: String {
        (["ledger_id"] + key.map(\.column)).enumerated().map { "\($1) = $\($0 + 1)" }.joined(separator: " AND ")
    }
}
