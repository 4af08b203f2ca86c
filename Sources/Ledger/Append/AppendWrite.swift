import EntitlementCore
import PostgresClient

/// Writes what a plan decided, and commits.
enum AppendWrite {
    /// From how many events on binary `COPY` is faster than one `INSERT` for each table, although it cannot share a round
    /// trip.
    private static let copyThreshold = 24

    private static let eventColumns = """
        event (ledger_id, position, recorded_at, occurred_at, environment, source, type, original_transaction_id, \
        transaction_id, product_id, identity, other_identity, dedup_key, facts, evidence_sha256, previous_hash, hash, \
        identity_commitments)
        """
    private static let eventColumnCount = 18

    /// Writes a plan in the transaction that holds the head's lock, with `more` in the same commit.
    ///
    /// Whoever else holds the read lease is outlasted by now.
    static func run(
        _ plan: AppendPlan, and more: [PostgresStatement] = [], lease: ReadLease,
        on connection: isolated PostgresConnection
    ) throws {
        guard !plan.events.isEmpty else {
            try connection.execute(script: "COMMIT")
            return
        }
        let statements =
            try writeEvents(plan, beginning: false, on: connection) + [moveHead(plan.head, lease)] + more
        try lease.whileCommitting(to: plan.head) { () throws(PostgresError) in
            _ = try connection.pipeline(statements + [PostgresStatement("COMMIT")])
        }
    }

    /// Writes a plan that assumes a head, in a transaction of its own, and commits it if the head is there.
    ///
    /// - Parameters:
    ///   - previous: the transaction that writes the events before; its commit is waited for before the head is touched.
    ///   - isBounded: whether the commit is refused where its events are dated later, or earlier, than the database's clock
    ///     allows.
    ///   - lease: refuses the commit where another instance has it.
    ///   - mayCommit: asked last before the commit.
    /// - Throws: `NotWritten` when the events before were not committed, or `mayCommit` says no; `PostgresError` for
    ///   anything else, a head that somebody else moved or holds included. The transaction is then open or failed.
    static func runAhead(
        _ plan: AppendPlan, after previous: TransactionTurn?, isBounded: Bool, lease: ReadLease,
        mayCommit: () -> Bool, on connection: isolated PostgresConnection
    ) throws {
        var statements = try writeEvents(plan, beginning: true, on: connection)
        if let previous, !previous.isFinished {
            if !statements.isEmpty { _ = try connection.pipeline(statements) }
            statements = []
        }
        guard previous?.wait() ?? true, mayCommit() else { throw NotWritten() }
        statements += takeHead(from: plan.base, to: plan.head, isBounded: isBounded, lease)
        do {
            try lease.whileCommitting(to: plan.head) { () throws(PostgresError) in
                _ = try connection.pipeline(statements)
            }
        } catch {
            guard error.kind == .connection else { throw error }
            throw CommitInDoubt()
        }
    }

    /// Writes a plan in the transaction that holds the head's lock, takes all of it back, and commits what is left: nothing.
    static func runInVain(_ plan: AppendPlan, on connection: isolated PostgresConnection) throws {
        _ = try connection.pipeline(
            [PostgresStatement("SAVEPOINT trial")] + (try writeEvents(plan, beginning: false, on: connection))
                + [moveHead(plan.head, ReadLease()), PostgresStatement("ROLLBACK TO SAVEPOINT trial")])
        try connection.execute(script: "COMMIT")
    }

    /// Nothing was committed.
    struct NotWritten: Error {}

    /// The connection went before the commit was answered.
    struct CommitInDoubt: Error {}

    /// Writes a plan's events, and returns the statements that write the rest, which may share a round trip with others.
    ///
    /// The events come first in every transaction: whoever has inserted the first one keeps all others from its
    /// position, and nobody waits for that while holding another lock.
    private static func writeEvents(
        _ plan: AppendPlan, beginning: Bool, on connection: isolated PostgresConnection
    ) throws -> [PostgresStatement] {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
        var statements: [PostgresStatement] = []
        if plan.events.count >= copyThreshold {
            // The larger first: the memory given back last is the one taken first.
            let evidence = plan.evidence.isEmpty ? nil : evidenceRows(plan, on: connection)
            var copies = [(eventColumns, try eventRows(plan, on: connection))]
            if let evidence { copies.append(("evidence (ledger_id, position, parts)", evidence)) }
            try connection.copy(copies, after: beginning ? begin : nil)
            for (_, rows) in copies { connection.giveBack(rows) }
        } else {
            if beginning { statements.append(PostgresStatement(begin)) }
            statements.append(insertEvents(plan))
            if !plan.evidence.isEmpty { statements.append(insertEvidence(plan)) }
        }
        if !plan.newIdentities.isEmpty { statements.append(insertIdentities(plan)) }
        if !plan.newHeaders.isEmpty { statements.append(insertHeaders(plan)) }
        statements += insertNames(plan)
        if !plan.newCommands.isEmpty { statements.append(insertCommands(plan)) }
        return statements
    }

