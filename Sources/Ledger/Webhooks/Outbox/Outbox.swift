import EntitlementCore
import PostgresClient

/// Something that there is to tell, as the outbox holds it.
struct OutboxMessage: Sendable {
    enum Content: Sendable {
        /// A customer's answer has become another one.
        case answer(AnswerChange)
        /// Something happened to a customer's purchases; with the entitlements before and after it.
        case purchase(PurchaseNews, AnswerCause, before: [UInt8], after: [UInt8])
        /// An event of the log: the one at the position.
        ///
        /// - isAccess: it is about a key or an endpoint, which nobody hears of who is bound to an environment or an app.
        case event(isAccess: Bool)
        case conflict
        /// Anything else, as it is sent.
        case other(MessageType, body: [UInt8])
    }

    let content: Content
    /// As table `answer_scope` names it: which endpoints may hear of it.
    let app: String
    let environment: StoreEnvironment?
    /// Whose it is; `EventName.nobody` where it is nobody's.
    let identity: IdentityRef
    let position: Int64
    let at: Timestamp

    /// What column `environment` holds.
    fileprivate var storedEnvironment: Int16? {
        if case .event(isAccess: true) = content { return 0 }
        return environment?.number
    }

    var type: MessageType {
        switch content {
        case .answer: .entitlementsChanged
        case .purchase(let news, _, _, _): news.type
        case .event: .eventRecorded
        case .conflict: .ownershipConflict
        case .other(let type, _): type
        }
    }

    /// Why it came to be, and what was before and after.
    var change: (cause: AnswerCause, before: [UInt8], after: [UInt8])? {
        switch content {
        case .answer(let change): (change.cause, change.before, change.after)
        case .purchase(_, let cause, let before, let after): (cause, before, after)
        case .event, .conflict, .other: nil
        }
    }

    var body: [UInt8]? {
        switch content {
        case .purchase(let news, _, _, _): news.body
        case .other(_, let body): body
        case .answer, .event, .conflict: nil
        }
    }
}

/// What waits to be sent, and to whom.
enum Outbox {
    /// Adds messages, in the order in which those of one customer are sent, and gives each to the endpoints that want it.
    ///
    /// The transaction has to hold the lock of ``WebhookProjector``'s row: one writer at a time, so that messages are numbered in
    /// the order of their commits. It does this once: endpoints are locked in their order by one statement only.
    ///
    /// - Parameter endpoint: is locked as well.
    static func add(
        _ messages: [OutboxMessage], locking endpoint: String? = nil, on connection: isolated PostgresConnection
    ) throws {
        guard !messages.isEmpty else {
            if let endpoint { try lock([endpoint], on: connection) }
            return
        }
        let numbers = try connection.query(
            """
            INSERT INTO webhook_message (
                ledger_id, type, app, environment, identity, position, at, cause, before, after, body)
            SELECT $1, type, app, environment, identity, position, at, cause, before, after, body
            FROM unnest(
                $2::smallint[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::timestamptz[],
                $8::smallint[], $9::bytea[], $10::bytea[], $11::bytea[]
            ) WITH ORDINALITY AS new (
                type, app, environment, identity, position, at, cause, before, after, body, place)
            ORDER BY new.place
            RETURNING number
            """,
            [
                .int4(Int32(ledgerID)), .int2Array(messages.map(\.type.number)), .textArray(messages.map(\.app)),
                .int2Array(messages.map(\.storedEnvironment)), .intArray(messages.map(\.identity.number)),
                .intArray(messages.map(\.position)), .timestampArray(messages.map(\.at.milliseconds)),
                .int2Array(messages.map { $0.change?.cause.number }), .bytesArray(messages.map { $0.change?.before }),
                .bytesArray(messages.map { $0.change?.after }), .bytesArray(messages.map(\.body)),
            ]
        ).rows.map { try $0.int(0) }
        try lockThoseWanting(numbers, and: endpoint, on: connection)
        try connection.query(
            giving,
            [
                .int(ledgerID), .intArray(numbers),
                .int2Array(MessageType.allCases.filter(\.isCounted).map(\.number)),
            ])
    }

