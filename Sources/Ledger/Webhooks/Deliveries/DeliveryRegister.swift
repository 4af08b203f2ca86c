package import EntitlementCore
package import PostgresClient

/// A delivery that is due.
package struct DueDelivery: Sendable {
    package let endpoint: String
    /// Since when the endpoint took nothing; `nil` where it took the last.
    package let failingSince: Timestamp?
    package let number: Int64
    /// What receivers know the message by.
    package let id: String
    /// As table `webhook_message` holds it: who may hear of it.
    package let audience: String
    package let type: MessageType
    package let environment: StoreEnvironment?
    /// Whom it is about; `nil` where it is about nobody.
    package let customerID: String?
    package let sequence: Int64?
    package let position: Int64
    package let at: Timestamp
    /// When it was found, as the endpoint is told: later than what it was told of the same customer before.
    package let toldAt: Timestamp
    /// Of a changed answer, with the list `entitlements` before and after, as it is sent.
    package let change: (cause: AnswerCause, before: [UInt8], after: [UInt8])?
    /// Of what is neither a changed answer nor an event of the log: what is sent as `data`.
    package let body: [UInt8]?
    /// How many attempts failed, and when the first was made.
    package let attempts: Int
    package let firstAt: Timestamp?

    /// Whether it is the last that is told of somebody who was forgotten; then `body` is their id, as JSON.
    package var isForgottenNotice: Bool { type == .entitlementsChanged && customerID == nil && body != nil }
}

/// What came of an attempt to deliver.
package struct DeliveryOutcome: Sendable {
    package enum Result: Sendable, Hashable {
        case delivered
        /// To be tried again after so many milliseconds.
        case failed(pause: Int64)
        case givenUp
        /// Nothing was tried, for there is nothing to send; it says nothing of the endpoint.
        case dropped
    }

    package let endpoint: String
    package let number: Int64
    /// The id of its message: after a failover the number may be another's.
    package let messageID: String
    package let result: Result
    package let at: Timestamp
    /// The HTTP status of the answer; `nil` where none came.
    package let status: Int?
    /// Why it was not taken, in a few words.
    package let failure: String?
    /// How long its receiver asks to be left alone with everything, in milliseconds; `nil`: it does not.
    package let hold: Int64?
    /// Whether what was to be sent is let go of when that has ended.
    package let isForgottenNotice: Bool

    package init(
        endpoint: String, number: Int64, messageID: String, result: Result, at: Timestamp, status: Int?,
        failure: String?, hold: Int64? = nil, isForgottenNotice: Bool = false
    ) {
        (self.endpoint, self.number, self.messageID, self.result) = (endpoint, number, messageID, result)
        (self.at, self.status, self.failure) = (at, status, failure)
        (self.hold, self.isForgottenNotice) = (hold, isForgottenNotice)
    }
}

