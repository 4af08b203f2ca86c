private import Glibc

/// What a transaction sees of others, and whether it may write.
package enum TransactionMode: String, Sendable {
    case readCommitted = "ISOLATION LEVEL READ COMMITTED"
    case readCommittedReadOnly = "ISOLATION LEVEL READ COMMITTED READ ONLY"
    case repeatableReadReadOnly = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
}

extension PostgresConnection {
    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws.
    ///
    /// An error of kind `connection` from the commit leaves open whether it took place. Transactions do not nest.
    package func transaction<Value>(
        _ mode: TransactionMode = .readCommitted, _ body: (isolated PostgresConnection) throws -> Value
    ) throws -> Value {
        guard !isInTransaction else {
            throw PostgresError(kind: .other, message: "a transaction is already open on this connection")
        }
        try execute(script: "BEGIN \(mode.rawValue)")
        let value: Value
        do {
            value = try body(self)
        } catch {
            // If even this fails, the connection is broken, and the server rolls back by itself.
            if !isBroken { try? execute(script: "ROLLBACK") }
            throw error
        }
        let commit = try run(script: "COMMIT")
        // The server answers so, without an error, when a statement inside had failed and the body went on.
        guard commit.commandTag != "ROLLBACK" else {
            throw PostgresError(
                kind: .other, sqlState: "25P02", message: "rolled back: a statement in the transaction had failed",
                statement: "COMMIT")
        }
        return value
    }

    /// Blocks this connection's own queue, never one of Swift's own threads; its transaction holds what it holds meanwhile.
    package func sleep(for duration: Duration) {
        let end = ContinuousClock.now + duration
        while case let left = ContinuousClock.now.duration(to: end), left > .zero {
            usleep(UInt32(left / .microseconds(1)) + 1)
        }
    }
}
