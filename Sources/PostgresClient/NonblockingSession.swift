private import CLibPQ

/// A session with one prepared statement whose calls never wait, for the thread of an event loop.
///
/// The loop watches `descriptor`: it sends the statement, and receives its result when the descriptor is readable. Any
/// error makes the session useless; another is to be opened in its place.
///
/// Sendable without the compiler's proof: the queue that opens a session hands it over, and from then on one thread
/// alone uses it.
package final class NonblockingSession: @unchecked Sendable {
    private static let statementName = "statement"

    private let handle: ConnectionHandle
    private let label: String
    private var result: PostgresResult?
    /// Whether a statement was sent whose result has not been received whole.
    package private(set) var isUnderWay = false
    /// Whether something is left to be sent once the descriptor can be written.
    package private(set) var awaitsWriting = false

    /// Connects and prepares; blocks while it does.
    private init(
        _ conninfo: String, options: ConnectionOptions, preparing statement: PostgresStatement
    ) throws(PostgresError) {
        handle = try ConnectionHandle(conninfo: conninfo, options: options)
        label = statement.label
        _ = try checked(PQexec(handle.pointer, options.sessionScript))
        let types = try ParameterBuffer(statement.parameters).types
        _ = try checked(PQprepare(handle.pointer, Self.statementName, statement.sql, Int32(types.count), types))
        guard PQsetnonblocking(handle.pointer, 1) == 0 else { throw broken }
    }

    /// What to watch; -1 when the connection is gone.
    package var descriptor: Int32 { PQsocket(handle.pointer) }

    /// Sends the prepared statement, with parameters of the types it was prepared with.
    ///
    /// None may be under way.
    package func send(_ parameters: [PostgresValue]) throws(PostgresError) {
        let buffer = try ParameterBuffer(parameters)
        let isSent = buffer.withPointers { count, _, values, lengths, formats in
            PQsendQueryPrepared(handle.pointer, Self.statementName, count, values, lengths, formats, 1) == 1
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
        PostgresError(connection: handle.pointer, fallback: "the connection is gone", statement: label)
    }

    private func checked(_ result: OpaquePointer?) throws(PostgresError) -> PostgresResult {
        guard let result else { throw broken }
        let owned = PostgresResult(owning: result)
        let status = PQresultStatus(result)
        guard status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK else {
            defer { withExtendedLifetime(owned) {} }
            throw PostgresError(result: result, statement: label)
        }
        return owned
    }

    /// Opens a session on a queue of its own, so that nobody else waits for it.
    ///
    /// - Parameter statement: what is prepared; of its parameters only the types count.
    /// - Throws: kind `connection` when none could be made, else what preparing the statement threw.
    static func open(
        _ conninfo: String, options: ConnectionOptions, preparing statement: PostgresStatement
    ) async throws(PostgresError) -> NonblockingSession {
        try await QueueExecutor(label: "postgres session").run { () throws(PostgresError) in
            try NonblockingSession(conninfo, options: options, preparing: statement)
        }
    }
}
