package import EntitlementCore
package import PostgresClient

/// Something that is to be read from Stripe's API, and that this process has taken upon itself for a while.
package struct OwedLookup: Sendable, Hashable {
    package let environment: StoreEnvironment
    let subject: String
    /// The event that calls for it.
    package let position: Int64
    /// Whether it is all that the event calls for; else one thing is read again.
    package let isOfEvent: Bool
    /// How often it could not be read.
    package let attempts: Int
    package let failingSince: Timestamp?
    /// Until when nobody else takes it.
    fileprivate let heldUntil: Timestamp

    /// What is to be read again.
    package var path: String? { isOfEvent ? nil : subject }
}

/// Why something cannot be read until the operator mends it.
package enum WebLookupFault: Sendable, Hashable {
    /// Stripe does not take the key.
    case key
    /// The key may not make a request, which is named without ids.
    case permission(String)
    /// Stripe does not know what it told of itself.
    case object

    /// As table `web_lookup` has it.
    fileprivate var stored: String {
        switch self {
        case .key: "key"
        case .permission(let operation): Self.permissionPrefix + operation
        case .object: "object"
        }
    }

    fileprivate static let permissionPrefix = "permission "
}

/// What became of something that is to be taken.
package enum WebLookupTaking: Sendable {
    case taken(OwedLookup)
    /// Somebody else reads it now.
    case held
    /// It could not be read, and is not due yet; with the reason.
    case putOff(String)
    /// It was read, or there is nothing to read.
    case settled
}

