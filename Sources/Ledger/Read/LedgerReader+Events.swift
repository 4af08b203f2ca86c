package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// The most events one page holds.
    package static let pageLimit = 1000

    /// How many positions one page looks through for events of one environment.
    package static let scanLimit: Int64 = 20_000

    /// How many events one page decodes to find those of one app.
    package static let appScanLimit = 4 * pageLimit

    /// The log after a position, in order.
    ///
    /// - Parameter scope: unless it is the whole log, a page may hold fewer events than there are, or none, and still say
    ///   that there is more.
    package func events(after: Int64, limit: Int, only scope: LogScope = .whole) async throws -> EventPage {
        guard !scope.isWhole else {
            return try await page(
                """
                SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position > $2
                ORDER BY position LIMIT $3
                """, [.int(ledgerID), .int(after)], after: after, limit: limit)
        }
        let limit = min(max(limit, 1), Self.pageLimit)
        let head = try await status().position
        let end = after < head ? min(head, after + Self.scanLimit) : after
        // Which app an event is about stands in its facts, so more is read than is shown.
        var read = scope.app == nil ? limit : min(4 * limit, Self.pageLimit)
        var events: [ShownEvent] = []
        var decoded = 0
        var last = after
        while events.count < limit, decoded < Self.appScanLimit {
            let page = try await page(
                """
                SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position > $2 AND position <= $4
                    AND ($5::smallint IS NULL OR environment IS NULL OR environment = $5)
                ORDER BY position LIMIT $3
                """, [.int(ledgerID), .int(last)], after: last, limit: read,
                more: [.int(end), .int2(scope.environment?.number)])
            events += try await self.read { try scope.shown(page.events, on: $0) }
            decoded += page.events.count
            if events.count > limit {
                let events = Array(events.prefix(limit))
                return EventPage(events: events, hasMore: true, nextAfter: events.last?.record.position ?? after)
            }
            guard page.hasMore else { return EventPage(events: events, hasMore: end < head, nextAfter: end) }
            last = page.nextAfter
            read = min(2 * read, Self.pageLimit)
        }
        return EventPage(events: events, hasMore: true, nextAfter: last)
    }

    /// All events about an original transaction, in the order of their positions.
    package func events(about key: OriginalKey, upTo position: Int64) async throws -> [HistoryEvent] {
        try await read { connection in
            let rows = try connection.query(
                """
                SELECT \(EventColumns.list) FROM event
                WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id = $3 AND position <= $4
                ORDER BY position LIMIT $5
                """,
                [
                    .int(ledgerID), .int2(key.environment.number), .text(key.originalTransactionID), .int(position),
                    .int(Int64(Self.historyLimit)),
                ]
            ).rows
            return try rows.map { try DecodedEvent(EventRecord($0)).history }
        }
    }

    /// One event and its evidence, which is `nil` where none was given or it was erased; `nil` for no such position, and
    /// for one that is not within `scope`.
    package func event(
        at position: Int64, only scope: LogScope = .whole
    ) async throws -> (event: ShownEvent, evidence: [UInt8]?)? {
        try await read { connection in
            let row = try connection.query(
                "SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position = $2",
                [.int(ledgerID), .int(position)]
            ).first
            guard let row else { return nil }
            let shown = try scope.shown(Self.shown([EventRecord(row)], on: connection), on: connection)
            guard !shown.isEmpty else { return nil }
            guard shown[0].record.evidenceHash != nil else { return (shown[0], nil) }
            let parts = try connection.query(
                "SELECT parts FROM evidence WHERE ledger_id = $1 AND position = $2", [.int(ledgerID), .int(position)]
            ).first?.bytes(0)
            guard let parts else { return (shown[0], nil) }
            return (shown[0], try StoredEvidence.received([(position, parts)], on: connection)[position])
        }
    }

    /// The headers of signed statements that came first most recently.
    ///
    /// Rows of this table are only added, so the order in which they lie is about that in which they came.
    package func latestHeaders(limit: Int) async throws -> [[UInt8]] {
        try await read { connection in
            try connection.query(
                "SELECT header FROM jws_header WHERE ledger_id = $1 ORDER BY ctid DESC LIMIT $2",
                [.int(ledgerID), .int(Int64(limit))]
            ).rows.map { try $0.bytes(0) }
        }
    }

    func page(
        _ sql: String, _ parameters: [PostgresValue], after: Int64, limit: Int, more: [PostgresValue] = []
    ) async throws -> EventPage {
        let limit = min(max(limit, 1), Self.pageLimit)
        return try await read { connection in
            let rows = try connection.query(sql, parameters + [.int(Int64(limit + 1))] + more).rows
            let records = try rows.prefix(limit).map { try EventRecord($0) }
            return EventPage(
                events: try Self.shown(records, on: connection), hasMore: rows.count > limit,
                nextAfter: records.last?.position ?? after)
        }
    }

    /// Events with what they state, and whose they are.
    static func shown(
        _ records: [EventRecord], on connection: isolated PostgresConnection
    ) throws -> [ShownEvent] {
        let customers = try Statements.customerIDs(of: records.compactMap(\.identity), on: connection)
        return try records.map { record in
            ShownEvent(
                record: record, fact: try FactCodec.decode(record.facts),
                customerID: record.identity.flatMap { customers[$0] })
        }
    }
}
