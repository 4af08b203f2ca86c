package import EntitlementCore
package import PostgresClient

/// A question of the store's about a refund request: how much of the purchase was used.
package struct ConsumptionRequest: Sendable, Hashable {
    /// Where it stands in the log.
    package let position: Int64
    package let stream: StoreStream
    package let originalTransactionID: String
    package let transactionID: String
    /// When the store asked, by its own word.
    package let askedAt: Timestamp
    package let recordedAt: Timestamp

    /// Until when the store takes an answer.
    ///
    /// Source: Apple, "Send Consumption Information".
    package var deadline: Timestamp { askedAt.adding(milliseconds: Self.patience) }

    /// In milliseconds.
    package static let patience: Int64 = 12 * 3_600_000

    /// The question that an event is; `nil` for any other event.
    package init?(_ fact: LedgerFact, position: Int64, environment: StoreEnvironment, recordedAt: Timestamp) {
        guard case .notification(let notification) = fact, notification.type == Self.notificationType,
            let transaction = notification.transaction
        else { return nil }
        self.position = position
        stream = StoreStream(app: notification.bundleID, environment: environment)
        originalTransactionID = transaction.originalTransactionID
        transactionID = transaction.transactionID
        // A date in the future does not extend the time to answer.
        self.recordedAt = recordedAt
        askedAt = min(notification.signedDate ?? recordedAt, recordedAt)
    }

    private static let notificationType = "CONSUMPTION_REQUEST"
}

