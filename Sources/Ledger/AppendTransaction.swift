import EntitlementCore
import PostgresClient

/// The one transaction that writes events: two round trips, with the fold between them.
///
/// The head row is locked first and until the commit. Each later statement sees what the holder before committed
/// (READ COMMITTED), so keys, identities and states are read under the lock. A transaction becomes visible before it
/// lets go of its locks; so whoever reads position n can read every position before it.
enum AppendTransaction {
    static func run(
        _ batch: [PreparedEvent], now: () -> Timestamp, on connection: isolated PostgresConnection
    ) throws -> AppendPlan {
        do {
            let context = try read(batch, on: connection)
            // The clock is read under the lock: whoever waited for it must not record an instant long past, since
            // answers as of that instant may have been given.
            let plan = AppendPlan(batch, context: context, now: now())
            try write(plan, on: connection)
            return plan
        } catch {
            // If even this fails the connection is broken, and the server rolls back by itself.
            if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
            throw error
        }
    }

    private static func read(
        _ batch: [PreparedEvent], on connection: isolated PostgresConnection
    ) throws -> AppendContext {
        let originals = Set(batch.compactMap(\.originalKey)).sorted()
        let headers = Set(batch.flatMap { $0.evidence.map { Array($0.headers.keys) } ?? [] }).sorted()
        let results = try connection.pipeline(
            [
                PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED"),
                PostgresStatement(
                    "SELECT position, recorded_at, hash, next_identity FROM ledger_head WHERE ledger_id = $1 FOR UPDATE",
                    [.int(ledgerID)]),
                PostgresStatement(
                    "SELECT source_id, payload_sha256, position FROM event_key WHERE ledger_id = $1 AND source_id = ANY($2)",
                    [.int(ledgerID), .textArray(Set(batch.compactMap(\.statementID)).sorted())]),
                PostgresStatement(
                    "SELECT value, identity FROM identity WHERE ledger_id = $1 AND value = ANY($2)",
                    [.int(ledgerID), .textArray(Set(batch.flatMap(\.draft.identities)).sorted())]),
                PostgresStatement(
                    "SELECT sha256 FROM jws_header WHERE ledger_id = $1 AND sha256 = ANY($2)",
                    [.int(ledgerID), .bytesArray(headers.map(\.bytes))]),
                StateQuery.latest(of: originals),
            ] + commandStatements(batch))
        guard let headRow = results[1].first else {
            throw LedgerError(.schema, "the ledger's head row is missing; run `rightful migrate`")
        }
        let head = LedgerHead(
            position: try headRow.int(0), recordedAt: Timestamp(milliseconds: try headRow.timestamp(1)),
            hash: try headRow.digest(2), nextIdentity: try headRow.int(3))
        var keys: [String: [Digest: Int64]] = [:]
        for row in results[2].rows { keys[try row.text(0), default: [:]][try row.digest(1)] = try row.int(2) }
        var identities: [String: IdentityRef] = [:]
        for row in results[3].rows { identities[try row.text(0)] = IdentityRef(try row.int(1)) }
        var known: Set<Digest> = []
        for row in results[4].rows { known.insert(try row.digest(0)) }
        let states = try StateQuery.states(from: results[5], upTo: head.position, on: connection)
        var commands: [String: CommandRecord] = [:]
        var catalogPosition: Int64 = 0
        if results.count > 6 {
            for row in results[6].rows {
                commands[try row.text(0)] = CommandRecord(
                    requestHash: try row.digest(1), position: try row.int(2),
                    recordedAt: Timestamp(milliseconds: try row.timestamp(3)))
            }
            catalogPosition = try results[7].first?.int(0) ?? 0
        }
        return AppendContext(
            head: head, keys: keys, commands: commands, catalogPosition: catalogPosition, identities: identities,
            states: states, knownHeaders: known)
    }

    /// What only commands need to know; notifications do not pay for it.
    private static func commandStatements(_ batch: [PreparedEvent]) -> [PostgresStatement] {
        let keys = batch.compactMap(\.commandKey)
        guard !keys.isEmpty || batch.contains(where: { $0.draft.expectedCatalogPosition != nil }) else { return [] }
        return [
            PostgresStatement(
                """
                SELECT command_key, request_sha256, position, recorded_at FROM command_key
                WHERE ledger_id = $1 AND command_key = ANY($2)
                """, [.int(ledgerID), .textArray(Set(keys).sorted())]),
            PostgresStatement(
                """
                SELECT position FROM event WHERE ledger_id = $1 AND type = 'catalog_applied'
                ORDER BY position DESC LIMIT 1
                """, [.int(ledgerID)]),
        ]
    }

