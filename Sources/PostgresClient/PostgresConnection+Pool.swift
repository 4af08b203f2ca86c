private import CLibPQ
private import Glibc

extension PostgresConnection {
    /// What became of a connection that the pool lent.
    enum Use<Value: Sendable>: Sendable {
        /// The session had ended while idle; nothing was run.
        case stale
        case finished(Result<Value, any Error>, reusable: Bool)
    }

    /// Runs `body`, unless the server has meanwhile closed the session, and says whether the next user can have it.
    func use<Value: Sendable>(_ body: @Sendable (isolated PostgresConnection) throws -> Value) -> Use<Value> {
        guard isAlive() else { return .stale }
        let result = Result { try body(self) }
        // A transaction left open by hand must not leak into the next use.
        if !isBroken, isInTransaction { try? execute(script: "ROLLBACK") }
        return .finished(result, reusable: !isBroken && !isInTransaction)
    }

    /// Looks at the socket: an idle session has nothing to say, unless it ended or a notice came.
    private func isAlive() -> Bool {
        if isBroken { return false }
        var socket = pollfd(fd: PQsocket(pointer), events: Int16(POLLIN), revents: 0)
        // The server's farewell comes first, the end of the stream after it.
        while poll(&socket, 1, 0) > 0 {
            if PQconsumeInput(pointer) == 0 { return false }
        }
        return !isBroken
    }
}