/// What is to be read from Stripe's API: a queue that any number of processes work on.
///
/// Taking an entry moves the instant at which it is tried next. So an entry whose process was killed is tried again
/// then.
package struct WebLookupRegister: Sendable {
    /// How long something stays one process's alone beyond the time that reading it may take: what was read is recorded then.
    package static let slack = Duration.seconds(5)

    private static let work = "looking after what is to be read from Stripe's API"

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// Takes what is due, urgent things first; of these what never failed, which may well be readable, before what is tried again.
    ///
    /// - Parameter time: how long it may take to read all of it; for so long nobody else takes any.
    package func take(
        _ environment: StoreEnvironment, for time: Duration, now: Timestamp, limit: Int
    ) async throws -> [OwedLookup] {
        try await take(
            """
            SELECT subject FROM web_lookup
            WHERE ledger_id = $1 AND environment = $2 AND (next_try_at <= $3 OR next_try_at > $5)
            ORDER BY is_urgent DESC, failing_since IS NOT NULL, next_try_at LIMIT $6 FOR UPDATE SKIP LOCKED
            """, environment, for: time, now: now,
            [.timestamp(now.adding(milliseconds: Self.farAhead).milliseconds), .int(Int64(limit))])
    }

    /// Takes all that one event calls for.
    ///
    /// - Parameters:
    ///   - time: how long it may take to read it.
    ///   - isTakenOver: also from whoever is reading it, who may have been killed; what they still find is not recorded twice.
    package func take(
        eventAt position: Int64, _ environment: StoreEnvironment, for time: Duration, now: Timestamp,
        isTakenOver: Bool = false
    ) async throws -> WebLookupTaking {
        let subject = PostgresValue.text(WebCall(path: nil).subject(of: position))
        let taken = try await take(
            """
            SELECT subject FROM web_lookup
            WHERE ledger_id = $1 AND environment = $2 AND subject = $5
                AND (next_try_at <= $3 OR $6 AND failing_since IS NULL)
            FOR UPDATE SKIP LOCKED
            """, environment, for: time, now: now, [subject, .bool(isTakenOver)]
        ).first
        if let taken { return .taken(taken) }
        return try await pool.run(doing: Self.work) { connection in
            let row = try connection.query(
                """
                SELECT failing_since IS NOT NULL AND next_try_at > $4, last_error FROM web_lookup
                WHERE ledger_id = $1 AND environment = $2 AND subject = $3
                """, [.int(ledgerID), .int2(environment.number), subject, .timestamp(now.milliseconds)]
            ).first
            guard let row else { return .settled }
            return try row.bool(0) ? .putOff(try row.optionalText(1) ?? "") : .held
        }
    }

    private func take(
        _ due: String, _ environment: StoreEnvironment, for time: Duration, now: Timestamp,
        _ parameters: [PostgresValue]
    ) async throws -> [OwedLookup] {
        let until = now.adding(milliseconds: Int64((time + Self.slack) / .milliseconds(1)))
        // In an array they are found once; joined, they might be found anew for each row, which are others each time and too many.
        return try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                UPDATE web_lookup AS owed SET next_try_at = $4
                WHERE owed.ledger_id = $1 AND owed.environment = $2 AND owed.subject = ANY (ARRAY(\(due)))
                RETURNING owed.subject, owed.position, owed.is_urgent, owed.attempts, owed.failing_since
                """,
                [
                    .int(ledgerID), .int2(environment.number), .timestamp(now.milliseconds),
                    .timestamp(until.milliseconds),
                ] + parameters
            ).rows.map { row in
                OwedLookup(
                    environment: environment, subject: try row.text(0), position: try row.int(1),
                    isOfEvent: try row.bool(2), attempts: Int(try row.int(3)),
                    failingSince: try row.optionalInstant(4), heldUntil: until)
            }
        }
    }

    /// Says that it was read, or is not to be; what was noted of it meanwhile stands.
    ///
    /// - Parameter end: where the log ended once it held what was read. Where the log has lost that, as after a failover,
    ///   nothing is said: it is read again once this process's time is over.
    package func finish(_ owed: OwedLookup, restingOn end: EventMark = .none) async throws {
        try await pool.run(doing: Self.work) { connection in
            let key = Self.key(owed)
            let ends: Set<EventMark> = [end]
            _ = try connection.query(
                "DELETE FROM web_lookup WHERE \(Self.isSame) AND \(Set<EventMark>.areHeld(key.count + 1))",
                key + ends.columns)
        }
    }

    /// Where events stand that cannot take effect yet, and that another event may explain which says one of these names.
    package func events(
        naming names: Set<String>, _ environment: StoreEnvironment, limit: Int
    ) async throws -> [Int64] {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                SELECT position FROM web_lookup
                WHERE ledger_id = $1 AND environment = $2 AND is_urgent AND names && $3::text[] ORDER BY position LIMIT $4
                """,
                [.int(ledgerID), .int2(environment.number), .textArray(names.sorted()), .int(Int64(limit))]
            ).rows.map { try $0.int(0) }
        }
    }

    /// Says that nothing is to be read any more for an event, whoever is at it.
    ///
    /// - Parameter end: as for ``finish(_:restingOn:)``.
    package func finish(
        eventAt position: Int64, _ environment: StoreEnvironment, restingOn end: EventMark
    ) async throws {
        try await pool.run(doing: Self.work) { connection in
            let key: [PostgresValue] = [
                .int(ledgerID), .int2(environment.number), .text(WebCall(path: nil).subject(of: position)),
                .int(position),
            ]
            let ends: Set<EventMark> = [end]
            _ = try connection.query(
                """
                DELETE FROM web_lookup WHERE ledger_id = $1 AND environment = $2 AND subject = $3 AND position = $4
                    AND \(Set<EventMark>.areHeld(key.count + 1))
                """, key + ends.columns)
        }
    }

    /// Says why it could not be read, and when it is tried again.
    ///
    /// - Parameters:
    ///   - isOwn: whether others may well be read meanwhile; else nothing is held against it.
    ///   - fault: what the operator has to mend first; `nil` where time may mend it.
    package func postpone(
        _ owed: OwedLookup, to again: Timestamp, isOwn: Bool, fault: WebLookupFault?, _ reason: String
    ) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                UPDATE web_lookup SET next_try_at = $6, attempts = attempts + $7, last_error = $8, fault = $9,
                    failing_since = coalesce(failing_since, clock_timestamp())
                WHERE \(Self.isSame)
                """,
                Self.key(owed) + [
                    .timestamp(again.milliseconds), .int4(isOwn ? 1 : 0), .reason(reason),
                    .text(fault?.stored),
                ])
        }
    }

    /// What the operator has to mend: how much waits for it, and the reason that is of the newest; `nil` where nothing does.
    package func fault(_ environment: StoreEnvironment) async throws -> (count: Int64, reason: String)? {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                """
                SELECT count(*) OVER (), coalesce(last_error, '') FROM web_lookup
                WHERE ledger_id = $1 AND environment = $2 AND fault IS NOT NULL ORDER BY position DESC LIMIT 1
                """, [.int(ledgerID), .int2(environment.number)]
            ).first.map { (try $0.int(0), try $0.text(1)) }
        }
    }

    /// Lets what the operator has to mend be tried now, as if for the first time.
    ///
    /// - Parameter fault: what is mended; all of it, where nothing is said.
    package func hasten(_ environment: StoreEnvironment, _ fault: WebLookupFault? = nil, now: Timestamp) async throws {
        try await pool.run(doing: Self.work) { connection in
            _ = try connection.query(
                """
                UPDATE web_lookup SET next_try_at = $3, attempts = 0
                WHERE ledger_id = $1 AND environment = $2 AND fault IS NOT NULL AND fault = coalesce($4, fault)
                    AND next_try_at > $3
                """,
                [
                    .int(ledgerID), .int2(environment.number), .timestamp(now.milliseconds),
                    .text(fault?.stored),
                ])
        }
    }

    /// Lets one of each kind that the key may not read be tried now: so it shows when it may.
    ///
    /// - Returns: the requests that it may not make.
    package func probe(_ environment: StoreEnvironment, now: Timestamp) async throws -> Set<String> {
        try await pool.run(doing: Self.work) { connection in
            let rows = try connection.query(
                """
                WITH probe AS (
                    SELECT DISTINCT ON (fault) fault, subject FROM web_lookup
                    WHERE ledger_id = $1 AND environment = $2 AND fault LIKE $4 ORDER BY fault, position DESC
                ), due AS (
                    UPDATE web_lookup AS owed SET next_try_at = $3 FROM probe
                    WHERE owed.ledger_id = $1 AND owed.environment = $2 AND owed.subject = probe.subject
                        AND owed.next_try_at > $3
                ) SELECT fault FROM probe
                """,
                [
                    .int(ledgerID), .int2(environment.number), .timestamp(now.milliseconds),
                    .text(WebLookupFault.permissionPrefix + "%"),
                ]
            ).rows
            return Set(try rows.map { String(try $0.text(0).dropFirst(WebLookupFault.permissionPrefix.count)) })
        }
    }

    /// Where the event stands that came last by a webhook; `nil` where none came.
    package func lastHeard(_ environment: StoreEnvironment) async throws -> Int64? {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                "SELECT last_heard_position FROM web_stream WHERE ledger_id = $1 AND environment = $2",
                [.int(ledgerID), .int2(environment.number)]
            ).first?.optionalInt(0)
        }
    }

    /// How many are owed.
    package func count(_ environment: StoreEnvironment) async throws -> Int64 {
        try await pool.run(doing: Self.work) { connection in
            try connection.query(
                "SELECT count(*) FROM web_lookup WHERE ledger_id = $1 AND environment = $2",
                [.int(ledgerID), .int2(environment.number)]
            ).row(0).int(0)
        }
    }

    /// What lies farther ahead than anything is put off was written before the clock was set back; in milliseconds.
    private static let farAhead = Timestamp.millisecondsPerDay

    private static let isSame =
        "ledger_id = $1 AND environment = $2 AND subject = $3 AND position = $4 AND next_try_at = $5"

    private static func key(_ owed: OwedLookup) -> [PostgresValue] {
        [
            .int(ledgerID), .int2(owed.environment.number), .text(owed.subject), .int(owed.position),
            .timestamp(owed.heldUntil.milliseconds),
        ]
    }
}