/// Hands out the deliveries that are due, and records their outcomes.
///
/// A delivery that was handed out is due again after a while unless its outcome is recorded, so another process sends it
/// again if this one dies. Of each customer one delivery is due at a time, so an endpoint hears of each customer in order,
/// however many processes send to it.
package struct DeliveryRegister: Sendable {
    /// The most deliveries of one endpoint that are handed out at once; of an endpoint that fails, one at a time.
    package static let endpointLimit = 64

    let pool: PostgresPool
    let patience: Duration
    private let retryPage: Int
    private let skipped: SkippedRows
    /// The same for endpoints of RevenueCat's format, at the least, in seconds: their receivers have a minute for an answer.
    static let longPatience = 90

    /// - Parameters:
    ///   - patience: after how long another process may send what was handed out; more than an attempt takes.
    ///   - retryPage: of how many deliveries at once the next try is put forward.
    package init(
        pool: PostgresPool, patience: Duration = .seconds(60), retryPage: Int = 5000,
        skipped: SkippedRows = SkippedRows()
    ) {
        (self.pool, self.patience, self.retryPage, self.skipped) = (pool, patience, retryPage, skipped)
    }

    /// Takes what is due, of those endpoints first that wait the longest.
    ///
    /// - Parameters:
    ///   - full: those of which nothing is taken.
    ///   - limit: the most endpoints.
    ///   - total: the most deliveries.
    ///   - room: how many of one are taken at the most, 1 or more; of one that takes nothing, one.
    package func take(
        full: [String] = [], limit: Int, total: Int = 1000,
        room: @Sendable (_ endpoint: String) -> Int = { _ in endpointLimit }
    ) async throws -> [DueDelivery] {
        try await pool.run(doing: "delivering webhooks") { connection in
            // A look first: where nothing is due, there is no transaction.
            let isDue = try connection.query(
                "SELECT EXISTS (SELECT FROM webhook_endpoint WHERE \(Self.isReady("statement_timestamp()")))",
                [.int(ledgerID), .textArray(full)]
            ).row(0).bool(0)
            guard isDue else {
                skipped.noteTaken()
                return []
            }
            let due: [DueDelivery]? = try connection.transaction { connection in
                // First the locks: what is added until then is seen by what follows, and whatever comes later moves the row again.
                let ready = try connection.query(
                    """
                    SELECT endpoint, is_hurried FROM webhook_endpoint
                    WHERE \(Self.isReady("clock_timestamp()"))
                    ORDER BY due_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
                    """,
                    [.int(ledgerID), .textArray(full)]
                ).rows.map { (endpoint: try $0.text(0), isHurried: try $0.bool(1)) }.sorted {
                    $0.endpoint < $1.endpoint
                }
                guard !ready.isEmpty else { return nil }
                try Outbox.retryNow(ready.filter(\.isHurried).map(\.endpoint), limit: retryPage, on: connection)
                return try connection.query(
                    Self.taking,
                    [
                        .int(ledgerID), .textArray(ready.map(\.endpoint)),
                        .intArray(ready.map { Int64(room($0.endpoint)) }),
                        .double(patience / .seconds(1)), .int(Int64(total)),
                    ]
                ).rows.map { try DueDelivery($0) }
            }
            if due != nil {
                skipped.noteTaken()
            } else {
                // Whoever sends to them all lets go of them in between.
                try skipped.noteSkipped(on: connection) { _ in 0 }
            }
            return due ?? []
        }
    }

    /// Whether something is to be sent to an endpoint, and more of it may be under way.
    private static func isReady(_ instant: String) -> String {
        """
        ledger_id = $1 AND due_at <= \(instant) AND NOT is_paused AND (held_until IS NULL OR held_until <= \(instant))
            AND endpoint <> ALL ($2::text[])
        """
    }

    /// It compares with one instant, which is later than the locks: what becomes due between a look for what is due and a look for
    /// what is due later would be seen by neither, and wait for ever.
    private static let taking = """
        WITH share AS MATERIALIZED (
            SELECT endpoint.endpoint, endpoint.failing_since,
                CASE WHEN starts_with(endpoint.app, '\(EndpointAudience.mark)') THEN greatest($4::float8, \(longPatience))
                    ELSE $4::float8 END AS patience,
                CASE WHEN endpoint.failing_since IS NULL THEN room.count ELSE 1 END AS count
            FROM unnest($2::text[], $3::bigint[]) AS room (endpoint, count)
            JOIN webhook_endpoint AS endpoint ON endpoint.ledger_id = $1 AND endpoint.endpoint = room.endpoint
        ), found AS MATERIALIZED (
            -- One more of each than is taken says whether more is due.
            SELECT share.endpoint, share.failing_since, share.patience, own.*, own.place <= share.count
                AND row_number() OVER (PARTITION BY own.place <= share.count ORDER BY own.place, share.endpoint) <= $5 AS is_due
            FROM share LEFT JOIN LATERAL (
                SELECT number, identity, sequence, told_at, attempts, first_at,
                    row_number() OVER (ORDER BY delivery.due_at, delivery.number) AS place
                FROM webhook_delivery AS delivery
                WHERE delivery.ledger_id = $1 AND delivery.endpoint = share.endpoint
                    AND delivery.due_at <= statement_timestamp()
                ORDER BY delivery.due_at, delivery.number LIMIT share.count + 1
            ) AS own ON true
        ), taken AS (
            UPDATE webhook_delivery AS delivery SET
                due_at = statement_timestamp() + make_interval(secs => found.patience), is_taken = true
            FROM found WHERE found.is_due
                AND delivery.ledger_id = $1 AND delivery.endpoint = found.endpoint AND delivery.number = found.number
        ), moved AS (
            UPDATE webhook_endpoint AS endpoint SET due_at = CASE
                WHEN rest.is_more OR endpoint.is_hurried THEN statement_timestamp()
                ELSE least(
                    (SELECT min(later.due_at) FROM webhook_delivery AS later
                     WHERE later.ledger_id = $1 AND later.endpoint = rest.endpoint AND later.due_at > statement_timestamp()),
                    CASE WHEN rest.is_taken THEN statement_timestamp() + make_interval(secs => rest.patience) END)
                END, clock_at = greatest(endpoint.clock_at, clock_timestamp())
            FROM (
                SELECT endpoint, patience, bool_or(is_due) AS is_taken, bool_or(number IS NOT NULL AND NOT is_due) AS is_more
                FROM found GROUP BY endpoint, patience
            ) AS rest
            WHERE endpoint.ledger_id = $1 AND endpoint.endpoint = rest.endpoint
        )
        SELECT due.endpoint, due.failing_since, due.number, message.type, message.environment, known.value, due.sequence,
            message.position, message.at, message.cause, message.before, message.after, message.body, due.attempts,
            due.first_at, message.id::text, message.app, coalesce(due.told_at, message.at)
        FROM found AS due
        JOIN webhook_message AS message ON message.ledger_id = $1 AND message.number = due.number
        LEFT JOIN identity AS known ON known.ledger_id = $1 AND known.identity = due.identity
        WHERE due.is_due
        ORDER BY due.number
        """
}

extension DueDelivery {
    /// Whether the log says, too, that an endpoint is told of it: what the database says alone anybody may have written who can
    /// write there.
    package func isMeant(for endpoint: Endpoint) -> Bool {
        audience == EndpointAudience(bundleID: endpoint.terms.bundleID, format: endpoint.terms.knownFormat).name
            && endpoint.wants(type, in: environment)
    }

    fileprivate init(_ row: PostgresRow) throws {
        endpoint = try row.text(0)
        failingSince = try row.optionalInstant(1)
        number = try row.int(2)
        type = try MessageType(stored: row.int(3))
        environment = try row.optionalInt(4).flatMap { $0 == 0 ? nil : try StoreEnvironment(stored: $0) }
        customerID = try row.optionalText(5)
        sequence = try row.optionalInt(6)
        position = try row.int(7)
        at = try row.instant(8)
        let (cause, before, after) = (try row.optionalInt(9), try row.optionalBytes(10), try row.optionalBytes(11))
        if let cause, let before, let after {
            change = (try AnswerCause(stored: cause), before, after)
        } else {
            change = nil
        }
        body = try row.optionalBytes(12)
        attempts = Int(try row.int(13))
        firstAt = try row.optionalInstant(14)
        id = try row.text(15)
        audience = try row.text(16)
        toldAt = try row.instant(17)
    }
}
