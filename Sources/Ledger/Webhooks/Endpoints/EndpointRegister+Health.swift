package import EntitlementCore
import PostgresClient

/// How an endpoint fares.
package struct EndpointStanding: Sendable, Hashable {
    /// Since when it took nothing; `nil` where it took the last.
    package let failingSince: Timestamp?
    /// Until when it asked to be left alone; `nil` where that is over.
    package let heldUntil: Timestamp?
    /// How many deliveries wait, and were given up.
    package let waiting: Int64
    package let failed: Int64
}

/// How all endpoints fare.
package struct EndpointHealth: Sendable, Hashable {
    /// Those that took the last message, or had none yet.
    package let active: Int64
    package let failing: Int64
    package let paused: Int64
    /// Since when the one fails that fails the longest.
    package let failingSince: Timestamp?
    /// When the delivery was due that waits the longest to be sent; `nil` where none is late.
    package let overdueSince: Timestamp?
    /// Since when something came into the log, or has run out, that was not looked at yet; `nil` where nothing is left.
    package let untoldSince: Timestamp?
}

extension EndpointRegister {
    /// How some endpoints fare.
    package func standings(of endpoints: [String]) async throws -> [String: EndpointStanding] {
        try await pool.run(doing: "looking how webhooks fare") { connection in
            let rows = try connection.query(
                """
                SELECT endpoint.endpoint, endpoint.failing_since,
                    CASE WHEN endpoint.held_until > clock_timestamp() THEN endpoint.held_until END,
                    (SELECT count(*) FROM webhook_delivery AS waiting WHERE waiting.ledger_id = $1
                        AND waiting.endpoint = endpoint.endpoint
                        AND waiting.state = \(DeliveryState.waiting.number)),
                    (SELECT count(*) FROM webhook_delivery AS failed WHERE failed.ledger_id = $1
                        AND failed.endpoint = endpoint.endpoint AND failed.state = \(DeliveryState.failed.number))
                FROM webhook_endpoint AS endpoint
                WHERE endpoint.ledger_id = $1 AND endpoint.endpoint = ANY ($2::text[])
                """, [.int(ledgerID), .textArray(endpoints)]
            ).rows
            return Dictionary(
                uniqueKeysWithValues: try rows.map { row in
                    (
                        try row.text(0),
                        EndpointStanding(
                            failingSince: try row.optionalInstant(1),
                            heldUntil: try row.optionalInstant(2),
                            waiting: try row.int(3), failed: try row.int(4))
                    )
                })
        }
    }

    /// The ids of those to which nothing can be sent, because the database has lost their row, their address or their secret.
    package func lost(now: Timestamp) async throws -> Set<String> {
        // Before the log is read: what it says later has no row yet, or one still.
        let (stored, followed) = try await pool.run(doing: "looking how webhooks fare") { connection in
            (
                Set(
                    try connection.query(
                        "SELECT endpoint FROM webhook_endpoint WHERE ledger_id = $1", [.int(ledgerID)]
                    ).rows.map { try $0.text(0) }), try WebhookProjector.row.checkpoint(on: connection)
            )
        }
        try await refresh()
        let lost = endpoints.filter { endpoint in
            endpoint.position <= followed && !stored.contains(endpoint.id) || target(endpoint.id, now: now) == nil
        }
        return Set(lost.map(\.id))
    }

    /// How all of them fare.
    package func health() async throws -> EndpointHealth {
        try await pool.run(doing: "looking how webhooks fare") { connection in
            let row = try connection.query(
                """
                SELECT count(*) FILTER (WHERE NOT is_paused AND failing_since IS NULL),
                    count(*) FILTER (WHERE NOT is_paused AND failing_since IS NOT NULL),
                    count(*) FILTER (WHERE is_paused), min(failing_since) FILTER (WHERE NOT is_paused),
                    min(greatest(due_at, held_until)) FILTER (
                        WHERE NOT is_paused AND greatest(due_at, held_until) <= clock_timestamp()),
                    least((
                        SELECT event.recorded_at FROM projection
                        JOIN event ON event.ledger_id = $1 AND event.position = projection.checkpoint + 1
                        WHERE projection.ledger_id = $1 AND projection.name = $2
                    ), (
                        SELECT next_at FROM answer_watch
                        WHERE ledger_id = $1 AND next_at <= clock_timestamp() ORDER BY next_at LIMIT 1
                    ))
                FROM webhook_endpoint WHERE ledger_id = $1
                """, [.int(ledgerID), .text(WebhookProjector.row.name)]
            ).row(0)
            return EndpointHealth(
                active: try row.int(0), failing: try row.int(1), paused: try row.int(2),
                failingSince: try row.optionalInstant(3),
                overdueSince: try row.optionalInstant(4), untoldSince: try row.optionalInstant(5))
        }
    }
}
