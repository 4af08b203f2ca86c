private import CLibPQ

/// A session with a few prepared statements whose calls never wait, for the thread of an event loop.
///
/// The loop watches `descriptor`: it sends a statement, and receives its result when the descriptor is readable. Any
/// error makes the session useless; another is to be opened in its place.
///
/// Sendable without the compiler's proof: the queue that opens a session hands it over, and from then on one thread
/// alone uses it.
package final class NonblockingSession: @unchecked Sendable {
    private let handle: ConnectionHandle
    /// Each statement's name in the session, and what errors call it.
    private let statements: [(name: String, label: String)]
    /// Which statement was sent last.
    package private(set) var lastSent = 0
    private var result: PostgresResult?
    /// Whether a statement was sent whose result has not been received whole.
    package private(set) var isUnderWay = false
    /// Whether something is left to be sent once the descriptor can be written.
    package private(set) var awaitsWriting = false

    /// Connects and prepares; blocks while it does, for a bounded time.
    private init(
        _ conninfo: String, options: ConnectionOptions, preparing statements: [PostgresStatement]
    ) throws(PostgresError) {
        handle = try ConnectionHandle(conninfo: conninfo, options: options)
        let keys = try statements.map { statement throws(PostgresError) in
            StatementCache.Key(sql: statement.sql, types: try ParameterBuffer(statement.parameters).types)
        }
        self.statements = zip(keys, statements).map { ($0.name, $1.label) }
        guard PQsendQuery(handle.pointer, options.sessionScript) == 1 else { throw broken }
        _ = try checked(handle.lastResult(silence: options.patience))
        for (index, key) in keys.enumerated() {
            lastSent = index
            let name = self.statements[index].name
            guard PQsendPrepare(handle.pointer, name, key.sql, Int32(key.types.count), key.types) == 1 else {
                throw broken
            }
            _ = try checked(handle.lastResult(silence: options.patience))
        }
    }

    /// What to watch; -1 when the connection is gone.
    package var descriptor: Int32 { PQsocket(handle.pointer) }

    /// Sends a prepared statement, by its index, with parameters of the types it was prepared with.
    ///
    /// None may be under way.
    package func send(_ statement: Int, _ parameters: [PostgresValue]) throws(PostgresError) {
        lastSent = statement
        let buffer = try ParameterBuffer(parameters)
        let isSent = buffer.withPointers { count, _, values, lengths, formats in
            PQsendQueryPrepared(handle.pointer, statements[statement].name, count, values, lengths, formats, 1) == 1
        }
        guard isSent else { throw broken }
        isUnderWay = true
        try flush()
    }

    /// Takes what has come; to be called when the descriptor is ready, with or without a statement under way.
    ///
    /// - Returns: the result, once it is here whole.
    package func receive() throws(PostgresError) -> PostgresResult? {
        if awaitsWriting { try flush() }
        guard PQconsumeInput(handle.pointer) == 1 else { throw broken }
        while isUnderWay, PQisBusy(handle.pointer) == 0 {
            guard let next = PQgetResult(handle.pointer) else {
                isUnderWay = false
                defer { result = nil }
                return result
            }
            result = try checked(next)
        }
        return nil
    }

    private func flush() throws(PostgresError) {
        switch PQflush(handle.pointer) {
        case 0: awaitsWriting = false
        case 1: awaitsWriting = true
        default: throw broken
        }
    }

    private var broken: PostgresError {
        PostgresError(
            connection: handle.pointer, fallback: "the connection is gone", statement: statements[lastSent].label)
    }

    private func checked(_ result: OpaquePointer?) throws(PostgresError) -> PostgresResult {
        guard let result else { throw broken }
        let owned = PostgresResult(owning: result)
        let status = PQresultStatus(result)
        guard status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK else {
            defer { withExtendedLifetime(owned) {} }
            throw PostgresError(result: result, statement: statements[lastSent].label)
        }
        return owned
    }

    /// Opens a session on a queue of its own, so that nobody else waits for it.
    ///
    /// - Parameter statements: what is prepared; of their parameters only the types count.
    /// - Throws: kind `connection` when none could be made, else what preparing a statement threw.
    static func open(
        _ conninfo: String, options: ConnectionOptions, preparing statements: [PostgresStatement]
    ) async throws(PostgresError) -> NonblockingSession {
        try await QueueExecutor(label: "postgres session").run { () throws(PostgresError) in
            try NonblockingSession(conninfo, options: options, preparing: statements)
        }
    }
}
