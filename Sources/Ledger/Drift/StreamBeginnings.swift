import EntitlementCore
import PostgresClient

/// Since when the ledger has listened to the stream of each app and environment.
///
/// That is since the first signed event about it, or, where that is a notification, since what it reports. What the store
/// said before is history, which nobody missed.
///
/// A beginning is looked for in the log when it is asked for the first time, and kept in table `drift_stream`.
struct StreamBeginnings {
    /// How many positions one query goes through, because the server cancels one that takes too long.
    private static let searchedPositions: Int64 = 200_000

    private(set) var known: [StoreStream: Timestamp]
    private var found: [StoreStream: Timestamp] = [:]

    /// None is known.
    init() { known = [:] }

    init(on connection: isolated PostgresConnection) throws {
        let rows = try connection.query(
            "SELECT app, environment, since FROM drift_stream WHERE ledger_id = $1", [.int(ledgerID)]
        ).rows
        known = Dictionary(
            uniqueKeysWithValues: try rows.map { row in
                (
                    StoreStream(app: try row.text(0), environment: try StoreEnvironment(stored: row.int(1))),
                    try row.instant(2)
                )
            })
    }

    /// The beginning of a stream that an event is about, so that the event itself or an earlier one is the first.
    mutating func beginning(
        of stream: StoreStream, from record: EventRecord, on connection: isolated PostgresConnection
    ) throws -> Timestamp {
        if let known = known[stream] { return known }
        let first = try Self.first(about: stream, upTo: record.position, on: connection) ?? record
        let beginning =
            first.source == .notification
            ? min(first.recordedAt, first.occurredAt ?? first.recordedAt) : first.recordedAt
        known[stream] = beginning
        found[stream] = beginning
        return beginning
    }

    private static func first(
        about stream: StoreStream, upTo end: Int64, on connection: isolated PostgresConnection
    ) throws -> EventRecord? {
        // A text in the facts stands behind its length, so no app is taken for another that begins like it. It need not
        // be the app's id, so what is found is read.
        let pattern = withUnsafeBytes(of: Int32(stream.app.utf8.count).bigEndian) { Array($0) } + Array(stream.app.utf8)
        var passed: Int64 = 0
        while passed < end {
            let last = min(passed + searchedPositions, end)
            let row = try connection.query(
                """
                SELECT \(EventColumns.list) FROM event
                WHERE ledger_id = $1 AND position > $2 AND position <= $3 AND environment = $4
                    AND source = ANY ($5) AND type <> 'drift' AND position($6::bytea IN facts) > 0
                ORDER BY position LIMIT 1
                """,
                [
                    .int(ledgerID), .int(passed), .int(last), .int2(stream.environment.number),
                    .int2Array(EventSource.allCases.filter(\.isSigned).map(\.number)), .bytes(pattern),
                ]
            ).first
            guard let row else {
                passed = last
                continue
            }
            let event = try DecodedEvent(EventRecord(row))
            if event.fact.bundleIDs.contains(stream.app) { return event.record }
            passed = event.record.position
        }
        return nil
    }

    /// Keeps what was found.
    func write(on connection: isolated PostgresConnection) throws {
        guard !found.isEmpty else { return }
        let streams = Array(found)
        try connection.query(
            """
            INSERT INTO drift_stream (ledger_id, app, environment, since)
            SELECT $1, * FROM unnest($2::text[], $3::smallint[], $4::timestamptz[])
            """,
            [
                .int4(Int32(ledgerID)), .textArray(streams.map(\.key.app)),
                .int2Array(streams.map(\.key.environment.number)),
                .timestampArray(streams.map(\.value.milliseconds)),
            ])
    }
}