    /// Withdraws whatever is about some people, who were forgotten.
    static func forget(_ identities: Set<IdentityRef>, on connection: isolated PostgresConnection) throws {
        guard !identities.isEmpty else { return }
        for statement in forgetting(Array(identities)) {
            try connection.query(statement.sql, statement.parameters)
        }
    }

    /// What withdraws whatever is about some people.
    static func forgetting(_ identities: [IdentityRef]) -> [PostgresStatement] {
        let forgotten: [PostgresValue] = [.int(ledgerID), .intArray(identities.map(\.number).sorted())]
        let withdrawal = PostgresStatement(
            """
            UPDATE webhook_delivery SET due_at = NULL,
                state = CASE state WHEN \(DeliveryState.waiting.number) THEN \(DeliveryState.withdrawn.number) ELSE state END,
                last_at = coalesce(last_at, clock_timestamp())
            FROM webhook_message AS message
            WHERE webhook_delivery.ledger_id = $1 AND message.ledger_id = $1 AND message.identity <> 0
                AND message.identity = ANY ($2::bigint[]) AND webhook_delivery.number = message.number
            """, forgotten)
        return [withdrawal]
            + ["webhook_message", "webhook_line", "answer_watch"].map { table in
                PostgresStatement(
                    "DELETE FROM \(table) WHERE ledger_id = $1 AND identity <> 0 AND identity = ANY ($2::bigint[])",
                    forgotten)
            }
    }

    /// Whether a delivery waits in a customer's line at an endpoint, as the index `webhook_delivery_line` says it.
    ///
    /// - Parameters:
    ///   - line: what has columns `identity` and `environment`.
    ///   - endpoint: its own column where none is given.
    static func isInLine(_ delivery: String, of line: String, at endpoint: String? = nil) -> String {
        """
        \(delivery).ledger_id = $1 AND \(delivery).endpoint = \(endpoint ?? "\(line).endpoint")
            AND \(delivery).identity = \(line).identity AND \(delivery).environment = \(line).environment
            AND CASE WHEN \(delivery).state = \(DeliveryState.waiting.number) THEN \(delivery).identity <> 0 ELSE false END
        """
    }

    /// Notes that something of an endpoint is due now.
    private static func noteDue(_ endpoint: String, on connection: isolated PostgresConnection) throws {
        try connection.query(
            """
            UPDATE webhook_endpoint SET due_at = clock_timestamp(), clock_at = greatest(clock_at, clock_timestamp())
            WHERE ledger_id = $1 AND endpoint = $2
            """, [.int(ledgerID), .text(endpoint)])
    }

    /// Lets deliveries that ended wait again; the endpoint is locked.
    ///
    /// - Returns: how many of them do.
    static func wait(
        _ numbers: [Int64], for endpoint: String, on connection: isolated PostgresConnection
    ) throws -> Int {
        guard !numbers.isEmpty else { return 0 }
        let named: [PostgresValue] = [.int(ledgerID), .text(endpoint), .intArray(numbers)]
        let waiting = DeliveryState.waiting.number
        let count = try connection.query(
            """
            WITH again AS (
                UPDATE webhook_delivery SET state = \(waiting), attempts = 0, first_at = NULL, status = NULL, failure = NULL,
                    due_at = CASE WHEN identity = 0 THEN clock_timestamp() END
                WHERE ledger_id = $1 AND endpoint = $2 AND number = ANY ($3::bigint[])
                    AND state IN (\(DeliveryState.delivered.number), \(DeliveryState.failed.number))
                RETURNING identity, environment
            ), counted AS (
                UPDATE webhook_line AS line SET waiting = line.waiting + added.count
                FROM (SELECT identity, environment, count(*) AS count FROM again GROUP BY 1, 2) AS added
                WHERE line.ledger_id = $1 AND line.endpoint = $2 AND line.identity = added.identity
                    AND line.environment = added.environment
            )
            SELECT count(*) FROM again
            """, named
        ).row(0).int(0)
        guard count > 0 else { return 0 }
        // Of each customer the first alone is due.
        try connection.query(
            """
            WITH line AS MATERIALIZED (
                SELECT DISTINCT identity, environment FROM webhook_delivery
                WHERE ledger_id = $1 AND endpoint = $2 AND number = ANY ($3::bigint[]) AND identity <> 0
            ), first AS MATERIALIZED (
                SELECT line.identity, line.environment, head.number FROM line CROSS JOIN LATERAL (
                    SELECT waiting.number FROM webhook_delivery AS waiting
                    WHERE \(isInLine("waiting", of: "line", at: "$2"))
                    ORDER BY waiting.number LIMIT 1
                ) AS head
            ), moved AS MATERIALIZED (
                SELECT number, true AS is_first FROM first
                UNION ALL
                SELECT later.number, false FROM first CROSS JOIN LATERAL (
                    SELECT waiting.number FROM webhook_delivery AS waiting
                    WHERE \(isInLine("waiting", of: "first", at: "$2"))
                        AND waiting.number > first.number AND waiting.due_at IS NOT NULL
                ) AS later
            )
            UPDATE webhook_delivery AS delivery SET due_at = CASE WHEN moved.is_first THEN clock_timestamp() END
            FROM moved
            WHERE delivery.ledger_id = $1 AND delivery.endpoint = $2 AND delivery.number = moved.number
            """, named)
        try noteDue(endpoint, on: connection)
        return Int(count)
    }