    private static func write(_ plan: AppendPlan, on connection: isolated PostgresConnection) throws {
        guard !plan.events.isEmpty else {
            try connection.execute(script: "COMMIT")
            return
        }
        var statements: [PostgresStatement] = []
        if !plan.newIdentities.isEmpty {
            statements.append(
                PostgresStatement(
                    """
                    INSERT INTO identity (ledger_id, identity, value)
                    SELECT $1, * FROM unnest($2::bigint[], $3::text[])
                    """,
                    [
                        .int4(Int32(ledgerID)), .intArray(plan.newIdentities.map(\.ref.number)),
                        .textArray(plan.newIdentities.map(\.value)),
                    ]))
        }
        if !plan.newHeaders.isEmpty {
            let headers = plan.newHeaders.sorted { $0.key < $1.key }
            statements.append(
                PostgresStatement(
                    "INSERT INTO jws_header (ledger_id, sha256, header) SELECT $1, * FROM unnest($2::bytea[], $3::bytea[])",
                    [
                        .int4(Int32(ledgerID)), .bytesArray(headers.map(\.key.bytes)),
                        .bytesArray(headers.map(\.value)),
                    ]))
        }
        statements.append(insertEvents(plan.events))
        if !plan.newKeys.isEmpty {
            statements.append(insertKeys(plan.newKeys))
        }
        if !plan.evidence.isEmpty {
            statements.append(
                PostgresStatement(
                    "INSERT INTO evidence (ledger_id, position, parts) SELECT $1, * FROM unnest($2::bigint[], $3::bytea[])",
                    [
                        .int4(Int32(ledgerID)), .intArray(plan.evidence.map(\.position)),
                        .bytesArray(plan.evidence.map(\.parts)),
                    ]))
        }
        if !plan.newCommands.isEmpty {
            let commands = plan.newCommands.sorted { $0.key < $1.key }
            statements.append(
                PostgresStatement(
                    """
                    INSERT INTO command_key (ledger_id, command_key, request_sha256, position, recorded_at)
                    SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::timestamptz[])
                    ON CONFLICT (ledger_id, command_key) DO UPDATE SET request_sha256 = excluded.request_sha256,
                        position = excluded.position, recorded_at = excluded.recorded_at
                    """,
                    [
                        .int4(Int32(ledgerID)), .textArray(commands.map(\.key)),
                        .bytesArray(commands.map(\.value.requestHash.bytes)), .intArray(commands.map(\.value.position)),
                        .timestampArray(commands.map(\.value.recordedAt.milliseconds)),
                    ]))
        }
        if let upsert = StateQuery.upsert(plan.states, of: plan.touched.sorted()) { statements.append(upsert) }
        statements.append(
            PostgresStatement(
                """
                UPDATE ledger_head SET position = $2, recorded_at = $3, hash = $4, next_identity = $5
                WHERE ledger_id = $1
                """,
                [
                    .int(ledgerID), .int(plan.head.position), .timestamp(plan.head.recordedAt.milliseconds),
                    .bytes(plan.head.hash.bytes), .int(plan.head.nextIdentity),
                ]))
        statements.append(
            PostgresStatement(
                """
                UPDATE projection SET checkpoint = $2
                WHERE ledger_id = $1 AND name = 'originals' AND version = $3 AND checkpoint = $4
                """,
                [
                    .int(ledgerID), .int(plan.head.position), .int4(Int32(OriginalState.foldVersion)),
                    .int(plan.head.position - Int64(plan.events.count)),
                ]))
        statements.append(PostgresStatement("COMMIT"))
        _ = try connection.pipeline(statements)
    }

    private static func insertKeys(_ keys: [AppendPlan.Key]) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO event_key (ledger_id, source_id, payload_sha256, position)
            SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bigint[])
            """,
            [
                .int4(Int32(ledgerID)), .textArray(keys.map(\.sourceID)),
                .bytesArray(keys.map(\.payloadHash.bytes)), .intArray(keys.map(\.position)),
            ])
    }

    private static func insertEvents(_ events: [EventRecord]) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO event (
                ledger_id, position, recorded_at, occurred_at, environment, source, type, original_transaction_id,
                transaction_id, product_id, identity, other_identity, facts, evidence_sha256, previous_hash, hash)
            SELECT $1, * FROM unnest(
                $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bytea[], $14::bytea[], $15::bytea[],
                $16::bytea[])
            """,
            [
                .int4(Int32(ledgerID)), .intArray(events.map(\.position)),
                .timestampArray(events.map(\.recordedAt.milliseconds)),
                .timestampArray(events.map { $0.occurredAt?.milliseconds }),
                .textArray(events.map { $0.environment?.rawValue }), .textArray(events.map(\.source.rawValue)),
                .textArray(events.map(\.type)), .textArray(events.map(\.originalTransactionID)),
                .textArray(events.map(\.transactionID)), .textArray(events.map(\.productID)),
                .optionalIntArray(events.map { $0.identity?.number }),
                .optionalIntArray(events.map { $0.otherIdentity?.number }), .bytesArray(events.map(\.facts)),
                .bytesArray(events.map { $0.evidenceHash?.bytes }), .bytesArray(events.map(\.previousHash.bytes)),
                .bytesArray(events.map(\.hash.bytes)),
            ])
    }
}

extension PostgresRow {
    func digest(_ column: Int) throws -> Digest {
        guard let digest = Digest(try bytes(column)) else {
            throw LedgerError(.corrupt, "column \(column) of a row holds no SHA-256")
        }
        return digest
    }
}
