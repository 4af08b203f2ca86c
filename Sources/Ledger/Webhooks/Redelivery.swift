package import EntitlementCore
import PostgresClient

/// What is to be sent again; in each case what waits for its next try is tried now, too.
package enum Redelivery: Sendable, Hashable {
    /// What is about these positions of the log.
    case positions(ClosedRange<Int64>)
    /// What was given up.
    case failed
    /// What there was to tell from one instant on, and before another; `nil`: up to now.
    case span(since: Timestamp, until: Timestamp?)
    /// One message, by what receivers know it by, as table `webhook_message` has it.
    case message(String)
}

/// What came of an order to send again.
package struct Redelivered: Sendable, Hashable {
    /// How many deliveries wait now.
    package let count: Int
    /// Behind which number there is more than may be ordered at once; `nil`: that was all.
    package let next: Int64?
}

extension DeliveryList {
    /// The most that is sent again by one order.
    package static let redeliveryLimit = 10_000
    /// How many in one transaction, which holds up whatever else is about the endpoint.
    private static let redeliveryPage = 500

    /// Sends again, in the order in which it was first to be sent.
    ///
    /// It is done in pages, each of which counts by itself: what is ordered again after a failure was in part done already.
    ///
    /// - Parameters:
    ///   - after: what comes after this number alone: ``Redelivered/next`` of the order before.
    ///   - limit: the most.
    package func redeliver(
        _ redelivery: Redelivery, to endpoint: String, after: Int64 = 0, limit: Int = redeliveryLimit
    ) async throws -> Redelivered {
        let found = try await numbers(of: redelivery, to: endpoint, after: after, limit: limit + 1)
        let numbers = found.prefix(limit)
        var count = 0
        for start in stride(from: 0, to: numbers.count, by: Self.redeliveryPage) {
            try Task.checkCancellation()
            let page = Array(numbers[start..<min(start + Self.redeliveryPage, numbers.count)])
            count += try await pool.run(doing: "ordering deliveries again") { connection in
                try connection.transaction { connection in
                    try Outbox.lock([endpoint], on: connection)
                    let hurried = try Outbox.hurry(endpoint, page, on: connection)
                    return try hurried + Outbox.wait(page, for: endpoint, on: connection)
                }
            }
        }
        return Redelivered(count: count, next: found.count > limit ? numbers.last : nil)
    }

    /// Whether an endpoint was to be told a message.
    package func holds(_ message: String, to endpoint: String) async throws -> Bool {
        try await pool.run(doing: "looking for a delivery") { connection in
            try connection.query(
                """
                SELECT EXISTS (
                    SELECT FROM webhook_message AS message
                    JOIN webhook_delivery AS delivery ON delivery.ledger_id = $1 AND delivery.endpoint = $2
                        AND delivery.number = message.number
                    WHERE message.ledger_id = $1 AND message.id = $3::uuid)
                """, [.int(ledgerID), .text(endpoint), .text(message)]
            ).row(0).bool(0)
        }
    }

    /// What ended, or waits for its next try; found outside of any lock.
    private func numbers(
        of redelivery: Redelivery, to endpoint: String, after: Int64, limit: Int
    ) async throws -> [Int64] {
        let (states, condition, values): ([Int16], String, [PostgresValue]) =
            switch redelivery {
            case .positions(let positions):
                ([2, 3], "position BETWEEN $5 AND $6", [.int(positions.lowerBound), .int(positions.upperBound)])
            case .failed: ([3], "true", [])
            case .span(let since, let until):
                (
                    [2, 3], "at >= $5 AND at < $6",
                    [.timestamp(since.milliseconds), .timestamp((until ?? .latest).milliseconds)]
                )
            case .message(let id): ([2, 3], "id = $5::uuid", [.text(id)])
            }
        let chosen =
            values.isEmpty
            ? """
            SELECT number FROM webhook_delivery
            WHERE ledger_id = $1 AND endpoint = $2 AND number > $3 AND state IN (1, 3)
            """
            : "SELECT number FROM webhook_message WHERE ledger_id = $1 AND number > $3 AND \(condition)"
        return try await pool.run(doing: "looking for deliveries to be sent again") { connection in
            try connection.transaction(.readCommittedReadOnly) { connection in
                try connection.goByIndex()
                return try connection.query(
                    """
                    WITH chosen AS MATERIALIZED (\(chosen))
                    SELECT delivery.number FROM chosen
                    JOIN webhook_delivery AS delivery ON delivery.ledger_id = $1 AND delivery.endpoint = $2
                        AND delivery.number = chosen.number
                    JOIN webhook_message AS message ON message.ledger_id = $1 AND message.number = chosen.number
                    WHERE delivery.state = ANY ($4::smallint[])
                        OR (delivery.state = 1 AND delivery.due_at > clock_timestamp() AND NOT delivery.is_taken)
                    ORDER BY delivery.number LIMIT \(limit)
                    """, [.int(ledgerID), .text(endpoint), .int(after), .int2Array(states)] + values
                ).rows.map { try $0.int(0) }
            }
        }
    }
}
