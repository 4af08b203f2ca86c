package import EntitlementCore
package import PostgresClient

/// Tells, behind the log, each change of what a customer is answered, whatever the cause: an event, a catalog, or time alone.
///
/// A page is one transaction under the lock of the projection's row, so any number of processes may do this at once. Events are
/// taken one after the other; who is to be looked at for the time alone lies under an index of the instants; and what bears on
/// everybody, such as a catalog, is a walk in small steps between these, so that it delays nobody's event.
package struct AnswerChangeProjector: Sendable {
    /// What was told once is told: another version goes on where the last one was.
    static let row = ProjectionRow(name: "answer_change", version: 1)

    private let pool: PostgresPool
    private let pageEvents: Int64
    private let pageCustomers: Int
    private let catalogs = CatalogCache()
    private let show: @Sendable ([EntitlementAnswer]) throws -> [UInt8]

    /// - Parameters:
    ///   - pageEvents: how many positions one transaction goes through.
    ///   - pageCustomers: at how many customers one transaction looks for the time, or in a walk over everybody.
    ///   - show: an answer as it is sent; what is sent alike is no change.
    package init(
        pool: PostgresPool, pageEvents: Int64 = 200, pageCustomers: Int = 64,
        show: @escaping @Sendable ([EntitlementAnswer]) throws -> [UInt8]
    ) {
        self.pool = pool
        self.pageEvents = pageEvents
        self.pageCustomers = pageCustomers
        self.show = show
    }

    /// What is left to do.
    package enum Progress: Sendable, Hashable {
        /// Nothing, before this instant.
        case done(until: Timestamp)
        case more
        /// Another process is at it.
        case elsewhere
    }

    /// Begins to tell changes, for all apps or for one, of what comes from now on.
    package func begin(for app: AppScope?, now: Timestamp) async throws {
        try await run { connection in
            try connection.transaction { connection in
                // Waits for whoever is at it, so that the beginning is where they end.
                let checkpoint = try Self.row.lockWaiting(on: connection)
                try AnswerScope.begin(app?.bundleID ?? "", after: checkpoint, at: now, on: connection)
            }
        }
    }

    /// Tells no more changes for all apps, or for one.
    package func end(for app: AppScope?) async throws {
        try await run { connection in
            try connection.transaction { connection in
                _ = try Self.row.lockWaiting(on: connection)
                try AnswerScope.end(app?.bundleID ?? "", on: connection)
            }
        }
    }

    /// Takes a step: events first, then the time, then whoever is left of everybody.
    package func step(now: @Sendable () -> Timestamp) async throws -> Progress {
        try await run { connection in
            try connection.transaction { connection in try step(now: now(), on: connection) }
        }
    }

    private func run<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        try await pool.run(doing: "looking for changed answers", body)
    }

    private func step(now: Timestamp, on connection: isolated PostgresConnection) throws -> Progress {
        guard let checkpoint = try Self.row.lock(on: connection, clear: { _ in }) else { return .elsewhere }
        let head = try connection.query(Statements.head.sql, Statements.head.parameters).first?.int(0) ?? 0
        let scopes = try AnswerScope.all(on: connection)
        guard !scopes.isEmpty else {
            if head > checkpoint { try Self.row.note(head, on: connection) }
            return .done(until: .endless)
        }
        try connection.walkByIndex()
        let applied = try AppliedCatalog.all(on: connection)
        var page = AnswerChangePage(scopes, applied, catalogs, show: show)
        if head > checkpoint {
            let end = min(checkpoint + pageEvents, head)
            try page.follow(try BearingEvent.read(from: checkpoint, to: end, on: connection), on: connection)
            for var scope in scopes where scope.walk == nil {
                scope.beginWalk(for: applied, upTo: end)
                if scope.walk != nil { try scope.write(on: connection) }
            }
            try page.write(on: connection)
            try Self.row.note(end, on: connection)
            return .more
        }
        let due = try WatchedAnswer.due(by: now, limit: pageCustomers, on: connection)
        if !due.isEmpty {
            try page.pass(due, at: now, knownAt: checkpoint, on: connection)
            try page.write(on: connection)
            return .more
        }
        if var scope = scopes.first(where: { $0.walk != nil }), let walk = scope.walk {
            let part = try identities(after: walk.identity, on: connection)
            try page.walk(part, for: scope, upTo: checkpoint, on: connection)
            try page.write(on: connection)
            scope.advanceWalk(to: part.count < pageCustomers ? nil : part.last)
            scope.beginWalk(for: applied, upTo: checkpoint)
            try scope.write(on: connection)
            return .more
        }
        let next = try connection.query(
            "SELECT next_at FROM answer_watch WHERE ledger_id = $1 AND next_at IS NOT NULL ORDER BY next_at LIMIT 1",
            [.int(ledgerID)]
        ).first?.timestamp(0)
        return .done(until: next.map { Timestamp(milliseconds: $0) } ?? .endless)
    }

    private func identities(
        after identity: IdentityRef, on connection: isolated PostgresConnection
    ) throws -> [IdentityRef] {
        try connection.query(
            """
            SELECT identity FROM identity WHERE ledger_id = $1 AND identity > $2 ORDER BY identity
            LIMIT \(pageCustomers)
            """, [.int(ledgerID), .int(identity.number)]
        ).rows.map { IdentityRef(try $0.int(0)) }
    }
}
