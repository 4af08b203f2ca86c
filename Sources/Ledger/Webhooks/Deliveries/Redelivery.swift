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

    package init(count: Int, next: Int64?) { (self.count, self.next) = (count, next) }

    /// What is kept under the key of an order; `nil` where the order was not carried out to its end.
    package init?(kept bytes: [UInt8]) {
        guard let progress = RedeliveryProgress(bytes), progress.isDone else { return nil }
        self.init(progress)
    }

    fileprivate init(_ progress: RedeliveryProgress) { self.init(count: progress.count, next: progress.next) }
}

/// How far an order to send again has come.
private struct RedeliveryProgress: Sendable {
    /// Up to which number it is done.
    var after: Int64
    /// How many deliveries were gone through, and how many of them wait by that.
    var taken: Int = 0
    var count: Int = 0
    var isDone = false
    var next: Int64?

    init(after: Int64) { self.after = after }

    /// Reads what is kept under a key.
    init?(_ bytes: [UInt8]) {
        let numbers = String(decoding: bytes, as: UTF8.self).split(separator: " ").map { Int64($0) }
        guard numbers.count == 5, let after = numbers[0], let taken = numbers[1], let count = numbers[2],
            let done = numbers[3]
        else { return nil }
        (self.after, self.taken, self.count, isDone, next) = (after, Int(taken), Int(count), done == 1, numbers[4])
    }

    /// What is kept under a key.
    var bytes: [UInt8] { Array("\(after) \(taken) \(count) \(isDone ? 1 : 0) \(next.map { "\($0)" } ?? "-")".utf8) }
}

extension DeliveryList {
    /// The most that is sent again by one order.
    package static let redeliveryLimit = 10_000
    /// How many in one transaction, which holds up whatever else is about the endpoint.
    private static let redeliveryPage = 500

    /// Sends again, in the order in which it was first to be sent.
    ///
    /// It is done in pages, each of which counts by itself: what is ordered again after a failure was in part done already, unless
    /// it is the same command, which goes on behind that.
    ///
    /// - Parameters:
    ///   - after: what comes after this number alone: ``Redelivered/next`` of the order before.
    ///   - limit: the most.
    ///   - command: under the same each delivery is sent again once.
    /// - Throws: `AppendRefusal.idempotencyConflict` where the command's key was another's, else `LedgerError`.
    package func redeliver(
        _ redelivery: Redelivery, to endpoint: String, after: Int64 = 0, limit: Int = redeliveryLimit,
        once command: KeyedCommand? = nil
    ) async throws -> Redelivered {
        var progress = RedeliveryProgress(after: after)
        if command != nil {
            // What is done already is not looked for.
            progress = try await step(of: [], from: progress, limit, endpoint, end: nil, command)
        }
        guard !progress.isDone else { return Redelivered(progress) }
        let room = limit - progress.taken
        let found = try await numbers(of: redelivery, to: endpoint, after: progress.after, limit: room + 1)
        let numbers = Array(found.prefix(room))
        var start = 0
        while !progress.isDone {
            try Task.checkCancellation()
            let end = min(start + Self.redeliveryPage, numbers.count)
            progress = try await step(
                of: Array(numbers[start..<end]), from: progress, limit, endpoint,
                end: end < numbers.count ? nil : found.count > room, command)
            start = end
        }
        return Redelivered(progress)
    }

    /// Sends a page again, but for what another with the same command has done since.
    ///
    /// - Parameter end: `nil` where more pages follow; else whether there is more behind this one than may be ordered.
    /// - Returns: how far the order has come.
    private func step(
        of page: [Int64], from progress: RedeliveryProgress, _ limit: Int, _ endpoint: String, end: Bool?,
        _ command: KeyedCommand?
    ) async throws -> RedeliveryProgress {
        let reached: Result<RedeliveryProgress, AppendRefusal> = try await pool.run(
            doing: "ordering deliveries again"
        ) { connection in
            try connection.transaction { connection in
                var progress = progress
                switch try command?.take(on: connection) {
                case .something(let kept): progress = RedeliveryProgress(kept) ?? progress
                case .other: return .failure(.idempotencyConflict)
                case .nothing, nil: break
                }
                guard !progress.isDone else { return .success(progress) }
                let left = Array(page.filter { $0 > progress.after }.prefix(limit - progress.taken))
                if let last = left.last {
                    try Outbox.lock([endpoint], on: connection)
                    progress.count += try Outbox.retryNow(endpoint, left, on: connection)
                    progress.count += try Outbox.wait(left, for: endpoint, on: connection)
                    (progress.after, progress.taken) = (last, progress.taken + left.count)
                }
                let isFull = progress.taken >= limit
                if let end {
                    (progress.isDone, progress.next) = (true, end ? progress.after : nil)
                } else if isFull, !left.isEmpty {
                    (progress.isDone, progress.next) = (true, progress.after)
                }
                if progress.isDone || !left.isEmpty { try command?.keep(progress.bytes, on: connection) }
                return .success(progress)
            }
        }
        return try reached.get()
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
        let (condition, values): (String?, [PostgresValue]) =
            switch redelivery {
            case .positions(let positions):
                ("position BETWEEN $4 AND $5", [.int(positions.lowerBound), .int(positions.upperBound)])
            case .failed: (nil, [])
            case .span(let since, let until):
                (
                    "at >= $4 AND at < $5",
                    [.timestamp(since.milliseconds), .timestamp((until ?? .latest).milliseconds)]
                )
            case .message(let id): ("id = $4::uuid", [.text(id)])
            }
        let (waiting, failed) = (DeliveryState.waiting.number, DeliveryState.failed.number)
        // Each state has an index of its own, which a list of them would pass by.
        let chosen =
            condition.map {
                "SELECT number FROM webhook_message WHERE ledger_id = $1 AND number > $3 AND \($0)"
            }
            ?? [waiting, failed].map {
                """
                SELECT number FROM webhook_delivery
                WHERE ledger_id = $1 AND endpoint = $2 AND number > $3 AND state = \($0)
                """
            }.joined(separator: " UNION ALL ")
        let ended = condition == nil ? "\(failed)" : "\(DeliveryState.delivered.number), \(failed)"
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
                    WHERE delivery.state IN (\(ended)) OR \(Outbox.isTriedLater("delivery"))
                    ORDER BY delivery.number LIMIT \(limit)
                    """, [.int(ledgerID), .text(endpoint), .int(after)] + values
                ).rows.map { try $0.int(0) }
            }
        }
    }
}
