import PostgresClient

// Deliveries that wait for their next attempt are sent at once when an endpoint takes messages again, is resumed or has
// moved.
//
// That may be a delivery of each of very many customers. So a mark is set on the endpoint, and the processes that take
// what is due do it in pages; should one die, the next goes on.
extension Outbox {
    /// Whether a delivery was not taken, and is to be tried again later.
    static func isTriedLater(_ delivery: String) -> String {
        """
        \(delivery).state = \(DeliveryState.waiting.number) AND \(delivery).due_at > statement_timestamp()
            AND NOT \(delivery).is_taken
        """
    }

    /// Notes that whatever an endpoint is to be sent again later is due now.
    static func retryNow(_ endpoint: String, on connection: isolated PostgresConnection) throws {
        try connection.query(
            """
            UPDATE webhook_endpoint SET is_hurried = true, due_at = clock_timestamp()
            WHERE ledger_id = $1 AND endpoint = $2
            """, [.int(ledgerID), .text(endpoint)])
    }

    /// Lets some of what waits for its next try be due now; the endpoints are locked.
    ///
    /// - Parameters:
    ///   - endpoints: those of which that is noted.
    ///   - limit: the most deliveries.
    static func retryNow(
        _ endpoints: [String], limit: Int, on connection: isolated PostgresConnection
    ) throws {
        var left = limit
        for endpoint in endpoints where left > 0 {
            let named: [PostgresValue] = [.int(ledgerID), .text(endpoint)]
            // The instant is one for the whole statement, so that the index leads past what is due already. Whatever has an
            // instant waits; were that said once more, the index of all that waits could be taken, which has no order of time.
            let hurried = try connection.query(
                """
                UPDATE webhook_delivery AS delivery SET due_at = clock_timestamp()
                WHERE delivery.ledger_id = $1 AND delivery.endpoint = $2 AND delivery.number IN (
                    SELECT later.number FROM webhook_delivery AS later
                    WHERE later.ledger_id = $1 AND later.endpoint = $2 AND later.due_at > statement_timestamp()
                        AND NOT later.is_taken
                    ORDER BY later.due_at LIMIT \(left))
                """, named
            ).affectedRows
            if hurried < left {
                try connection.query(
                    "UPDATE webhook_endpoint SET is_hurried = false WHERE ledger_id = $1 AND endpoint = $2", named)
            }
            left -= hurried
        }
    }

    /// Lets some deliveries that wait for their next try be due now; the endpoint is locked.
    ///
    /// - Returns: how many of them did.
    static func retryNow(
        _ endpoint: String, _ numbers: [Int64], on connection: isolated PostgresConnection
    ) throws -> Int {
        let named: [PostgresValue] = [.int(ledgerID), .text(endpoint)]
        let hurried = try connection.query(
            """
            UPDATE webhook_delivery AS delivery SET due_at = clock_timestamp()
            WHERE delivery.ledger_id = $1 AND delivery.endpoint = $2 AND delivery.number = ANY ($3::bigint[])
                AND \(isTriedLater("delivery"))
            """, named + [.intArray(numbers)]
        ).affectedRows
        if hurried > 0 {
            try connection.query(
                "UPDATE webhook_endpoint SET due_at = clock_timestamp() WHERE ledger_id = $1 AND endpoint = $2", named)
        }
        return hurried
    }
}
