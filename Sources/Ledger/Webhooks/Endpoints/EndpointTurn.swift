package import EntitlementCore
import PostgresClient

/// That an endpoint has taken nothing for a while, or takes messages again; noted once, by one process.
package struct EndpointTurn: Sendable, Hashable {
    package let endpoint: String
    package let isFailing: Bool
    /// Since when it takes nothing, or took nothing.
    package let since: Timestamp

    /// Notes whether endpoints take something, and when they are looked at again; they are locked.
    static func note(
        _ outcomes: [DeliveryOutcome], on connection: isolated PostgresConnection
    ) throws -> [EndpointTurn] {
        let groups = Dictionary(grouping: outcomes, by: \.endpoint).sorted { $0.key < $1.key }
        func isTaking(_ outcomes: [DeliveryOutcome]) -> Bool { outcomes.contains { $0.result == .delivered } }
        func tried(_ outcomes: [DeliveryOutcome]) -> [DeliveryOutcome] { outcomes.filter { $0.result != .dropped } }
        let rows = try connection.query(
            """
            WITH outcome AS MATERIALIZED (
                SELECT new.*, known.failing_since, known.is_failure_told,
                    CASE WHEN new.failed_at IS NOT NULL THEN coalesce(known.failing_since, new.failed_at)
                        WHEN NOT new.is_taking THEN known.failing_since END AS fails_since
                FROM unnest($2::text[], $3::timestamptz[], $4::bigint[], $5::boolean[], $6::bigint[])
                    AS new (endpoint, failed_at, pause, is_taking, hold)
                JOIN webhook_endpoint AS known ON known.ledger_id = $1 AND known.endpoint = new.endpoint
            )
            UPDATE webhook_endpoint AS endpoint SET
                failing_since = outcome.fails_since,
                is_failure_told = CASE WHEN outcome.fails_since IS NULL THEN false ELSE outcome.is_failure_told
                    OR coalesce(outcome.fails_since <= outcome.failed_at - interval '\(DeliveryRegister.longFailure) s', false) END,
                held_until = greatest(endpoint.held_until, clock_timestamp() + outcome.hold * interval '1 ms'),
                due_at = least(endpoint.due_at, clock_timestamp() + outcome.pause * interval '1 ms'),
                clock_at = greatest(endpoint.clock_at, clock_timestamp())
            FROM outcome WHERE endpoint.ledger_id = $1 AND endpoint.endpoint = outcome.endpoint
            RETURNING endpoint.endpoint, outcome.is_failure_told, endpoint.is_failure_told,
                coalesce(outcome.fails_since, outcome.failing_since)
            """,
            [
                .int(ledgerID), .textArray(groups.map(\.key)),
                .timestampArray(
                    groups.map { _, outcomes in
                        isTaking(outcomes) ? nil : tried(outcomes).map(\.at.milliseconds).max()
                    }),
                // Of those that ended others may come next, at once.
                .intArray(groups.map { _, outcomes in outcomes.map { $0.result.pause ?? 0 }.min() ?? 0 }),
                .boolArray(groups.map { _, outcomes in isTaking(outcomes) }),
                .optionalIntArray(groups.map { _, outcomes in outcomes.compactMap(\.hold).max() }),
            ]
        ).rows
        return try rows.compactMap { row in
            let (before, after) = (try row.bool(1), try row.bool(2))
            guard before != after, let since = try row.optionalTimestamp(3) else { return nil }
            return EndpointTurn(
                endpoint: try row.text(0), isFailing: after, since: Timestamp(milliseconds: since))
        }
    }
}
