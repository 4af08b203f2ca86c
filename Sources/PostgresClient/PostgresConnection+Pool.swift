private import CLibPQ
private import Glibc

/// When a session is to plan its statements anew: soon after it began, and then ever more rarely.
///
/// Statements are planned once. A plan made while a table was small, and before PostgreSQL had statistics of it, can search
/// an index that fits badly and be hundreds of times slower when the table has grown; PostgreSQL itself notices only at the
/// table's next ANALYZE, which may be minutes away.
struct PlanAge: Sendable {
    private static let first = Duration.seconds(1)
    private static let longest = Duration.seconds(600)

    private var interval = Self.first
    private var next = ContinuousClock.now + Self.first

    /// Whether plans are to be made anew; each time it says so, the next time is twice as far.
    mutating func isDue(at now: ContinuousClock.Instant) -> Bool {
        guard now >= next else { return false }
        interval = min(interval * 2, Self.longest)
        next = now + interval
        return true
    }
}

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
        if planAge.isDue(at: .now) {
            do {
                try execute(script: "DISCARD PLANS")
            } catch  where isBroken {
                return .finished(.failure(error), reusable: false)
            } catch {
                // The statements go on with the plans they have.
            }
        }
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
