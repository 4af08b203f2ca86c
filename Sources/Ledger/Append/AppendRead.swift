import EntitlementCore
import PostgresClient

/// Reads what a batch must know, in one round trip that begins the transaction and takes the head's lock.
enum AppendRead {
    /// Takes the head row, and with it everybody else's turn to append.
    static let lockHead = PostgresStatement(
        """
        SELECT position, recorded_at, hash, next_identity, catalog_position, lease_holder FROM ledger_head
        WHERE ledger_id = $1 FOR UPDATE
        """, [.int(ledgerID)])

    static func run(
        _ batch: [PreparedEvent], memory: WriterMemory, on connection: isolated PostgresConnection
    ) throws -> AppendContext {
        var questions = Questions(batch, memory: memory)
        var results = try connection.pipeline(
            [PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED")] + questions.statements)
        let isHeld = try results[Questions.sinceIndex].first?.bool(0) ?? false
        let isSomebodyForgotten = try results[Questions.sinceIndex].first?.bool(1) ?? false
        if !isHeld || isSomebodyForgotten {
            // What is remembered of an end that the log has lost is not in the log.
            if !isHeld { memory.reset() }
            // The number of somebody forgotten must not be given to new events.
            memory.forget()
            questions = Questions(batch, memory: memory)
            results = [results[0]] + (try connection.pipeline(questions.statements))
        }
        return try questions.context(from: results, batch, memory: memory, on: connection)
    }

    /// Reads what `known` lacks, outside any transaction.
    ///
    /// Numbers and headers that are found never change. What is not found is not there as long as nobody but this writer
    /// appends, and whoever plans with it makes sure of that before the commit.
    static func missing(
        from known: WriterMemory.Knowledge, on connection: isolated PostgresConnection
    ) throws -> [PostgresResult] {
        try connection.pipeline([
            Statements.identities(of: known.unknownIdentities.map(\.text)), headers(known.unknownHeaders),
        ])
    }

    fileprivate static func headers(_ names: Set<Digest>) -> PostgresStatement {
        PostgresStatement(
            "SELECT sha256 FROM jws_header WHERE ledger_id = $1 AND sha256 = ANY ($2)",
            [.int(ledgerID), .bytesArray(names.sorted().map(\.bytes))])
    }
}

extension AppendContext {
    /// Reads the rows of `Statements.identities`.
    mutating func learnIdentities(from result: PostgresResult) throws {
        for row in result.rows { identities[ExactText(try row.text(0))] = IdentityRef(try row.int(1)) }
    }

    /// Reads the names of stored headers.
    mutating func learnHeaders(from result: PostgresResult) throws {
        for row in result.rows { knownHeaders.insert(try row.digest(0)) }
    }
}

/// The statements of one batch, and how their results are read.
private struct Questions {
    /// Where the answers that every batch asks for stand in the results, `BEGIN` counted as 0.
    static let headIndex = 1
    static let sinceIndex = 2
    private static let optionalIndex = 3

    private enum Question {
        case precedents
        case identities
        case headers
        case states
        case commands
        case customers
        case originals
        case lives
        case marks
    }

    private(set) var statements: [PostgresStatement]
    private var kinds: [Question] = []
    private let known: WriterMemory.Knowledge
    private let deciding: [OriginalKey]

    init(_ batch: [PreparedEvent], memory: WriterMemory) {
        statements = [AppendRead.lockHead, Self.since(memory.head)]
        deciding = Set(batch.compactMap(\.decidingOriginal)).sorted()
        known = memory.knowledge(of: batch)

        let dedupKeys = Set(batch.compactMap(\.dedupKey)).union(batch.compactMap(\.reusedDedupKey))
        if !dedupKeys.isEmpty { ask(.precedents, Self.precedents(dedupKeys)) }

        if !known.unknownIdentities.isEmpty {
            ask(.identities, Statements.identities(of: known.unknownIdentities.map(\.text)))
        }
        if !known.unknownHeaders.isEmpty { ask(.headers, AppendRead.headers(known.unknownHeaders)) }

        if !deciding.isEmpty { ask(.states, StateQuery.lives(of: deciding)) }
        let commands = Set(batch.compactMap(\.commandKey).map { ExactText($0) })
        if !commands.isEmpty { ask(.commands, Self.commands(commands)) }
        let conditions = batch.compactMap(\.draft.unchangedSince)
        if !conditions.isEmpty {
            let customers = Set(conditions.flatMap(\.customers).map { ExactText($0) }).map(\.text)
            ask(.customers, OwnershipQuery.lastPositions(about: customers))
            ask(.originals, OwnershipQuery.lastPositions(about: Set(conditions.flatMap(\.originals)).sorted()))
            let lives = Set(conditions.flatMap(\.lives)).sorted()
            if !lives.isEmpty { ask(.lives, OwnershipQuery.lastPositions(ofAllAbout: lives)) }
            let marks = Set(conditions.compactMap(\.mark))
            if !marks.isEmpty { ask(.marks, Self.held(marks)) }
        }
    }

    private mutating func ask(_ kind: Question, _ statement: PostgresStatement) {
        kinds.append(kind)
        statements.append(statement)
    }

    func context(
        from results: [PostgresResult], _ batch: [PreparedEvent], memory: WriterMemory,
        on connection: isolated PostgresConnection
    ) throws -> AppendContext {
        guard let head = results[Self.headIndex].first else { throw Statements.missingHead }
        var context = AppendContext(head: try LedgerHead(head))
        context.leaseHolder = try head.optionalInt(5)
        if let row = results[Self.sinceIndex].first {
            context.databaseTime = try row.instant(2)
        }
        context.identities = known.identities
        context.knownHeaders = known.headers
        context.memory = memory
        for key in deciding { context.states[key] = OriginalState() }
        for (kind, result) in zip(kinds, results[Self.optionalIndex...]) {
            switch kind {
            case .precedents:
                for row in result.rows {
                    // Only its hash is needed, and that is the same in every environment.
                    guard let statement = try FactCodec.decode(row.bytes(1)).statementKey(in: nil),
                        let key = DedupKey(stored: try row.bytes(2))
                    else { continue }
                    context.statements[key] = RecordedStatement(
                        payloadHash: statement.payloadHash, position: try row.int(0))
                }
            case .identities: try context.learnIdentities(from: result)
            case .headers: try context.learnHeaders(from: result)
            case .states:
                let states = try StateQuery.states(
                    from: result, of: deciding, upTo: context.head.position, on: connection)
                context.states.merge(states) { _, known in known }
            case .commands:
                for row in result.rows {
                    context.commands[ExactText(try row.text(0))] = CommandRecord(
                        requestHash: try row.digest(1), position: try row.int(2),
                        recordedAt: try row.instant(3))
                }
            case .customers:
                for row in result.rows {
                    context.lastOwnershipEvents[.customer(ExactText(try row.text(0)))] = try row.int(1)
                }
            case .originals, .lives:
                for row in result.rows {
                    let key = OriginalKey(
                        environment: try StoreEnvironment(stored: row.int(0)), originalTransactionID: try row.text(1))
                    let subject: OwnershipSubject = kind == .lives ? .life(key) : .original(key)
                    context.lastOwnershipEvents[subject] = try row.int(2)
                }
            case .marks:
                for row in result.rows { context.heldMarks.insert(try EventMark(row, 0)) }
            }
        }
        memory.learn(identities: context.identities, headers: context.knownHeaders, at: context.head)
        return context
    }

    /// Whether the log holds the head that is remembered, and whether somebody was forgotten since; and the database's time, not
    /// before the head's lock was taken.
    private static func since(_ known: LedgerHead?) -> PostgresStatement {
        // Where nothing is remembered there is nothing to ask about.
        let (position, hash) = (known?.position ?? .max, known?.hash ?? .zero)
        return PostgresStatement(
            """
            SELECT $2 IN (0, \(Int64.max)) OR EXISTS (
                    SELECT FROM event WHERE ledger_id = $1 AND position = $2 AND hash = $3),
                EXISTS (SELECT FROM event WHERE ledger_id = $1 AND position > $2 AND type = 'forgotten'), clock_timestamp()
            """,
            [.int(ledgerID), .int(position), .bytes(hash.bytes)])
    }

    private static func precedents(_ keys: Set<DedupKey>) -> PostgresStatement {
        PostgresStatement(
            "SELECT position, facts, dedup_key FROM event WHERE ledger_id = $1 AND dedup_key = ANY ($2)",
            [.int(ledgerID), .bytesArray(keys.map(\.bytes))])
    }

    /// Those of some events that the log holds.
    private static func held(_ marks: Set<EventMark>) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT mark.position, mark.hash FROM unnest($2::bigint[], $3::bytea[]) AS mark (position, hash)
            \(Statements.search(
                """
                SELECT FROM event
                WHERE event.ledger_id = $1 AND event.position = mark.position AND event.hash = mark.hash
                """, as: "held"))
            """, [.int(ledgerID)] + marks.columns)
    }

    private static func commands(_ keys: Set<ExactText>) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT known.* FROM unnest($2::text[]) AS asked (command_key)
            \(Statements.search(
                """
                SELECT command_key, request_sha256, position, recorded_at FROM command_key
                WHERE ledger_id = $1 AND command_key.command_key = asked.command_key
                """, as: "known"))
            """, [.int(ledgerID), .textArray(keys.map(\.text))])
    }
}

extension LedgerHead {
    /// A row of `AppendRead.lockHead`.
    init(_ row: PostgresRow) throws {
        self.init(
            position: try row.int(0), recordedAt: try row.instant(1),
            hash: try row.digest(2), nextIdentity: try row.int(3), catalogPosition: try row.int(4))
    }
}
