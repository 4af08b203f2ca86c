package import EntitlementCore
package import PostgresClient

/// Finds, behind the log, what outgoing webhooks are to tell, and puts it into the outbox: each change of what a customer is
/// answered, whatever the cause (an event, a catalog, or time alone), and the events of the log themselves.
///
/// A step is one transaction under the lock of the projection's row, so any number of processes may do this at once. Events are
/// taken one after the other; who is to be looked at for the time alone lies under an index of the instants; and what bears on
/// everybody, such as a catalog, is a walk in small parts, each in a step that reaches the end of the log, so that it delays
/// nobody's event.
///
/// All that a step tells is put into the outbox together, so that endpoints are locked once, in their order.
package struct WebhookProjector: Sendable {
    /// What was told once is told: another version goes on where the last one was.
    static let row = ProjectionRow(name: "webhook", version: 1)
    /// How far differences were told, which are found behind the log as well; whoever finds them anew tells nothing twice.
    private static let driftRow = ProjectionRow(name: "webhook_drift", version: 1)

    private let pool: PostgresPool
    private let pageEvents: Int64
    private let pageCustomers: Int
    private let patience: Duration
    private let catalogs = CatalogCache()
    private let clockAhead: ClockAheadDetector
    private let skipped: SkippedRows
    private let show: @Sendable ([EntitlementAnswer]) throws -> [UInt8]
    private let showDrift: @Sendable (FoundDrift) throws -> [UInt8]
    private let teller: any PurchaseTeller
    private let reportLoss: @Sendable (Int64) -> Void

    /// - Parameters:
    ///   - pageEvents: how many positions one transaction goes through.
    ///   - pageCustomers: at how many customers one transaction looks for the time, or in a walk over everybody.
    ///   - patience: after how long a transaction takes nothing more up, however little that was: some lives are long, and
    ///     PostgreSQL ends a session that is silent in a transaction.
    ///   - settle: how long the clock has to go on, since the start or since it went back, before what was told by one that was
    ///     ahead is set right.
    ///   - teller: tells what became of purchases, for the endpoints of its format.
    ///   - reportLoss: told where it goes on because what said how far it had come was lost: the end of the log.
    ///   - showDrift: a difference as it is sent.
    ///   - show: an answer as it is sent; what is sent alike is no change.
    package init(
        pool: PostgresPool, pageEvents: Int64 = 200, pageCustomers: Int = 64, patience: Duration = .seconds(1),
        settle: Duration = .seconds(600), skipped: SkippedRows = SkippedRows(), teller: any PurchaseTeller,
        reportLoss: @escaping @Sendable (Int64) -> Void = { _ in },
        showDrift: @escaping @Sendable (FoundDrift) throws -> [UInt8],
        show: @escaping @Sendable ([EntitlementAnswer]) throws -> [UInt8]
    ) {
        self.pool = pool
        self.pageEvents = pageEvents
        self.pageCustomers = pageCustomers
        self.teller = teller
        self.patience = patience
        self.skipped = skipped
        clockAhead = ClockAheadDetector(settle: settle)
        self.reportLoss = reportLoss
        self.showDrift = showDrift
        self.show = show
    }

    /// What is left to do.
    package enum Progress: Sendable, Hashable {
        /// Nothing, before this instant; it is to be looked again at that, and at whatever comes into the log.
        case done(until: Timestamp)
        /// Perhaps what has come into the log since the step began, and what is due by time alone.
        case news
        case more
        /// Another process is at it.
        case elsewhere

        /// Whether another step is to follow.
        package var isUnfinished: Bool { self == .more || self == .news }
    }

    /// Locks the projection's row, which is made first where it is missing.
    ///
    /// Endpoints and messages are written together with it: where there are any, it was lost, and what the log holds was told.
    ///
    /// - Returns: `nil` where another process holds the lock.
    static func lock(
        on connection: isolated PostgresConnection, waits: Bool = false
    ) throws -> ProjectionRow.Standing? {
        let standing = try row.lock(
            on: connection, waits: waits,
            isLost: { connection in
                try connection.query(
                    """
                    SELECT EXISTS (SELECT FROM webhook_endpoint WHERE ledger_id = $1)
                        OR EXISTS (SELECT FROM webhook_message WHERE ledger_id = $1)
                    """, [.int(ledgerID)]
                ).first?.bool(0) ?? false
            }, clear: nil)
        if let standing, standing.isNew {
            // From now on this row, too, is missing only where it was lost.
            _ = try driftRow.lock(on: connection, isLost: { _ in standing.checkpoint > 0 }, clear: nil)
        }
        return standing
    }

    /// Takes a step: events first, then the time, then whoever is left of everybody.
    package func step(now: @Sendable () -> Timestamp) async throws -> Progress {
        try await pool.run(doing: "looking for what webhooks are to tell") { connection in
            let now = now()
            var present = clockAhead.present(now)
            var isSearched = present.map { clockAhead.isPossible(at: $0) } ?? false
            if isSearched, try Self.isSigned(after: ClockAheadDetector.limit(of: now), on: connection) {
                (present, isSearched) = (nil, false)
            }
            if !isSearched, let next = try Self.idleUntil(now, on: connection) { return .done(until: next) }
            let progress = try connection.transaction { connection in
                try step(now: now, present, isSearched: isSearched, on: connection)
            }
            try Self.row.note(isElsewhere: progress == .elsewhere, in: skipped, on: connection)
            return progress
        }
    }

    /// Steps until everything up to a position is followed; returns whether that is so, within the time.
    package func catchUp(to position: Int64, within time: Duration, now: @Sendable () -> Timestamp) async throws -> Bool
    {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end {
            let isThere = try await pool.run(doing: "looking for what webhooks are to tell") { connection in
                try Self.row.checkpoint(on: connection) >= position
            }
            if isThere { return true }
            if try await step(now: now) == .elsewhere { try await Task.sleep(for: .milliseconds(20)) }
        }
        return false
    }

    /// Until when nothing is to be done; `nil` where something is.
    ///
    /// A look without a lock, so that an idle service writes nothing.
    private static func idleUntil(
        _ now: Timestamp, on connection: isolated PostgresConnection
    ) throws -> Timestamp? {
        let found = try connection.query(
            """
            SELECT EXISTS (SELECT FROM answer_scope WHERE ledger_id = $1 AND walk_position IS NOT NULL), (
                SELECT next_at FROM answer_watch WHERE ledger_id = $1 AND next_at IS NOT NULL ORDER BY next_at LIMIT 1)
            FROM projection JOIN ledger_head AS head USING (ledger_id)
            WHERE ledger_id = $1 AND name = $2 AND version = $3 AND checkpoint = head.position AND NOT EXISTS (
                SELECT FROM projection AS found LEFT JOIN projection AS told
                    ON told.ledger_id = $1 AND told.name = $5
                WHERE found.ledger_id = $1 AND found.name = $4
                    AND (found.checkpoint > coalesce(told.checkpoint, 0) OR told.checkpoint > head.position))
            """,
            [
                .int(ledgerID), .text(row.name), .int4(Int32(row.version)), .text(DriftProjector.row.name),
                .text(driftRow.name),
            ]
        ).first
        guard let found, try !found.bool(0) else { return nil }
        let next = try found.optionalInstant(1) ?? .endless
        return next > now ? next : nil
    }

    /// Whether a store has lately signed something with a later date: its clock is right, so that one that says less is behind.
    ///
    /// What was read of Stripe is dated by the clock of whoever read it, which may have been the one ahead.
    private static func isSigned(after instant: Timestamp, on connection: isolated PostgresConnection) throws -> Bool {
        try connection.query(
            """
            SELECT coalesce(max(occurred_at) > $2, false) FROM (
                SELECT occurred_at, type FROM event WHERE ledger_id = $1 ORDER BY position DESC LIMIT 1000) AS latest
            WHERE type <> $3
            """, [.int(ledgerID), .timestamp(instant.milliseconds), .text(WebFact.readingLabel)]
        ).first?.bool(0) ?? false
    }

    /// - Parameters:
    ///   - present: `nil` where the clock is not believed.
    ///   - isSearched: whether those are searched that a clock which was ahead has looked at.
    private func step(
        now: Timestamp, _ present: Timestamp?, isSearched: Bool, on connection: isolated PostgresConnection
    ) throws -> Progress {
        guard let standing = try Self.lock(on: connection) else { return .elsewhere }
        if standing.isNew, standing.checkpoint > 0 { reportLoss(standing.checkpoint) }
        let end = ContinuousClock.now + patience
        let (checkpoint, head) = (standing.checkpoint, standing.head)
        // Before the indexes are prescribed, of which none leads there.
        let ahead =
            isSearched
            ? try WatchedAnswer.looked(after: ClockAheadDetector.limit(of: now), limit: pageCustomers, on: connection)
            : nil
        clockAhead.noteLook(at: now)
        try connection.walkByIndex()
        let share = try share(on: connection)
        var scopes = try AnswerScope.all(on: connection)
        let applied = scopes.isEmpty ? [] : try AppliedCatalog.all(on: connection)
        var page = AnswerChangePage(scopes, applied, catalogs, teller, present: present, show: show)
        // Beside a backlog of events, too: whoever has lapsed meanwhile is told of in time, unless the backlog is about them.
        let limit = min(pageCustomers * (head > checkpoint ? 4 : 1), share)
        // Time stands still for an endpoint that is made or changed next: what changes after that is for it to hear.
        let change = head > checkpoint ? try EndpointEvent.first(after: checkpoint, on: connection) : nil
        let instant = min(now, change?.recordedAt ?? now)
        var due: [WatchedAnswer] = []
        if !scopes.isEmpty {
            due += (ahead ?? []).prefix(max(1, limit / 2))
            due += try WatchedAnswer.due(by: instant, limit: limit - due.count, on: connection)
        }
        if !due.isEmpty { try page.pass(due, at: instant, knownAt: checkpoint, until: .now + patience, on: connection) }
        var reached = checkpoint
        var recorded: [OutboxMessage] = []
        var changed: [AnswerScope] = []
        if head > checkpoint {
            if let change, change.position == checkpoint + 1 {
                try apply(change, page, on: connection)
                return .more
            }
            let last = min(change.map { $0.position - 1 } ?? head, head)
            (reached, recorded) = try follow(from: checkpoint, to: last, share, scopes, &page, on: connection)
            for index in scopes.indices where scopes[index].walk == nil {
                scopes[index].beginWalk(for: applied, upTo: reached)
                if scopes[index].walk != nil { changed.append(scopes[index]) }
            }
        }
        // Under a steady load no step finds nothing but these to do.
        var differences: Differences?
        if reached == head {
            differences = try self.differences(upTo: head, share, on: connection)
            let walking = scopes.firstIndex { scope in scope.walk != nil && !changed.contains { $0.name == scope.name }
            }
            if due.count < limit, let walking {
                let part = min(pageCustomers, share)
                try walk(&scopes[walking], part, applied, upTo: head, until: end, &page, on: connection)
                changed.append(scopes[walking])
            }
        }
        if let ahead, ahead.isEmpty { clockAhead.noteNone(at: now) }
        try page.withdraw(on: connection)
        try Outbox.add(recorded + page.messages + (differences?.messages ?? []), on: connection)
        try page.write(on: connection)
        for scope in changed { try scope.write(on: connection) }
        if let differences { try Self.driftRow.note(differences.told, on: connection) }
        if reached > checkpoint { try Self.row.note(reached, on: connection) }
        // A walk is gone on with at once, with the events that came meanwhile.
        if reached < head || due.count == limit || differences?.isUnfinished ?? false
            || scopes.contains(where: { $0.walk != nil })
        {
            return .more
        }
        return head > checkpoint || !due.isEmpty || differences != nil || !changed.isEmpty ? .news : .done(until: now)
    }

    /// How many messages of each kind a transaction may make, when each goes to every endpoint: they are locked for as long, and
    /// whoever sends waits for them.
    private func share(on connection: isolated PostgresConnection) throws -> Int {
        let endpoints = try connection.query(
            "SELECT count(*) FROM webhook_endpoint WHERE ledger_id = $1", [.int(ledgerID)]
        ).first?.int(0)
        return max(1, Self.pageDeliveries / max(1, Int(endpoints ?? 0)))
    }

    private static let pageDeliveries = 20_000

    /// Tells of an endpoint's making or change, and then lets it be.
    private func apply(
        _ change: EndpointEvent, _ page: AnswerChangePage, on connection: isolated PostgresConnection
    ) throws {
        // Those that there are already hear of it; it hears itself of what comes after.
        let recorded = try RecordedEvents.messages(from: change.position - 1, to: change.position, on: connection)
        try page.withdraw(on: connection)
        try Outbox.add(page.messages + recorded, locking: change.fact.endpointID, on: connection)
        try page.write(on: connection)
        try StoredEndpoint.apply(change.fact, at: change.position, change.recordedAt, on: connection)
        try Self.row.note(change.position, on: connection)
    }

    /// Goes through the next events; returns up to which position, and what there is to tell of the events themselves.
    private func follow(
        from checkpoint: Int64, to last: Int64, _ share: Int, _ scopes: [AnswerScope], _ page: inout AnswerChangePage,
        on connection: isolated PostgresConnection
    ) throws -> (Int64, [OutboxMessage]) {
        let apps = try StoredEndpoint.apps(wanting: Set(MessageType.allCases), on: connection)
        guard !apps.isEmpty else { return (last, []) }
        var end = min(checkpoint + min(pageEvents, Int64(share)), last)
        let recorded = try RecordedEvents.messages(from: checkpoint, to: end, on: connection)
        if !scopes.isEmpty {
            let events = try BearingEvent.read(from: checkpoint, to: end, on: connection)
            end = try page.follow(events, until: .now + patience, on: connection) ?? end
        }
        return (end, recorded.filter { $0.position <= end })
    }

    /// Goes on with a walk over everybody: through so many people at the most.
    private func walk(
        _ scope: inout AnswerScope, _ limit: Int, _ applied: [AppliedCatalog], upTo position: Int64,
        until end: ContinuousClock.Instant, _ page: inout AnswerChangePage, on connection: isolated PostgresConnection
    ) throws {
        guard let walk = scope.walk else { return }
        let part = try identities(after: walk.identity, limit: limit, on: connection)
        let last = try page.walk(part, for: scope, upTo: position, until: end, on: connection)
        scope.advanceWalk(to: part.count < limit && last == part.last ? nil : last)
        scope.beginWalk(for: applied, upTo: position)
    }

    /// What there is to tell of differences.
    private struct Differences {
        var messages: [OutboxMessage] = []
        /// Up to which position all are told then.
        let told: Int64
        var isUnfinished = false
    }

    /// Differences that events up to a position showed since the last time; `nil` where there is nothing to do.
    ///
    /// That a customer has something in the other environment only is no news, and would tell an endpoint of one of the other.
    private func differences(
        upTo position: Int64, _ share: Int, on connection: isolated PostgresConnection
    ) throws -> Differences? {
        let found = min(try DriftProjector.row.checkpoint(on: connection), position)
        let before = try Self.driftRow.checkpoint(on: connection)
        guard before < found || before > position,
            let told = try Self.driftRow.lock(on: connection, isLost: { _ in true }, clear: nil)?.checkpoint,
            told < found
        else { return nil }
        let names = try StoredEndpoint.apps(wanting: [.driftFound], on: connection)
        guard !names.isEmpty else { return Differences(told: found) }
        let page = min(Int(pageEvents), share)
        let drifts = try DriftRegister.found(after: told, upTo: found, limit: page, on: connection)
        let messages = try drifts.filter { $0.drift.cause.driftClass != .environment }.flatMap { drift, identity in
            let body = try showDrift(drift)
            return names.filter { $0.isEmpty || $0 == drift.app }.sorted().map { name in
                OutboxMessage(
                    content: .other(.driftFound, body: body), app: name, environment: drift.environment,
                    identity: identity ?? EventName.nobody, position: drift.position, at: drift.foundAt)
            }
        }
        let end = drifts.count < page ? found : drifts[drifts.count - 1].drift.position
        return Differences(messages: messages, told: end, isUnfinished: end < found)
    }

    private func identities(
        after identity: IdentityRef, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [IdentityRef] {
        try connection.query(
            """
            SELECT identity FROM identity WHERE ledger_id = $1 AND identity > $2 ORDER BY identity
            LIMIT $3
            """, [.int(ledgerID), .int(identity.number), .int(Int64(limit))]
        ).rows.map { IdentityRef(try $0.int(0)) }
    }
}
