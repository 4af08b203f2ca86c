import EntitlementCore
import PostgresClient

/// The one transaction that writes events: two round trips, with the fold between them.
///
/// The head row is locked first and until the commit. Each later statement sees what the holder before committed
/// (READ COMMITTED), so keys, identities and states are read under the lock. A transaction becomes visible before it
/// lets go of its locks; so whoever reads position n can read every position before it.
enum AppendTransaction {
    enum Outcome: Sendable {
        case committed(AppendPlan)
        /// The connection went before the commit was answered: it may have taken place.
        case unheard(AppendPlan, PostgresError)
    }

    /// - Parameters:
    ///   - unheard: what an earlier run of this batch left open; if the log holds it, that is the outcome.
    ///   - now: read under the lock, so that the time spent waiting for it does not date the events back.
    static func run(
        _ batch: [PreparedEvent], unheard: AppendPlan?, now: @Sendable () -> Timestamp,
        on connection: isolated PostgresConnection
    ) throws -> Outcome {
        do {
            let context = try read(batch, on: connection)
            if let unheard, try holds(unheard, on: connection) {
                try connection.execute(script: "ROLLBACK")
                return .committed(unheard)
            }
            let plan = AppendPlan(
                batch, context: context, now: try instant(after: context.head.recordedAt, now, on: connection))
            do {
                try write(plan, on: connection)
            } catch let error as PostgresError where error.kind == .connection {
                return .unheard(plan, error)
            }
            return .committed(plan)
        } catch {
            // If even this fails the connection is broken, and the server rolls back by itself.
            if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
            throw error
        }
    }

    /// The clock's instant, once it is later than the batch before.
    ///
    /// Batches are at least 1 ms apart on paper. Were they faster in fact, the log would run ahead of the clock, and a
    /// grant would begin after it was answered; so the fast ones wait. A clock that is behind another instance's waits
    /// no longer than that millisecond.
    private static func instant(
        after last: Timestamp, _ now: @Sendable () -> Timestamp, on connection: isolated PostgresConnection
    ) throws -> Timestamp {
        for _ in 0..<5 {
            let instant = now()
            guard instant == last else { return instant }
            try connection.query("SELECT pg_sleep(0.0002)", [])
        }
        return now()
    }

    /// Whether a plan's commit took place: the chain's hash at its last position is like no other's.
    private static func holds(_ plan: AppendPlan, on connection: isolated PostgresConnection) throws -> Bool {
        guard !plan.events.isEmpty else { return false }
        let row = try connection.query(
            "SELECT hash FROM event WHERE ledger_id = $1 AND position = $2",
            [.int(ledgerID), .int(plan.head.position)]
        ).first
        return try row?.digest(0) == plan.head.hash
    }

    /// Takes the head row, and with it everybody else's turn to append.
    static let lockHead = PostgresStatement(
        """
        SELECT position, recorded_at, hash, next_identity, live_views FROM ledger_head
        WHERE ledger_id = $1 FOR UPDATE
        """, [.int(ledgerID)])

    private static func read(
        _ batch: [PreparedEvent], on connection: isolated PostgresConnection
    ) throws -> AppendContext {
        let originals = Set(batch.compactMap(\.originalKey)).sorted()
        let headers = Set(batch.flatMap { $0.evidence.map { Array($0.headers.keys) } ?? [] }).sorted()
        let results = try connection.pipeline(
            [
                PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED"),
                lockHead,
                knownKeys(of: batch),
                knownIdentities(of: batch),
                PostgresStatement(
                    "SELECT sha256 FROM jws_header WHERE ledger_id = $1 AND sha256 = ANY($2)",
                    [.int(ledgerID), .bytesArray(headers.map(\.bytes))]),
                StateQuery.latest(of: originals),
            ] + commandStatements(batch) + conditionStatements(batch))
        guard let headRow = results[1].first else { throw Statements.missingHead }
        let head = try LedgerHead(headRow)
        var keys: [ExactText: [Digest: Int64]] = [:]
        for row in results[2].rows {
            keys[ExactText(try row.text(0)), default: [:]][try row.digest(1)] = try row.int(2)
        }
        var identities: [ExactText: IdentityRef] = [:]
        for row in results[3].rows { identities[ExactText(try row.text(0))] = IdentityRef(try row.int(1)) }
        var known: Set<Digest> = []
        for row in results[4].rows { known.insert(try row.digest(0)) }
        let states = try StateQuery.states(from: results[5], upTo: head.position, on: connection)
        var commands: [ExactText: CommandRecord] = [:]
        var catalogPosition: Int64 = 0
        var lastWords: [WordSubject: Int64] = [:]
        if hasCommands(batch) {
            for row in results[6].rows {
                commands[ExactText(try row.text(0))] = CommandRecord(
                    requestHash: try row.digest(1), position: try row.int(2),
                    recordedAt: Timestamp(milliseconds: try row.timestamp(3)))
            }
            catalogPosition = try results[7].first?.int(0) ?? 0
        }
        if hasConditions(batch) {
            for row in results[results.count - 2].rows {
                lastWords[.customer(ExactText(try row.text(0)))] = try row.int(1)
            }
            for row in results[results.count - 1].rows {
                let environment = try StoreEnvironment(stored: row.text(0))
                let key = OriginalKey(environment: environment, originalTransactionID: try row.text(1))
                lastWords[.original(key)] = try row.int(2)
            }
        }
        return AppendContext(
            head: head, keys: keys, commands: commands, catalogPosition: catalogPosition, lastWords: lastWords,
            identities: identities, states: states, knownHeaders: known)
    }