/// Which questions about refund requests the log holds and which of them have come to an end, and who answers them: one
/// process at a time for each stream.
///
/// Nothing is kept beside the log: the event that ends a question has a key made of its position, unique in the log.
package struct ConsumptionRegister: Sendable {
    private static let page = 500

    private let pool: PostgresPool
    private let holder: String

    /// - Parameter holder: a name that no other process has.
    package init(pool: PostgresPool, holder: String) {
        self.pool = pool
        self.holder = holder
    }

    /// Notes of which streams the questions are answered from now on, and of which they are not any more.
    ///
    /// - Returns: since when, of each.
    package func begin(_ streams: [StoreStream], now: Timestamp) async throws -> [StoreStream: Timestamp] {
        try await pool.run(doing: Self.work) { connection in
            let key: [PostgresValue] = [
                .int4(Int32(ledgerID)), .textArray(streams.map(\.app)),
                .int2Array(streams.map(\.environment.number)),
            ]
            let rows = try connection.transaction { connection in
                try connection.query(
                    """
                    UPDATE store_stream AS stream SET answering_since = NULL
                    WHERE ledger_id = $1 AND answering_since IS NOT NULL AND NOT EXISTS (
                        SELECT FROM unnest($2::text[], $3::smallint[]) AS key (app, environment)
                        WHERE key.app = stream.app AND key.environment = stream.environment)
                    """, key)
                return try connection.query(
                    """
                    INSERT INTO store_stream AS stream (ledger_id, app, environment, answering_since)
                    SELECT $1, key.*, $4 FROM unnest($2::text[], $3::smallint[]) AS key (app, environment)
                    ON CONFLICT (ledger_id, app, environment)
                    DO UPDATE SET answering_since = coalesce(stream.answering_since, excluded.answering_since)
                    RETURNING app, environment, answering_since
                    """, key + [.timestamp(now.milliseconds)]
                ).rows
            }
            var since: [StoreStream: Timestamp] = [:]
            for row in rows {
                let stream = StoreStream(app: try row.text(0), environment: try StoreEnvironment(stored: row.int(1)))
                since[stream] = try row.instant(2)
            }
            return since
        }
    }

    /// What came into the log since it was looked through.
    package struct News: Sendable {
        package fileprivate(set) var requests: [ConsumptionRequest] = []
        /// The end of the log, up to which these are all.
        package let upTo: EventMark
        /// Whether the log has lost the end that it had then, as after a failover: so these are all there are.
        package let isAnew: Bool
    }

    /// The questions recorded after an event and since an instant.
    ///
    /// - Parameter seen: the end of the log up to which they are known.
    package func requests(after seen: EventMark, since oldest: Timestamp) async throws -> News {
        var news = try await pool.run(doing: Self.work) { connection in
            let head = try EventMark.end(on: connection)
            return News(upTo: head, isAnew: try head != seen && !seen.isHeld(on: connection))
        }
        guard news.upTo != seen else { return news }
        let position = news.isAnew ? 0 : seen.position
        var before = news.upTo.position + 1
        while true {
            try Task.checkCancellation()
            // From the newest on, so that a log of years is not read for those of the last days.
            let page = try await page(after: position, before: before)
            for row in page {
                guard row.recordedAt >= oldest else { return news }
                if let request = row.request { news.requests.append(request) }
            }
            guard page.count == Self.page, let last = page.last else { return news }
            before = last.position
        }
    }

    private struct Row: Sendable {
        let position: Int64
        let recordedAt: Timestamp
        let request: ConsumptionRequest?
    }

    private func page(after position: Int64, before: Int64) async throws -> [Row] {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                SELECT position, recorded_at, environment, facts FROM event
                WHERE ledger_id = $1 AND type = 'consumption_requested' AND position > $2 AND position < $3
                ORDER BY position DESC LIMIT $4
                """, [.int(ledgerID), .int(position), .int(before), .int(Int64(Self.page))]
            ).rows.map { row in
                let recordedAt = try row.instant(1)
                let position = try row.int(0)
                guard let environment = try row.optionalInt(2), let fact = try? FactCodec.decode(row.bytes(3)) else {
                    // What does not decode is for `verify` to name.
                    return Row(position: position, recordedAt: recordedAt, request: nil)
                }
                return Row(
                    position: position, recordedAt: recordedAt,
                    request: ConsumptionRequest(
                        fact, position: position, environment: try StoreEnvironment(stored: environment),
                        recordedAt: recordedAt))
            }
        }
    }

    /// Which of some events have come to an end.
    ///
    /// - Parameter seen: the end of the log at which they were known.
    /// - Throws: `unavailable` where the log has lost that end, and so maybe some of them.
    package func settled(_ positions: [Int64], knownAt seen: EventMark) async throws -> Set<Int64> {
        guard !positions.isEmpty else { return [] }
        return try await pool.run(doing: Self.work) { connection in
            guard try seen.isHeld(on: connection) else {
                throw LedgerError(
                    .unavailable,
                    "the log has lost its end, as after a failover; refund requests are looked for anew")
            }
            var positionOfKey: [[UInt8]: Int64] = [:]
            for position in positions {
                let id = LedgerFact.settlementKey(of: position).id
                positionOfKey[DedupKey(sourceID: id).bytes] = position
            }
            let rows = try connection.query(
                "SELECT dedup_key FROM event WHERE ledger_id = $1 AND dedup_key = ANY($2::bytea[])",
                [.int(ledgerID), .bytesArray(Array(positionOfKey.keys))]
            ).rows
            return Set(try rows.compactMap { positionOfKey[try $0.bytes(0)] })
        }
    }

    // MARK: - Whose turn it is

    /// Takes or renews this process's lease on the stream's questions; `false` where another process has it.
    package func hold(_ stream: StoreStream) async throws -> Bool { try await row(stream).hold() }

    /// Gives the lease on the stream's questions up.
    package func release(_ stream: StoreStream) async throws { try await row(stream).letGo() }

    private func row(_ stream: StoreStream) -> LeasedRow {
        LeasedRow(
            pool, "store_stream", stream.key, holder: holder, work: Self.work,
            names: LeasedRow.Names(holder: "answer_holder", heartbeat: "answer_heartbeat_at"))
    }

    private static let work = "looking for refund requests"
}

extension EventDraft {
    /// What the store was told or asked.
    ///
    /// - Parameter source: the operator, or the service by itself.
    package init(_ fact: StoreRequestFact, in environment: StoreEnvironment, source: EventSource) {
        let fact = LedgerFact.storeRequest(fact)
        self.init(
            environment: environment, source: source, occurredAt: nil, fact: fact, identities: [],
            deduplication: fact.deduplication(in: environment))
    }
}
