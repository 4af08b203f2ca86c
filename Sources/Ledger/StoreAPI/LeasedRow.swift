import PostgresClient

/// A row of work that one process holds at a time.
///
/// It is taken, shows signs of life, is changed by its holder alone, and is let go. Times are the database's own.
///
/// In its statements `$1` is the ledger, then come the columns that name the row, then the holder, then the values.
struct LeasedRow: Sendable {
    private let pool: PostgresPool
    private let table: String
    private let key: [(column: String, value: PostgresValue)]
    private let holder: String
    private let work: String

    /// - Parameters:
    ///   - key: the columns that name the row beside `ledger_id`.
    ///   - holder: a name that no other process has.
    ///   - work: what the holder does, such as `reading Stripe's list of events`.
    init(
        _ pool: PostgresPool, _ table: String, _ key: [(column: String, value: PostgresValue)], holder: String,
        work: String
    ) {
        self.pool = pool
        self.table = table
        self.key = key
        self.holder = holder
        self.work = work
    }

    /// Takes the row, which is made where there is none.
    ///
    /// - Parameter columns: what is read of it, after a first one that says nothing.
    /// - Returns: `nil` where another process holds it.
    func take(_ columns: String, on connection: isolated PostgresConnection) throws -> PostgresRow? {
        let names = (["ledger_id"] + key.map(\.column)).joined(separator: ", ")
        let places = (1...key.count + 1).map { "$\($0)" }.joined(separator: ", ")
        let named = [.int(ledgerID)] + key.map(\.value)
        try connection.query("INSERT INTO \(table) (\(names)) VALUES (\(places)) ON CONFLICT DO NOTHING", named)
        let row = try connection.query(
            """
            SELECT holder IS NOT NULL AND holder <> \(holderPlace)
                AND \(Lease.isFresh("heartbeat_at", "$\(key.count + 3)")), \(columns)
            FROM \(table) WHERE \(isNamed) FOR UPDATE
            """, named + [.text(holder), .double(Lease.seconds)]
        ).row(0)
        if try row.bool(0) { return nil }
        try connection.query(
            "UPDATE \(table) SET holder = \(holderPlace), heartbeat_at = clock_timestamp() WHERE \(isNamed)",
            named + [.text(holder)])
        return row
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
                "heartbeat_at = clock_timestamp()" + (assignments.isEmpty ? "" : ", ") + assignments, values,
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
        _ = try await update("holder = NULL" + (assignments.isEmpty ? "" : ", ") + assignments, values)
    }

    private func update(
        _ assignments: String, _ values: [PostgresValue], from place: [(column: String, value: PostgresValue)] = [],
        restingOn ends: Set<EventMark> = []
    ) async throws -> Bool {
        var conditions = [isNamed, "holder = \(holderPlace)"]
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

    private var holderPlace: String { "$\(key.count + 2)" }
}
