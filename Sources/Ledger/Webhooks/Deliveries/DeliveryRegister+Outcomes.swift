import EntitlementCore
import PostgresClient

// What came of attempts, and what that lets become due.
extension DeliveryRegister {
    /// What waits, as column `state` says it.
    private static let waiting = DeliveryState.waiting.number

    /// Notes what came of attempts, and lets what waits behind them become due.
    ///
    /// - Returns: what that is to endpoints, each of which is noted by one process.
    @discardableResult
    package func note(_ outcomes: [DeliveryOutcome]) async throws -> [EndpointTurn] {
        guard !outcomes.isEmpty else { return [] }
        return try await pool.run(doing: "noting what came of webhooks") { connection in
            try connection.transaction { connection in
                try Outbox.lock(Set(outcomes.map(\.endpoint)), on: connection)
                let ended = try Self.note(outcomes, on: connection)
                try Self.goOn(ended, on: connection)
                for endpoint in try Self.mended(outcomes, on: connection) {
                    try Outbox.retryNow(endpoint, on: connection)
                }
                try Self.letGoOfForgottenNotices(outcomes, on: connection)
                return try EndpointTurn.note(outcomes, on: connection)
            }
        }
    }

    /// The last message about somebody forgotten names them, and is kept only until it is delivered or given up.
    private static func letGoOfForgottenNotices(
        _ outcomes: [DeliveryOutcome], on connection: isolated PostgresConnection
    ) throws {
        let said = outcomes.filter { $0.isForgottenNotice && $0.result.state != .waiting }
        guard !said.isEmpty else { return }
        try connection.query(
            """
            UPDATE webhook_message SET body = NULL, before = NULL, after = NULL
            WHERE ledger_id = $1 AND number = ANY ($2::bigint[]) AND id::text = ANY ($3::text[])
                AND type = 1 AND identity = 0
            """, [.int(ledgerID), .intArray(said.map(\.number)), .textArray(said.map(\.messageID))])
    }

    /// Those that have taken something, after they had taken nothing for a while: nobody waits for the next try, then.
    private static func mended(
        _ outcomes: [DeliveryOutcome], on connection: isolated PostgresConnection
    ) throws -> [String] {
        let taking = outcomes.filter { $0.result == .delivered }
        guard !taking.isEmpty else { return [] }
        return try connection.query(
            """
            SELECT DISTINCT endpoint.endpoint FROM unnest($2::text[], $3::timestamptz[]) AS taking (endpoint, at)
            JOIN webhook_endpoint AS endpoint ON endpoint.ledger_id = $1 AND endpoint.endpoint = taking.endpoint
            WHERE endpoint.failing_since <= taking.at - interval '\(longFailure) s' ORDER BY 1
            """,
            [
                .int(ledgerID), .textArray(taking.map(\.endpoint)),
                .timestampArray(taking.map(\.at.milliseconds)),
            ]
        ).rows.map { try $0.text(0) }
    }

    /// In seconds: an endpoint that refuses some messages, and takes others in between, is not mended each time.
    static let longFailure = 30

    /// Gives back what was handed out and nobody is sending any more: whoever comes next need not wait.
    package func giveBack(_ deliveries: [(endpoint: String, number: Int64, messageID: String)]) async throws {
        guard !deliveries.isEmpty else { return }
        try await pool.run(doing: "leaving webhooks to others") { connection in
            try connection.transaction { connection in
                try Outbox.lock(Set(deliveries.map(\.endpoint)), on: connection)
                try connection.query(
                    """
                    WITH told AS MATERIALIZED (
                        SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[]) AS told (endpoint, number, message)
                    ), found AS MATERIALIZED (\(Self.finding) AND delivery.due_at IS NOT NULL OFFSET 0) AS held
                    ), given AS (
                        UPDATE webhook_delivery AS delivery SET due_at = clock_timestamp(), is_taken = false
                        FROM found
                        WHERE delivery.ledger_id = $1 AND delivery.endpoint = found.endpoint
                            AND delivery.number = found.number
                        RETURNING delivery.endpoint
                    )
                    UPDATE webhook_endpoint SET due_at = least(due_at, clock_timestamp()),
                        clock_at = greatest(clock_at, clock_timestamp())
                    WHERE ledger_id = $1 AND endpoint IN (SELECT endpoint FROM given)
                    """,
                    [
                        .int(ledgerID), .textArray(deliveries.map(\.endpoint)),
                        .intArray(deliveries.map(\.number)), .textArray(deliveries.map(\.messageID)),
                    ])
            }
        }
    }

    /// Finds what waits of what is `told`, each by its key; what names another message under its number, as after a backup was
    /// restored, is not found.
    ///
    /// The planner is left no choice. While its statistics say that nothing waits, it would rather look at each delivery that
    /// waits, and go through all that is told for it.
    private static let finding = """
        SELECT told.* FROM told CROSS JOIN LATERAL (
            SELECT FROM webhook_message AS message
            WHERE message.ledger_id = $1 AND message.number = told.number AND message.id::text = told.message OFFSET 0
        ) AS known CROSS JOIN LATERAL (
            SELECT FROM webhook_delivery AS delivery
            WHERE delivery.ledger_id = $1 AND delivery.endpoint = told.endpoint AND delivery.number = told.number
                AND delivery.state = \(waiting)
        """