    // The next two look up one value after the other, which OFFSET 0 holds the planner to. All rows of a ledger share the
    // index's first column, and before the first ANALYZE the planner takes that for a choice of few: with `= ANY` it
    // would read every row of the ledger while the head is locked.

    private static func knownKeys(of batch: [PreparedEvent]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.source_id, known.payload_sha256, known.position FROM unnest($2::text[]) AS key (source_id)
            CROSS JOIN LATERAL (
                SELECT payload_sha256, position FROM event_key
                WHERE ledger_id = $1 AND event_key.source_id = key.source_id OFFSET 0) AS known
            """, [.int(ledgerID), .textArray(Set(batch.compactMap(\.statementID).map { ExactText($0) }).map(\.text))])
    }

    private static func knownIdentities(of batch: [PreparedEvent]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT key.value, known.identity FROM unnest($2::text[]) AS key (value)
            CROSS JOIN LATERAL (
                SELECT identity FROM identity WHERE ledger_id = $1 AND identity.value = key.value OFFSET 0) AS known
            """, [.int(ledgerID), .textArray(Set(batch.flatMap(\.draft.identities).map { ExactText($0) }).map(\.text))])
    }

    private static func hasCommands(_ batch: [PreparedEvent]) -> Bool {
        batch.contains { $0.commandKey != nil || $0.draft.expectedCatalogPosition != nil }
    }

    private static func hasConditions(_ batch: [PreparedEvent]) -> Bool {
        batch.contains { $0.draft.unchangedSince != nil }
    }

    /// What only commands need to know; notifications do not pay for it.
    private static func commandStatements(_ batch: [PreparedEvent]) -> [PostgresStatement] {
        guard hasCommands(batch) else { return [] }
        let keys = batch.compactMap(\.commandKey)
        return [
            PostgresStatement(
                """
                SELECT command_key, request_sha256, position, recorded_at FROM command_key
                WHERE ledger_id = $1 AND command_key = ANY($2)
                """, [.int(ledgerID), .textArray(Set(keys.map { ExactText($0) }).map(\.text))]),
            PostgresStatement(
                """
                SELECT position FROM event WHERE ledger_id = $1 AND type = 'catalog_applied'
                ORDER BY position DESC LIMIT 1
                """, [.int(ledgerID)]),
        ]
    }

    /// Where something was last said of what the batch's conditions name.
    private static func conditionStatements(_ batch: [PreparedEvent]) -> [PostgresStatement] {
        guard hasConditions(batch) else { return [] }
        let conditions = batch.compactMap(\.draft.unchangedSince)
        let originals = Set(conditions.flatMap(\.originals)).sorted()
        return [
            OwnershipQuery.lastWords(of: Set(conditions.flatMap(\.customers).map { ExactText($0) }).map(\.text)),
            OwnershipQuery.lastWords(on: originals),
        ]
    }

    /// Writes what was decided, with `more` in the same commit.
    static func write(
        _ plan: AppendPlan, and more: [PostgresStatement] = [], on connection: isolated PostgresConnection
    ) throws {
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
            let commands = plan.newCommands.sorted { $0.value.position < $1.value.position }
            statements.append(
                PostgresStatement(
                    """
                    INSERT INTO command_key (ledger_id, command_key, request_sha256, position, recorded_at)
                    SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::timestamptz[])
                    ON CONFLICT (ledger_id, command_key) DO UPDATE SET request_sha256 = excluded.request_sha256,
                        position = excluded.position, recorded_at = excluded.recorded_at
                    """,
                    [
                        .int4(Int32(ledgerID)), .textArray(commands.map(\.key.text)),
                        .bytesArray(commands.map(\.value.requestHash.bytes)), .intArray(commands.map(\.value.position)),
                        .timestampArray(commands.map(\.value.recordedAt.milliseconds)),
                    ]))
        }
        let upsert = StateQuery.upsert(plan.states, of: plan.touched.sorted(), in: plan.head.liveViews)
        if let upsert { statements.append(upsert) }
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
        statements += more
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

extension LedgerHead {
    /// A row of `lockHead`.
    init(_ row: PostgresRow) throws {
        self.init(
            position: try row.int(0), recordedAt: Timestamp(milliseconds: try row.timestamp(1)),
            hash: try row.digest(2), nextIdentity: try row.int(3), liveViews: try ViewTable(stored: row.int(4)))
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
