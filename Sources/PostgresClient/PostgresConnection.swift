private import CLibPQ

/// One session with a PostgreSQL server.
///
/// Its methods are synchronous and block: they run on a queue of the connection's own. Work is a closure on that queue,
/// so that a transaction can never be suspended half-way:
/// ```swift
/// let count = try await connection.run { connection in
///     try connection.transaction { try $0.query("SELECT count(*) FROM event").first?.int(0) }
/// }
/// ```
package actor PostgresConnection {
    private let executor: QueueExecutor
    private let handle: ConnectionHandle
    private let options: ConnectionOptions
    /// Why the session is not to be used any more, whatever libpq says of it.
    private var givenUpFor: PostgresError?
    var statements: StatementCache
    var planAge = PlanAge()
    /// Memory of copied rows, to be used again.
    var spareMemory: [[UInt8]] = []

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Connects to a server named by a `postgresql://` URL or by `keyword=value` pairs.
    ///
    /// Throws kind `connection`; the message never holds the password. The session closes when the last reference goes.
    package static func connect(
        _ conninfo: String, options: ConnectionOptions = ConnectionOptions()
    ) async throws(PostgresError) -> PostgresConnection {
        let executor = QueueExecutor(label: "postgres connection")
        let connection = try await executor.run { () throws(PostgresError) in
            try PostgresConnection(conninfo: conninfo, options: options, executor: executor)
        }
        try await connection.execute(script: options.sessionScript)
        return connection
    }

    /// Whether a server says that it takes no connections for now (57P03): it starts, recovers or stops.
    ///
    /// A connection that failed does not tell: libpq gives no SQLSTATE of it, and the server's words are in its language.
    /// Throws where the conninfo cannot be read.
    package static func isRefusedForNow(
        _ conninfo: String, options: ConnectionOptions = ConnectionOptions()
    ) async throws(PostgresError) -> Bool {
        try await QueueExecutor(label: "postgres ping").run { () throws(PostgresError) in
            try ConnectionHandle.isRefusedForNow(conninfo: conninfo, options: options)
        }
    }

    private init(conninfo: String, options: ConnectionOptions, executor: QueueExecutor) throws(PostgresError) {
        self.executor = executor
        handle = try ConnectionHandle(conninfo: conninfo, options: options)
        self.options = options
        statements = StatementCache(limit: options.statementCacheLimit)
    }

    /// Runs `body` on the connection's queue.
    package func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) throws -> Value { try body(self) }

    /// The libpq handle, for this module's other files only.
    var pointer: OpaquePointer { handle.pointer }

    /// Such as `150018`.
    package var serverVersion: Int { Int(PQserverVersion(pointer)) }
    /// The server process that holds this session.
    package var serverProcessID: Int { Int(PQbackendPID(pointer)) }
    /// How the server is reached.
    package var transport: Transport { Transport(of: pointer) }
    /// Whether the connection is known to be gone; a new one must be made.
    package var isBroken: Bool {
        givenUpFor != nil || PQstatus(pointer) == CONNECTION_BAD || PQpipelineStatus(pointer) != PQ_PIPELINE_OFF
    }
    package var isInTransaction: Bool { PQtransactionStatus(pointer) != PQTRANS_IDLE }
}

extension PostgresConnection {
    /// Runs one statement with `$1`… parameters, prepared on first use.
    ///
    /// A statement that went stale (a migration ran, a pooler discarded it) is prepared anew and run again, unless it
    /// stands in a transaction, which only its owner can start over.
    @discardableResult
    package func query(_ sql: String, _ parameters: [PostgresValue] = []) throws(PostgresError) -> PostgresResult {
        let buffer = try ParameterBuffer(parameters)
        try dropOrphans()
        let wasIdle = !isInTransaction
        do throws(PostgresError) {
            return try runPrepared(sql, buffer)
        } catch {
            guard error.kind == .stalePlan, wasIdle else { throw error }
            try dropOrphans()
            return try runPrepared(sql, buffer)
        }
    }

    /// Runs SQL of any number of statements, without parameters, in one implicit transaction unless it has its own.
    package func execute(script: String) throws(PostgresError) {
        try run(script: script)
    }