    private static func eventRows(
        _ plan: AppendPlan, on connection: isolated PostgresConnection
    ) throws -> CopyRows {
        var rows = connection.makeRows(
            columns: eventColumnCount, capacity: plan.events.reduce(0) { $0 + $1.facts.count + 400 })
        for (event, dedupKey) in zip(plan.events, plan.dedupKeys) {
            rows.beginRow()
            rows.int4(Int32(ledgerID))
            rows.int8(event.position)
            try rows.timestamp(event.recordedAt.milliseconds)
            try rows.timestamp(event.occurredAt?.milliseconds)
            rows.int2(event.environment?.number)
            rows.int2(event.source.number)
            try rows.text(event.type)
            try rows.text(event.originalTransactionID)
            try rows.text(event.transactionID)
            try rows.text(event.productID)
            rows.int8(event.identity?.number)
            rows.int8(event.otherIdentity?.number)
            rows.bytes(dedupKey?.bytes)
            rows.bytes(event.facts)
            rows.bytes(event.evidenceHash?.bytes)
            rows.bytes(event.previousHash.bytes)
            rows.bytes(event.hash.bytes)
            rows.bytes(IdentityCommitment.column(event.identityCommitments))
        }
        return rows
    }

    private static func evidenceRows(_ plan: AppendPlan, on connection: isolated PostgresConnection) -> CopyRows {
        var rows = connection.makeRows(columns: 3, capacity: plan.evidence.reduce(0) { $0 + $1.parts.count + 32 })
        for (position, parts) in plan.evidence {
            rows.beginRow()
            rows.int4(Int32(ledgerID))
            rows.int8(position)
            rows.bytes(parts)
        }
        return rows
    }

    private static func insertEvents(_ plan: AppendPlan) -> PostgresStatement {
        let events = plan.events
        return PostgresStatement(
            """
            INSERT INTO \(eventColumns)
            SELECT $1, * FROM unnest(
                $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::smallint[], $6::smallint[], $7::text[],
                $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bytea[], $14::bytea[],
                $15::bytea[], $16::bytea[], $17::bytea[], $18::bytea[])
            """,
            [
                .int4(Int32(ledgerID)), .intArray(events.map(\.position)),
                .timestampArray(events.map(\.recordedAt.milliseconds)),
                .timestampArray(events.map { $0.occurredAt?.milliseconds }),
                .int2Array(events.map { $0.environment?.number }), .int2Array(events.map(\.source.number)),
                .textArray(events.map(\.type)), .textArray(events.map(\.originalTransactionID)),
                .textArray(events.map(\.transactionID)), .textArray(events.map(\.productID)),
                .optionalIntArray(events.map { $0.identity?.number }),
                .optionalIntArray(events.map { $0.otherIdentity?.number }),
                .bytesArray(plan.dedupKeys.map { $0?.bytes }), .bytesArray(events.map(\.facts)),
                .bytesArray(events.map { $0.evidenceHash?.bytes }), .bytesArray(events.map(\.previousHash.bytes)),
                .bytesArray(events.map(\.hash.bytes)),
                .bytesArray(events.map { IdentityCommitment.column($0.identityCommitments) }),
            ])
    }

    private static func insertEvidence(_ plan: AppendPlan) -> PostgresStatement {
        PostgresStatement(
            "INSERT INTO evidence (ledger_id, position, parts) SELECT $1, * FROM unnest($2::bigint[], $3::bytea[])",
            [
                .int4(Int32(ledgerID)), .intArray(plan.evidence.map(\.position)),
                .bytesArray(plan.evidence.map(\.parts)),
            ])
    }