    /// Sends an endpoint something to try it with; returns the message's number, or `nil` where there is no such endpoint.
    static func test(
        _ endpoint: String, body: [UInt8], at instant: Timestamp, on connection: isolated PostgresConnection
    ) throws -> Int64? {
        try lock([endpoint], on: connection)
        let number = try connection.query(
            """
            INSERT INTO webhook_message (ledger_id, type, app, identity, position, at, body)
            SELECT $1, $3, endpoint.app, 0, head.position, $4, $5
            FROM webhook_endpoint AS endpoint JOIN ledger_head AS head USING (ledger_id)
            WHERE endpoint.ledger_id = $1 AND endpoint.endpoint = $2
            RETURNING number
            """,
            [
                .int4(Int32(ledgerID)), .text(endpoint), .int2(MessageType.test.number),
                .timestamp(instant.milliseconds), .bytes(body),
            ]
        ).first?.int(0)
        guard let number else { return nil }
        try connection.query(
            """
            INSERT INTO webhook_delivery (ledger_id, endpoint, number, identity, environment, due_at)
            VALUES ($1, $2, $3, 0, 0, clock_timestamp())
            """, [.int4(Int32(ledgerID)), .text(endpoint), .int(number)])
        try noteDue(endpoint, on: connection)
        return number
    }

    /// Locks endpoints, which guards everything that waits for them.
    ///
    /// Whoever changes deliveries takes these locks first and in the same order, so that two transactions cannot
    /// deadlock.
    static func lock(_ endpoints: Set<String>, on connection: isolated PostgresConnection) throws {
        try connection.query(
            "SELECT FROM webhook_endpoint WHERE ledger_id = $1 AND endpoint = ANY ($2) ORDER BY endpoint FOR UPDATE",
            [.int(ledgerID), .textArray(endpoints.sorted())])
    }

    /// Locks all of them, in the same order.
    static func lockAll(on connection: isolated PostgresConnection) throws {
        try connection.query(
            "SELECT FROM webhook_endpoint WHERE ledger_id = $1 ORDER BY endpoint FOR UPDATE", [.int(ledgerID)])
    }

    /// Locks those to which messages are given, and one more, in the same order.
    private static func lockThoseWanting(
        _ numbers: [Int64], and other: String?, on connection: isolated PostgresConnection
    ) throws {
        try connection.query(
            """
            SELECT FROM webhook_endpoint AS endpoint WHERE endpoint.ledger_id = $1 AND (endpoint.endpoint = $3 OR EXISTS (
                SELECT FROM webhook_message AS message
                WHERE message.ledger_id = $1 AND message.number = ANY ($2::bigint[]) AND \(isWanted)))
            ORDER BY endpoint.endpoint FOR UPDATE
            """, [.int(ledgerID), .intArray(numbers), .text(other)])
    }

    /// Whether an endpoint wants a message.
    private static let isWanted = """
        endpoint.app = message.app AND message.type = ANY (endpoint.types) AND message.position >= endpoint.position
            AND (endpoint.environment IS NULL OR message.environment IS NULL
                OR endpoint.environment = message.environment)
        """