    /// Runs SQL, and returns the result of the last statement.
    @discardableResult
    func run(script: String) throws(PostgresError) -> PostgresResult {
        try sent(PQsendQuery(pointer, script), PostgresStatement.label(of: script))
        return try checked(lastResult(), PostgresStatement.label(of: script))
    }

    private func runPrepared(_ sql: String, _ buffer: ParameterBuffer) throws(PostgresError) -> PostgresResult {
        let name = try prepare(StatementCache.Key(sql: sql, types: buffer.types))
        let sending = buffer.withPointers { count, _, values, lengths, formats in
            PQsendQueryPrepared(pointer, name, count, values, lengths, formats, 1)
        }
        try sent(sending, PostgresStatement.label(of: sql))
        return try checked(lastResult(), PostgresStatement.label(of: sql))
    }

    private func prepare(_ key: StatementCache.Key) throws(PostgresError) -> String {
        if let name = statements.name(of: key) { return name }
        try makeRoom(for: 1, sparing: [])
        let name = statements.newName(of: key)
        try sent(
            PQsendPrepare(pointer, name, key.sql, Int32(key.types.count), key.types),
            PostgresStatement.label(of: key.sql))
        _ = try checked(lastResult(), PostgresStatement.label(of: key.sql))
        statements.insert(key, name: name)
        return name
    }

    func makeRoom(for count: Int, sparing kept: Set<StatementCache.Key>) throws(PostgresError) {
        for victim in statements.victims(toInsert: count, sparing: kept) {
            try execute(script: "DEALLOCATE \(victim.name)")
            statements.remove(victim.key)
        }
    }

    /// Takes ownership of a result; throws unless it says success.
    ///
    /// The label is only made for an error: it costs more than a short statement's own work here.
    func checked(
        _ result: OpaquePointer?, _ label: @autoclosure () -> String
    ) throws(PostgresError) -> PostgresResult {
        guard let result else {
            throw PostgresError(connection: pointer, fallback: "the connection gave no result", statement: label())
        }
        let owned = PostgresResult(owning: result)
        let status = PQresultStatus(result)
        if status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY { return owned }
        guard status == PGRES_FATAL_ERROR else {
            throw PostgresError(
                kind: .other, message: "unexpected answer: \(String(cString: PQresStatus(status)))", statement: label())
        }
        let error = PostgresError(result: result, statement: label())
        withExtendedLifetime(owned) {}
        if error.kind == .stalePlan { statements.orphanAll() }
        // After a failover this is a session with the old server, or with one that does not write; the next one may not be.
        if error.isOfReadOnlyDatabase { givenUpFor = error }
        throw error
    }

    // MARK: - Waiting

    func nextResult() throws(PostgresError) -> OpaquePointer? {
        do throws(PostgresError) {
            return try handle.nextResult(silence: options.patience)
        } catch {
            givenUpFor = error
            throw error
        }
    }

    private func lastResult() throws(PostgresError) -> OpaquePointer? {
        do throws(PostgresError) {
            return try handle.lastResult(silence: options.patience)
        } catch {
            givenUpFor = error
            throw error
        }
    }

    /// Sends what libpq keeps because the server has not taken it yet.
    func sendAll() throws(PostgresError) {
        do throws(PostgresError) {
            try handle.sendAll(silence: options.patience)
        } catch {
            givenUpFor = error
            throw error
        }
    }

    /// Takes what libpq says of a command that was to be sent.
    func sent(_ accepted: Int32, _ label: @autoclosure () -> String) throws(PostgresError) {
        guard accepted == 1 else {
            // Whoever goes on after that is told why, and not that libpq still waits for an answer.
            if let givenUpFor { throw givenUpFor }
            throw PostgresError(connection: pointer, fallback: "the statement could not be sent", statement: label())
        }
    }

    /// Lets go of what the server may still hold under forgotten names.
    func dropOrphans() throws(PostgresError) {
        guard statements.hasOrphans, !isInTransaction else { return }
        try execute(script: "DEALLOCATE ALL")
        statements.removeAll()
    }
}
