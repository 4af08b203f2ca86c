package import EntitlementCore
package import PostgresClient

/// A delivery, as it is listed: never with what was sent.
package struct ListedDelivery: Sendable {
    package let number: Int64
    /// What receivers know the message by; `nil` where the customer was forgotten.
    package let id: String?
    package let state: DeliveryState
    /// `nil` where the customer was forgotten, and so are what it was about.
    package let type: MessageType?
    package let position: Int64?
    package let at: Timestamp?
    package let environment: StoreEnvironment?
    package let customerID: String?
    package let sequence: Int64?
    package let attempts: Int64
    package let firstAt: Timestamp?
    package let lastAt: Timestamp?
    package let dueAt: Timestamp?
    package let status: Int64?
    package let failure: String?
}

/// Lists deliveries, orders them again, and lets go of what is old.
package struct DeliveryList: Sendable {
    /// How long deliveries are kept, in milliseconds.
    package static let retention = 30 * Timestamp.millisecondsPerDay

    let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// Those of an endpoint after a number, in their order.
    package func deliveries(
        of endpoint: String, after number: Int64, limit: Int, state: DeliveryState? = nil
    ) async throws -> [ListedDelivery] {
        try await pool.run(doing: "listing deliveries") { connection in
            try Self.deliveries(of: endpoint, after: number, limit: limit, state: state, on: connection)
        }
    }

    private static func deliveries(
        of endpoint: String, after number: Int64, limit: Int, state: DeliveryState? = nil,
        on connection: isolated PostgresConnection
    ) throws -> [ListedDelivery] {
        try connection.query(
            """
            SELECT delivery.number, delivery.state, message.type, message.position, message.at, message.environment,
                known.value, delivery.sequence, delivery.attempts, delivery.first_at, delivery.last_at,
                delivery.due_at, delivery.status, delivery.failure, message.id::text
            FROM webhook_delivery AS delivery
            LEFT JOIN webhook_message AS message ON message.ledger_id = $1 AND message.number = delivery.number
            LEFT JOIN identity AS known ON known.ledger_id = $1 AND known.identity = delivery.identity
            WHERE delivery.ledger_id = $1 AND delivery.endpoint = $2 AND delivery.number > $3
                \(state.map { "AND delivery.state = \($0.number)" } ?? "")
            ORDER BY delivery.number LIMIT \(limit)
            """, [.int(ledgerID), .text(endpoint), .int(number)]
        ).rows.map { try ListedDelivery($0) }
    }

    /// Sends an endpoint something to try it with.
    ///
    /// - Parameters:
    ///   - body: what is sent as `data`.
    ///   - command: under the same it is sent once.
    ///   - show: the delivery as it is answered.
    /// - Returns: the answer; `nil` where the endpoint is not followed yet.
    /// - Throws: `AppendRefusal.idempotencyConflict` where the command's key was another's, else `LedgerError`.
    package func test(
        _ endpoint: String, body: [UInt8], at instant: Timestamp, once command: KeyedCommand? = nil,
        show: @Sendable (ListedDelivery) throws -> [UInt8]
    ) async throws -> [UInt8]? {
        let sent: Result<[UInt8]?, AppendRefusal> = try await pool.run(doing: "trying an endpoint") { connection in
            try connection.transaction { connection in
                switch try command?.take(on: connection) {
                case .something(let answer): return .success(answer)
                case .other: return .failure(.idempotencyConflict)
                case .nothing, nil: break
                }
                guard let number = try Outbox.test(endpoint, body: body, at: instant, on: connection),
                    let made = try Self.deliveries(of: endpoint, after: number - 1, limit: 1, on: connection).first
                else { return .success(nil) }
                let answer = try show(made)
                try command?.keep(answer, on: connection)
                return .success(answer)
            }
        }
        return try sent.get()
    }

    /// What one step of letting go of old deliveries did.
    package struct Pruning: Sendable {
        /// Whether more is left.
        package let isMore: Bool
        /// How many were never delivered, by endpoint.
        package let undelivered: [String: Int64]
    }

    /// Gives up what waits for longer than deliveries are kept, and lets go of what is older; a step of bounded size.
    package func prune(now: Timestamp, limit: Int = 1000) async throws -> Pruning {
        let oldest = now.adding(milliseconds: -Self.retention)
        let register = DeliveryRegister(pool: pool)
        let said = try await letGoOfForgottenNotices(now: now, limit: limit, register)
        let (old, waiting) = try await pool.run(doing: "letting go of old deliveries") { connection in
            // By when they were made: by their numbers, those that are not old would be gone through each time.
            let old = try connection.query(
                "SELECT number FROM webhook_message WHERE ledger_id = $1 AND at < $2 ORDER BY at LIMIT \(limit)",
                [.int(ledgerID), .timestamp(oldest.milliseconds)]
            ).rows.map { try $0.int(0) }
            return (old, try Self.waiting(old, on: connection))
        }
        try await register.note(
            waiting.map {
                DeliveryOutcome(
                    endpoint: $0.endpoint, number: $0.number, messageID: $0.message, result: .dropped, at: now,
                    status: nil, failure: "it waited for longer than deliveries are kept")
            })
        let isMore = try await pool.run(doing: "letting go of old deliveries") { connection in
            try connection.transaction { connection in
                // Where a failover has lost one, its number may be a younger one's by now.
                let gone = try connection.query(
                    """
                    DELETE FROM webhook_message WHERE ledger_id = $1 AND number = ANY ($2::bigint[]) AND at < $3
                    RETURNING number
                    """, [.int(ledgerID), .intArray(old), .timestamp(oldest.milliseconds)]
                ).rows.map { try $0.int(0) }
                try connection.query(
                    "DELETE FROM webhook_delivery WHERE ledger_id = $1 AND number = ANY ($2::bigint[])",
                    [.int(ledgerID), .intArray(gone)])
                // What was withdrawn has no message any more: its turn comes with the numbers around it.
                let withdrawn = try connection.query(
                    """
                    DELETE FROM webhook_delivery AS gone WHERE gone.ledger_id = $1 AND (gone.endpoint, gone.number) IN (
                        SELECT endpoint, number FROM webhook_delivery
                        WHERE ledger_id = $1 AND state = \(DeliveryState.withdrawn.number) AND last_at < $2
                        ORDER BY last_at LIMIT \(limit))
                    """, [.int(ledgerID), .timestamp(oldest.milliseconds)]
                ).affectedRows
                let removed = try Self.deleteRemoved(limit, on: connection)
                return said || old.count == limit || withdrawn == limit || removed
            }
        }
        return Pruning(
            isMore: isMore, undelivered: waiting.reduce(into: [:]) { $0[$1.endpoint, default: 0] += 1 })
    }

    /// Gives up the last words about whoever was forgotten that could not be said in as long as is tried.
    ///
    /// Such are those to an endpoint that is paused, or removed. Returns whether more is left.
    private func letGoOfForgottenNotices(now: Timestamp, limit: Int, _ register: DeliveryRegister) async throws -> Bool
    {
        let oldest = now.adding(milliseconds: -DeliverySchedule.patience)
        let numbers = try await pool.run(doing: "letting go of old deliveries") { connection in
            try connection.query(
                """
                UPDATE webhook_message SET body = NULL, before = NULL, after = NULL
                WHERE ledger_id = $1 AND number IN (
                    SELECT number FROM webhook_message WHERE ledger_id = $1 AND type = 1 AND identity = 0
                        AND body IS NOT NULL AND at < $2 ORDER BY at LIMIT \(limit))
                RETURNING number
                """, [.int(ledgerID), .timestamp(oldest.milliseconds)]
            ).rows.map { try $0.int(0) }
        }
        guard !numbers.isEmpty else { return false }
        let waiting = try await pool.run(doing: "letting go of old deliveries") { try Self.waiting(numbers, on: $0) }
        try await register.note(
            waiting.map {
                DeliveryOutcome(
                    endpoint: $0.endpoint, number: $0.number, messageID: $0.message, result: .dropped, at: now,
                    status: nil, failure: "the customer was forgotten, and it waited for longer than is tried")
            })
        return numbers.count == limit
    }

    /// What of some messages waits to be sent.
    private static func waiting(
        _ numbers: [Int64], on connection: isolated PostgresConnection
    ) throws -> [(endpoint: String, number: Int64, message: String)] {
        guard !numbers.isEmpty else { return [] }
        return try connection.query(
            """
            SELECT delivery.endpoint, delivery.number, message.id::text
            FROM webhook_delivery AS delivery
            JOIN webhook_message AS message ON message.ledger_id = $1 AND message.number = delivery.number
            WHERE delivery.ledger_id = $1 AND delivery.number = ANY ($2::bigint[])
                AND delivery.state = \(DeliveryState.waiting.number)
            """, [.int(ledgerID), .intArray(numbers)]
        ).rows.map { (endpoint: try $0.text(0), number: try $0.int(1), message: try $0.text(2)) }
    }

    /// Lets go of what was a removed endpoint's; returns whether more is left.
    private static func deleteRemoved(_ limit: Int, on connection: isolated PostgresConnection) throws -> Bool {
        var isMore = false
        for table in ["webhook_line", "webhook_delivery"] {
            // From one endpoint's rows to the next one's, by index: few endpoints, many rows.
            let deleted = try connection.query(
                """
                WITH RECURSIVE named AS (
                    (SELECT endpoint FROM \(table) WHERE ledger_id = $1 ORDER BY endpoint LIMIT 1)
                    UNION ALL
                    SELECT (SELECT next.endpoint FROM \(table) AS next
                        WHERE next.ledger_id = $1 AND next.endpoint > named.endpoint ORDER BY next.endpoint LIMIT 1)
                    FROM named WHERE named.endpoint IS NOT NULL
                ), gone AS MATERIALIZED (
                    SELECT old.ctid AS place FROM named JOIN \(table) AS old ON old.endpoint = named.endpoint
                    WHERE old.ledger_id = $1 AND NOT EXISTS (
                        SELECT FROM webhook_endpoint AS endpoint
                        WHERE endpoint.ledger_id = $1 AND endpoint.endpoint = named.endpoint)
                    LIMIT \(limit)
                )
                DELETE FROM \(table) USING gone WHERE \(table).ctid = gone.place
                """, [.int(ledgerID)]
            ).affectedRows
            isMore = isMore || deleted == limit
        }
        return isMore
    }
}

extension ListedDelivery {
    fileprivate init(_ row: PostgresRow) throws {
        number = try row.int(0)
        state = try DeliveryState(stored: row.int(1))
        type = try row.optionalInt(2).map { try MessageType(stored: $0) }
        position = try row.optionalInt(3)
        at = try row.optionalInstant(4)
        environment = try row.optionalInt(5).flatMap { $0 == 0 ? nil : try StoreEnvironment(stored: $0) }
        customerID = try row.optionalText(6)
        sequence = try row.optionalInt(7)
        attempts = try row.int(8)
        firstAt = try row.optionalInstant(9)
        lastAt = try row.optionalInstant(10)
        dueAt = state == .waiting ? try row.optionalInstant(11) : nil
        status = try row.optionalInt(12)
        failure = try row.optionalText(13)
        id = try row.optionalText(14)
    }
}