    /// One customer's deliveries to an endpoint, in one environment.
    private struct Line: Hashable, Comparable {
        let endpoint: String
        let identity: Int64
        let environment: Int64

        static func < (left: Line, right: Line) -> Bool {
            (left.endpoint, left.identity, left.environment) < (right.endpoint, right.identity, right.environment)
        }
    }

    /// Returns how many of each customer's deliveries ended.
    private static func note(
        _ outcomes: [DeliveryOutcome], on connection: isolated PostgresConnection
    ) throws -> [Line: Int64] {
        let rows = try connection.query(
            """
            WITH told AS MATERIALIZED (
                SELECT * FROM unnest(
                    $2::text[], $3::bigint[], $4::smallint[], $5::bigint[], $6::timestamptz[], $7::bigint[], $8::text[],
                    $9::bigint[], $10::text[]
                ) AS told (endpoint, number, state, pause, at, status, failure, tried, message)
            ), outcome AS MATERIALIZED (\(finding) OFFSET 0) AS held
            )
            UPDATE webhook_delivery AS delivery SET
                state = outcome.state, attempts = delivery.attempts + outcome.tried, is_taken = false,
                due_at = CASE WHEN NOT EXISTS (
                    SELECT FROM webhook_delivery AS earlier WHERE delivery.identity <> 0
                        AND \(Outbox.isInLine("earlier", of: "delivery")) AND earlier.number < delivery.number
                ) THEN clock_timestamp() + outcome.pause * interval '1 ms' END,
                first_at = coalesce(delivery.first_at, outcome.at), last_at = outcome.at, status = outcome.status,
                failure = outcome.failure
            FROM outcome
            WHERE delivery.ledger_id = $1 AND delivery.endpoint = outcome.endpoint AND delivery.number = outcome.number
            RETURNING delivery.endpoint, delivery.identity, delivery.environment, delivery.state
            """,
            [
                .int(ledgerID), .textArray(outcomes.map(\.endpoint)), .intArray(outcomes.map(\.number)),
                .int2Array(outcomes.map(\.result.state.number)),
                .optionalIntArray(outcomes.map(\.result.pause)),
                .timestampArray(outcomes.map(\.at.milliseconds)),
                .optionalIntArray(outcomes.map { $0.status.map { Int64($0) } }), .textArray(outcomes.map(\.failure)),
                .intArray(outcomes.map { $0.result == .dropped ? 0 : 1 }), .textArray(outcomes.map(\.messageID)),
            ]
        ).rows
        var ended: [Line: Int64] = [:]
        for row in rows {
            let line = Line(endpoint: try row.text(0), identity: try row.int(1), environment: try row.int(2))
            guard line.identity != 0, try row.int(3) != Int64(waiting) else { continue }
            ended[line, default: 0] += 1
        }
        return ended
    }

    /// Lets the next delivery of each of these customers become due.
    private static func goOn(_ ended: [Line: Int64], on connection: isolated PostgresConnection) throws {
        guard !ended.isEmpty else { return }
        let lines = ended.keys.sorted()
        let named: [PostgresValue] = [
            .int(ledgerID), .textArray(lines.map(\.endpoint)), .intArray(lines.map(\.identity)),
            .int2Array(lines.map { Int16($0.environment) }),
        ]
        try connection.query(
            """
            UPDATE webhook_line AS line SET waiting = line.waiting - key.ended
            FROM unnest($2::text[], $3::bigint[], $4::smallint[], $5::bigint[]) AS key (endpoint, identity, environment, ended)
            WHERE line.ledger_id = $1 AND line.endpoint = key.endpoint AND line.identity = key.identity
                AND line.environment = key.environment
            """, named + [.intArray(lines.map { ended[$0] ?? 0 })])
        try connection.query(
            """
            WITH next AS MATERIALIZED (
                SELECT key.endpoint, first.number
                FROM unnest($2::text[], $3::bigint[], $4::smallint[]) AS key (endpoint, identity, environment)
                CROSS JOIN LATERAL (
                    SELECT waiting.number, waiting.due_at FROM webhook_delivery AS waiting
                    WHERE \(Outbox.isInLine("waiting", of: "key"))
                    ORDER BY waiting.identity, waiting.environment, waiting.number LIMIT 1
                ) AS first
                WHERE first.due_at IS NULL
            )
            UPDATE webhook_delivery AS delivery SET due_at = clock_timestamp() FROM next
            WHERE delivery.ledger_id = $1 AND delivery.endpoint = next.endpoint AND delivery.number = next.number
            """, named)
    }
}

extension DeliveryOutcome.Result {
    /// Where the delivery stands then.
    var state: DeliveryState {
        switch self {
        case .failed: .waiting
        case .delivered: .delivered
        case .givenUp, .dropped: .failed
        }
    }

    /// In how many milliseconds it is tried again; `nil` where it is not.
    package var pause: Int64? { if case .failed(let pause) = self { pause } else { nil } }
}