    /// Gives messages to those who want them, and counts them in each line; the lines' rows are read by their keys, so that it stays
    /// linear in the endpoints, whatever the planner takes their number for.
    ///
    /// Instants of one line rise by a millisecond at the least, for receivers that order by them.
    private static let giving = """
        WITH wanted AS MATERIALIZED (
            SELECT endpoint.endpoint, message.number, message.identity, coalesce(message.environment, 0) AS environment,
                message.type = ANY ($3::smallint[]) AS is_counted, message.at, row_number() OVER line AS place
            FROM webhook_message AS message
            JOIN webhook_endpoint AS endpoint ON endpoint.ledger_id = $1 AND \(isWanted)
            WHERE message.ledger_id = $1 AND message.number = ANY ($2::bigint[])
            WINDOW line AS (
                PARTITION BY endpoint.endpoint, message.identity, coalesce(message.environment, 0) ORDER BY message.number)
        ), new AS MATERIALIZED (
            SELECT wanted.*, coalesce(old.sequence, 0) AS last_sequence, coalesce(old.waiting, 0) AS waiting,
                count(*) FILTER (WHERE wanted.is_counted) OVER line AS step,
                wanted.place * interval '1 ms'
                    + greatest(old.told_at, max(wanted.at - wanted.place * interval '1 ms') OVER line) AS told_at
            FROM wanted
            LEFT JOIN webhook_line AS old ON old.ledger_id = $1 AND old.endpoint = wanted.endpoint
                AND old.identity = wanted.identity AND old.environment = wanted.environment
            WINDOW line AS (
                PARTITION BY wanted.endpoint, wanted.identity, wanted.environment ORDER BY wanted.number
                ROWS UNBOUNDED PRECEDING)
        ), given AS (
            INSERT INTO webhook_delivery (ledger_id, endpoint, number, identity, environment, sequence, told_at, due_at)
            SELECT $1::bigint::integer, endpoint, number, identity, environment,
                CASE WHEN is_counted THEN last_sequence + step END, CASE WHEN is_counted THEN told_at END,
                CASE WHEN identity = 0 OR (place = 1 AND waiting = 0) THEN clock_timestamp() END
            FROM new
            RETURNING endpoint, due_at
        ), counted AS (
            INSERT INTO webhook_line (ledger_id, endpoint, identity, environment, sequence, waiting, told_at)
            SELECT $1::bigint::integer, endpoint, identity, environment, max(last_sequence + step), max(waiting) + count(*),
                max(told_at)
            FROM new WHERE identity <> 0 GROUP BY endpoint, identity, environment
            ON CONFLICT (ledger_id, endpoint, identity, environment) DO UPDATE SET
                sequence = excluded.sequence, waiting = excluded.waiting, told_at = excluded.told_at
        )
        UPDATE webhook_endpoint SET due_at = least(due_at, clock_timestamp()), clock_at = greatest(clock_at, clock_timestamp())
        WHERE ledger_id = $1 AND (due_at IS NULL OR due_at > clock_timestamp()
                OR clock_at IS NULL OR clock_at < clock_timestamp() - interval '10 s')
            AND endpoint IN (SELECT endpoint FROM given WHERE due_at IS NOT NULL)
        """
}

extension MessageType {
    /// What columns `type` and `types` hold.
    var number: Int16 {
        switch self {
        case .entitlementsChanged: 1
        case .eventRecorded: 2
        case .ownershipConflict: 3
        case .driftFound: 4
        case .streamSilent: 5
        case .streamRecovered: 6
        case .test: 7
        case .initialPurchase: 8
        case .renewal: 9
        case .productChange: 10
        case .cancellation: 11
        case .uncancellation: 12
        case .billingIssue: 13
        case .expiration: 14
        case .nonRenewingPurchase: 15
        case .subscriptionExtended: 16
        case .refundReversed: 17
        case .transfer: 18
        }
    }

    init(stored number: Int64) throws {
        guard let type = Self.allCases.first(where: { Int64($0.number) == number }) else {
            throw LedgerError(.corrupt, "a row names the type of message \(number)")
        }
        self = type
    }
}
