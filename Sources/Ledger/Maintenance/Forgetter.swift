package import EntitlementCore
package import PostgresClient

/// Erases who somebody is, and the evidence that says so; the events, and with them every hash, stay.
///
/// A person is a customer with every alias that links lead from. Erased are their ids and account tokens, the app
/// transaction ids that no other customer's statements bear, and the evidence of every event that names one of these
/// or may: one that names nobody, but is about one of their original transactions or holds such an id. What
/// happened is itself an event, in the same commit. Whoever appends next finds none of these ids: a later statement of the same person begins anew.
///
/// It needs a role that may delete evidence: the owner's.
package struct Forgetter: Sendable {
    private let pool: PostgresPool
    private let now: @Sendable () -> Timestamp

    /// `pool` logs in as the owner of the tables.
    package init(pool: PostgresPool, now: @escaping @Sendable () -> Timestamp) {
        self.pool = pool
        self.now = now
    }

    /// What forgetting this customer would erase now; `nil` for a customer the ledger does not know.
    package func preview(_ customer: CustomerID) async throws -> ForgettingScope? {
        try await run { connection in
            try connection.transaction(.readCommittedReadOnly) { connection in
                try connection.goByIndex()
                return try ForgettingScope(of: customer, on: connection)
            }
        }
    }

    /// Forgets a customer for good; `nil`, and nothing is written, for one the ledger does not know.
    package func forget(_ customer: CustomerID) async throws -> ForgettingOutcome? {
        let now = now()
        guard let before = try await preview(customer) else { return nil }
        // An idempotency key is the sender's own text and may name anybody. It is worth nothing by now, or belongs to
        // somebody who is about to be unknown. On its own, because appends take these rows after the head.
        _ = try await run { connection in
            try connection.query(
                "DELETE FROM command_key WHERE ledger_id = $1 AND position = ANY($2)",
                [.int(ledgerID), .intArray(before.positions)])
        }
        return try await run { connection in
            do {
                try connection.execute(script: "BEGIN ISOLATION LEVEL READ COMMITTED")
                try connection.goByIndex()
                return try Self.forget(customer, now: now, on: connection)
            } catch {
                // If even this fails the connection is broken, and the server rolls back by itself.
                if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
                throw error
            }
        }
    }

    private static func forget(
        _ customer: CustomerID, now: Timestamp, on connection: isolated PostgresConnection
    ) throws -> ForgettingOutcome? {
        let lock = AppendRead.lockHead
        guard let row = try connection.query(lock.sql, lock.parameters).first else { throw Statements.missingHead }
        // Once more under the lock: nobody can append anything of this customer between looking and erasing.
        guard let scope = try ForgettingScope(of: customer, on: connection) else {
            try connection.execute(script: "COMMIT")
            return nil
        }
        let context = AppendContext(
            head: try LedgerHead(row),
            identities: Dictionary(uniqueKeysWithValues: scope.identities.map { (ExactText($0.ref.name), $0.ref) }))
        let plan = AppendPlan(scope.drafts.map { PreparedEvent($0) }, context: context, now: now)
        try AppendWrite.run(
            plan,
            and: [
                PostgresStatement(
                    "DELETE FROM identity WHERE ledger_id = $1 AND identity = ANY($2)",
                    [.int(ledgerID), .intArray(scope.identities.map(\.ref.number))]),
                PostgresStatement(
                    """
                    DELETE FROM evidence USING unnest($2::bigint[]) AS erased (position)
                    WHERE evidence.ledger_id = $1 AND evidence.position = erased.position
                    """,
                    [.int(ledgerID), .intArray(scope.evidencePositions)]),
            ], on: connection)
        return ForgettingOutcome(
            positions: plan.events.map(\.position), identities: scope.identities.count,
            evidence: scope.evidencePositions.count, sharedAppTransactions: scope.sharedAppTransactions.count)
    }

    private func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        do {
            return try await pool.withConnection(body)
        } catch let error as PostgresError where error.kind == .insufficientPrivilege {
            throw LedgerError(
                .invalid, "this role may not erase identities and evidence: forgetting takes the role that owns them")
        } catch {
            throw LedgerError(error, doing: "forgetting a customer")
        }
    }
}

/// What was forgotten.
package struct ForgettingOutcome: Sendable, Hashable {
    /// The events that say so; nearly always one.
    package let positions: [Int64]
    /// Ids that were erased.
    package let identities: Int
    /// Pieces of evidence that were erased.
    package let evidence: Int
    /// App transaction ids that stay, because statements of other customers bear them too.
    package let sharedAppTransactions: Int
}
