package import EntitlementCore
package import PostgresClient

/// Something that is to be read from Stripe's API because an event says too little by itself.
package struct WebCall: Sendable, Hashable {
    /// The path of what is to be read again; `nil`: all that the event calls for, before which it means nothing.
    package let path: String?
    /// By which another event may say what this one is about.
    package let names: Set<String>

    package init(path: String?, names: Set<String> = []) {
        self.path = path
        self.names = names
    }

    /// As table `web_lookup` names it.
    func subject(of position: Int64) -> String { path ?? "event:\(position)" }
}

/// Notes, behind the log, what is to be read from Stripe's API.
///
/// What has to be read follows from the log alone, so a process that is killed after it appended an event leaves
/// nothing unnoted.
package struct WebLookupProjector: Sendable {
    /// What is noted once is done once: another version goes on where the last one was.
    static let row = ProjectionRow(name: name, version: 1)
    /// As table `projection` names it.
    package static let name = "web_lookup"

    private let follower: LogFollower
    private let delay: Duration
    private let calls: @Sendable (_ evidence: [UInt8], _ event: EventRecord) -> [WebCall]

    /// - Parameters:
    ///   - pageEvents: how many positions one transaction goes through.
    ///   - delay: how long what is to be read again waits for more events about it.
    ///   - calls: what an event calls for, by its evidence.
    package init(
        pool: PostgresPool, pageEvents: Int64 = 500, delay: Duration = .seconds(5),
        calls: @escaping @Sendable (_ evidence: [UInt8], _ event: EventRecord) -> [WebCall]
    ) {
        follower = LogFollower(
            Self.row, pool, doing: "noting what is to be read from Stripe's API", pageEvents: pageEvents,
            former: .continued)
        self.delay = delay
        self.calls = calls
    }

    /// Goes on from the checkpoint to the head of the log, as far as no other process is at it.
    package func catchUp(now: Timestamp) async throws {
        while case .wentThrough = try await page(now: now) { try Task.checkCancellation() }
    }

    /// Goes on until all is noted that was in the log when this began, by whatever process.
    ///
    /// - Parameter patience: how long it waits for another process.
    /// - Returns: whether that is so now.
    package func catchUp(now: Timestamp, patience: Duration) async throws -> Bool {
        let head = try await follower.run { try Statements.headPosition(on: $0) }
        let end = ContinuousClock.now + patience
        while true {
            try Task.checkCancellation()
            switch try await page(now: now) {
            case .done, .reachedHead: return true
            case .wentThrough: continue
            case .elsewhere:
                if try await follower.run({ try Self.row.checkpoint(on: $0) }) >= head { return true }
                guard ContinuousClock.now < end else { return false }
                try await Task.sleep(for: LogFollower.pollInterval)
            }
        }
    }

    private func page(now: Timestamp) async throws -> LogFollower.Progress {
        try await follower.page { connection, stretch, _ in
            try connection.walkByIndex()
            try note(from: stretch.start, to: stretch.end, now: now, on: connection)
            return stretch.end
        }
    }

    private func note(
        from start: Int64, to end: Int64, now: Timestamp, on connection: isolated PostgresConnection
    ) throws {
        let rows = try connection.query(
            """
            SELECT \(EventColumns.list(of: "event")), evidence.parts FROM event
            JOIN evidence ON evidence.ledger_id = $1 AND evidence.position = event.position
            WHERE event.ledger_id = $1 AND event.position > $2 AND event.position <= $3
                AND event.environment IS NOT NULL AND event.source IN ($4, $5) AND event.type <> $6
            ORDER BY event.position
            """,
            [
                .int(ledgerID), .int(start), .int(end), .int2(EventSource.stripeNotification.number),
                .int2(EventSource.stripeAPI.number), .text(WebFact.readingLabel),
            ]
        ).rows
        // Of several events that call for the same the last.
        var events: [EventRecord] = []
        let delay = Int64(delay / .milliseconds(1))
        var owed: [LookupKey: (position: Int64, call: WebCall, at: Timestamp)] = [:]
        for row in rows {
            let event = try EventRecord(row)
            guard let environment = event.environment else { continue }
            events.append(event)
            let evidence = try EvidenceParts.assemble(row.bytes(16), headers: [:])
            for call in calls(evidence, event) {
                // While a clock was ahead an event may have been recorded later than now.
                let at = min(now, event.recordedAt).adding(milliseconds: call.path == nil ? 0 : delay)
                owed[LookupKey(environment, call.subject(of: event.position))] = (event.position, call, at)
            }
        }
        try hear(events, now: now, on: connection)
        guard !owed.isEmpty else { return }
        let list = owed.sorted { $0.key < $1.key }
        try connection.query(
            """
            INSERT INTO web_lookup AS owed (ledger_id, environment, subject, position, is_urgent, next_try_at, names)
            SELECT $1, environment, subject, position, is_urgent, next_try_at, coalesce(string_to_array(names, chr(31)), '{}')
            FROM unnest($2::smallint[], $3::text[], $4::bigint[], $5::boolean[], $6::timestamptz[], $7::text[])
                AS new (environment, subject, position, is_urgent, next_try_at, names)
            ON CONFLICT (ledger_id, environment, subject) DO UPDATE SET position = excluded.position,
                next_try_at = excluded.next_try_at, names = excluded.names, attempts = 0, last_error = NULL, failing_since = NULL, fault = NULL
            """,
            [
                .int4(Int32(ledgerID)), .int2Array(list.map(\.key.environment.number)),
                .textArray(list.map(\.key.subject)), .intArray(list.map(\.value.position)),
                .boolArray(list.map { $0.value.call.path == nil }),
                .timestampArray(list.map(\.value.at.milliseconds)),
                // There are no arrays of arrays of several lengths.
                .textArray(list.map { $0.value.call.names.sorted().joined(separator: "\u{1F}") }),
            ])
    }
}

extension WebLookupProjector {
    /// Notes when a webhook came last, and when the newest event was made that had to be read from the list.
    private func hear(
        _ events: [EventRecord], now: Timestamp, on connection: isolated PostgresConnection
    ) throws {
        for (environment, events) in Dictionary(grouping: events, by: \.environment) {
            guard let environment else { continue }
            let webhooks = events.filter { $0.source == .stripeNotification }
            let heard = webhooks.map { min(now, $0.recordedAt) }.max()
            let missed = events.filter { $0.source == .stripeAPI }.compactMap(\.occurredAt).max()
            try connection.query(
                """
                INSERT INTO web_stream AS stream
                    (ledger_id, environment, last_heard_at, last_missed_at, last_heard_position)
                VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT (ledger_id, environment) DO UPDATE SET
                    last_heard_at = greatest(stream.last_heard_at, excluded.last_heard_at),
                    last_missed_at = greatest(stream.last_missed_at, excluded.last_missed_at),
                    last_heard_position = coalesce(excluded.last_heard_position, stream.last_heard_position)
                """,
                [
                    .int4(Int32(ledgerID)), .int2(environment.number), .timestamp(heard?.milliseconds),
                    .timestamp(missed?.milliseconds), .int(webhooks.map(\.position).max()),
                ])
        }
    }
}

private struct LookupKey: Hashable, Comparable {
    let environment: StoreEnvironment
    let subject: String

    init(_ environment: StoreEnvironment, _ subject: String) {
        self.environment = environment
        self.subject = subject
    }

    static func < (left: LookupKey, right: LookupKey) -> Bool {
        (left.environment.rawValue, left.subject) < (right.environment.rawValue, right.subject)
    }
}