    private static func insertIdentities(_ plan: AppendPlan) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO identity (ledger_id, identity, salt, value)
            SELECT $1, * FROM unnest($2::bigint[], $3::bytea[], $4::text[])
            """,
            [
                .int4(Int32(ledgerID)), .intArray(plan.newIdentities.map(\.ref.number)),
                .bytesArray(plan.newIdentities.map(\.salt)), .textArray(plan.newIdentities.map(\.value.text)),
            ])
    }

    private static func insertHeaders(_ plan: AppendPlan) -> PostgresStatement {
        let headers = plan.newHeaders.sorted { $0.key < $1.key }
        return PostgresStatement(
            "INSERT INTO jws_header (ledger_id, sha256, header) SELECT $1, * FROM unnest($2::bytea[], $3::bytea[])",
            [.int4(Int32(ledgerID)), .bytesArray(headers.map(\.key.bytes)), .bytesArray(headers.map(\.value))])
    }

    /// Of names that an earlier event may have written already, only the new ones are inserted.
    private static func insertNames(_ plan: AppendPlan) -> [PostgresStatement] {
        func insert(_ names: [AppendPlan.NewName], _ condition: String) -> PostgresStatement? {
            guard !names.isEmpty else { return nil }
            return PostgresStatement(
                """
                INSERT INTO event_name (ledger_id, identity, environment, kind, original_transaction_id, position)
                SELECT $1, new.* FROM unnest($2::bigint[], $3::smallint[], $4::smallint[], $5::text[], $6::bigint[])
                    AS new (identity, environment, kind, original_transaction_id, position)
                \(condition)
                """,
                [
                    .int4(Int32(ledgerID)), .intArray(names.map(\.name.identity.number)),
                    .int2Array(names.map(\.name.environment)), .int2Array(names.map(\.name.kind.rawValue)),
                    .textArray(names.map(\.name.originalTransactionID)), .intArray(names.map(\.position)),
                ])
        }
        let uncertain = plan.newNames.filter { $0.name.kind.isFirstOnly && !$0.isOfNewIdentity }
        let certain = plan.newNames.filter { !$0.name.kind.isFirstOnly || $0.isOfNewIdentity }
        return [
            insert(certain, ""),
            insert(
                uncertain,
                """
                WHERE NOT EXISTS (
                    SELECT FROM event_name AS known WHERE known.ledger_id = $1 AND known.identity = new.identity
                        AND known.environment = new.environment AND known.kind = new.kind
                        AND known.original_transaction_id = new.original_transaction_id)
                """),
        ].compactMap(\.self)
    }

    private static func insertCommands(_ plan: AppendPlan) -> PostgresStatement {
        let commands = plan.newCommands
        return PostgresStatement(
            """
            INSERT INTO command_key (ledger_id, command_key, request_sha256, position, recorded_at, customer_sha256)
            SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::timestamptz[], $6::bytea[])
            ON CONFLICT (ledger_id, command_key) DO UPDATE SET request_sha256 = excluded.request_sha256,
                position = excluded.position, recorded_at = excluded.recorded_at, answer = NULL,
                customer_sha256 = excluded.customer_sha256
            """,
            [
                .int4(Int32(ledgerID)), .textArray(commands.map(\.key)),
                .bytesArray(commands.map(\.record.requestHash.bytes)), .intArray(commands.map(\.record.position)),
                .timestampArray(commands.map(\.record.recordedAt.milliseconds)),
                .bytesArray(commands.map { $0.customer.map(CommandKeys.hash(of:)) }),
            ])
    }

    private static func moveHead(_ head: LedgerHead, _ lease: ReadLease) -> PostgresStatement {
        PostgresStatement(
            """
            UPDATE ledger_head SET position = $2, recorded_at = $3, hash = $4, next_identity = $5,
                catalog_position = $6, \(ReadLease.setsLease(unlessOf: "$7"))
            WHERE ledger_id = $1
            """,
            [
                .int(ledgerID), .int(head.position), .timestamp(head.recordedAt.milliseconds), .bytes(head.hash.bytes),
                .int(head.nextIdentity), .int(head.catalogPosition), .int(lease.holder),
            ])
    }

    /// Moves the head if it is where it is assumed to be, and commits; else an error undoes the transaction.
    ///
    /// Nobody is waited for: whoever holds the head may be waiting for an event of this transaction.
    private static func takeHead(
        from base: LedgerHead, to head: LedgerHead, isBounded: Bool, _ lease: ReadLease
    ) -> [PostgresStatement] {
        let oldest = AheadAppend.oldestMilliseconds + LedgerClock.toleranceMilliseconds
        return [
            PostgresStatement(
                "SELECT FROM ledger_head WHERE ledger_id = $1 FOR NO KEY UPDATE NOWAIT", [.int(ledgerID)]),
            // A head that is elsewhere, dated by a clock that is wrong, or that others rely on, gets no hash, which its
            // column refuses.
            PostgresStatement(
                """
                UPDATE ledger_head SET position = $2, recorded_at = $3,
                    hash = CASE WHEN position = $7 AND hash = $8
                        AND (lease_holder IS NULL OR lease_holder = $10)
                        AND (NOT $9 OR $3 BETWEEN clock_timestamp() - interval '\(oldest) ms'
                            AND clock_timestamp() + interval '\(LedgerClock.toleranceMilliseconds) ms')
                        THEN $4 END,
                    next_identity = $5, catalog_position = $6
                WHERE ledger_id = $1
                """,
                [
                    .int(ledgerID), .int(head.position), .timestamp(head.recordedAt.milliseconds),
                    .bytes(head.hash.bytes), .int(head.nextIdentity), .int(head.catalogPosition),
                    .int(base.position), .bytes(base.hash.bytes), .bool(isBounded), .int(lease.holder),
                ]),
            PostgresStatement("COMMIT"),
        ]
    }
}
