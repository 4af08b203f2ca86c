import EntitlementCore
import PostgresClient

/// The last that endpoints are told of whoever was forgotten: that nothing is left.
///
/// It is written by the transaction that forgets them, for whoever comes later does not know what they were called. The id that the
/// endpoint knew stands in the message alone, and goes as soon as that is delivered or given up; so it lies under no number
/// of theirs, and nothing that is about them finds it.
extension Outbox {
    /// Locks the endpoints that were told of some people, in the order in which all do.
    static func lockThoseTold(of identities: [IdentityRef], on connection: isolated PostgresConnection) throws {
        try connection.query(
            """
            SELECT FROM webhook_endpoint AS endpoint WHERE endpoint.ledger_id = $1 AND EXISTS (
                SELECT FROM webhook_line AS line WHERE line.ledger_id = $1 AND line.endpoint = endpoint.endpoint
                    AND line.identity = ANY ($2::bigint[]))
            ORDER BY endpoint.endpoint FOR UPDATE
            """, [.int(ledgerID), .intArray(identities.map(\.number).sorted())])
    }

    /// What tells that the answer is empty from here on, each endpoint that may have been told of another one.
    ///
    /// It comes before what withdraws the rest, and before the names go; the endpoints are locked.
    ///
    /// - Parameters:
    ///   - position: of the event that says that they were forgotten.
    ///   - instant: when it was recorded.
    static func forgottenNotices(
        to identities: [IdentityRef], at position: Int64, _ instant: Timestamp
    ) -> PostgresStatement {
        // Told is whatever may have come through: what was tried at least once, or is being sent.
        PostgresStatement(
            """
            WITH told AS MATERIALIZED (
                SELECT nextval(pg_get_serial_sequence('webhook_message', 'number')) AS number, endpoint.endpoint,
                    endpoint.app, line.environment, line.sequence + 1 AS sequence, last.after,
                    convert_to(to_jsonb(known.value::text)::text, 'UTF8') AS name
                FROM webhook_endpoint AS endpoint
                CROSS JOIN unnest($2::bigint[]) AS person (identity)
                JOIN webhook_line AS line ON line.ledger_id = $1 AND line.endpoint = endpoint.endpoint
                    AND line.identity = person.identity
                JOIN identity AS known ON known.ledger_id = $1 AND known.identity = person.identity
                CROSS JOIN LATERAL (
                    SELECT count(*) FILTER (
                            WHERE delivery.state = \(DeliveryState.waiting.number) AND delivery.attempts = 0
                                AND NOT delivery.is_taken) AS untold,
                        (array_agg(message.after ORDER BY message.number DESC) FILTER (
                            WHERE delivery.state = \(DeliveryState.delivered.number) OR delivery.attempts > 0
                                OR delivery.is_taken))[1] AS after
                    FROM webhook_message AS message
                    JOIN webhook_delivery AS delivery ON delivery.ledger_id = $1
                        AND delivery.endpoint = endpoint.endpoint AND delivery.number = message.number
                    WHERE message.ledger_id = $1 AND message.identity = person.identity AND message.identity <> 0
                        AND message.environment = line.environment AND message.type = 1
                ) AS last
                WHERE endpoint.ledger_id = $1 AND 1 = ANY (endpoint.types) AND line.sequence > last.untold
                    AND last.after IS DISTINCT FROM '[]'::bytea
            ), message AS (
                INSERT INTO webhook_message (
                    ledger_id, number, type, app, environment, identity, position, at, cause, before, after, body)
                OVERRIDING SYSTEM VALUE
                SELECT $1::bigint::integer, number, 1, app, environment, 0, $3, $4, 1, coalesce(after, '[]'::bytea), '[]'::bytea,
                    name
                FROM told
            ), delivery AS (
                INSERT INTO webhook_delivery (
                    ledger_id, endpoint, number, identity, environment, sequence, due_at)
                SELECT $1::bigint::integer, endpoint, number, 0, environment, sequence, clock_timestamp() FROM told
            )
            UPDATE webhook_endpoint SET due_at = least(due_at, clock_timestamp()),
                clock_at = greatest(clock_at, clock_timestamp())
            WHERE ledger_id = $1 AND endpoint IN (SELECT endpoint FROM told)
            """,
            [
                .int(ledgerID), .intArray(identities.map(\.number).sorted()), .int(position),
                .timestamp(instant.milliseconds),
            ])
    }
}
