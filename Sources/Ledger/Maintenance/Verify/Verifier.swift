import EntitlementCore
package import PostgresClient

/// Refolds everything and compares it with what is stored: every position, hash, piece of evidence, name and snapshot, and
/// the tree over the log; and derives every fact of a signed source from its evidence again.
///
/// It fixes the end of the log once and then walks in many short read-only transactions. Events never change once
/// committed, so pages read at different instants still agree; what grows or is swapped meanwhile is compared within one
/// statement, which sees one instant. It takes no lock and writes nothing, so it may run, and be killed, at any time.
package struct Verifier: Sendable {
    /// Rows of one transaction.
    package struct Limits: Sendable {
        package var events = 500
        package var originals = 200
        package var headers = 200
        /// Events of which the database counts what they speak of.
        package var seenEvents = 10_000
        /// Events among which differences are told apart.
        package var driftEvents = 2000
        /// Which original transactions should have a snapshot.
        package var policy = SnapshotPolicy()
        /// How the log is divided for the charts.
        package var charts = ChartLayout.standard
        /// Tries of one page while the database is away; the pool waits between them.
        package var attempts = 3

        package init() {}
    }

    let pool: PostgresPool
    let limits: Limits
    /// What the log must begin with.
    let since: Checkpoint?
    /// Derives facts from evidence again; `nil` checks no signatures.
    let derive: EvidenceDerivation?
    let progress: @Sendable (VerificationProgress) -> Void

    package init(
        pool: PostgresPool, limits: Limits = Limits(), since: Checkpoint? = nil,
        derive: EvidenceDerivation?,
        progress: @escaping @Sendable (VerificationProgress) -> Void = { _ in }
    ) {
        self.pool = pool
        self.limits = limits
        self.since = since
        self.derive = derive
        self.progress = progress
    }

    /// Checks everything up to the end of the log as it is now.
    ///
    /// Throws `VerificationDifference` at the first place that is not as it must be, `LedgerError` when the database
    /// cannot be read, and `CancellationError`.
    package func run() async throws -> VerificationSummary {
        let head = try await page { try LogEnd(on: $0) }
        var summary = VerificationSummary(position: head.position, hash: head.hash)
        if let since, since.size > head.position {
            throw VerificationDifference(
                checkpoint: since,
                "it covers \(since.size) events, and the log ends at \(head.position): its end was cut off, or an older backup was restored"
            )
        }
        // The headers first: a changed one is then named itself, and not the evidence that it is part of.
        try await verifyHeaders()
        let names = try await verifyLog(upTo: head, into: &summary)
        try await verifyNames(upTo: head.position, expected: names)
        try await verifyViews(into: &summary)
        try await verifySeen()
        try await verifyWatch()
        try await verifyDrift()
        try await verifyCharts(into: &summary)
        return summary
    }

    /// Reads one page in a transaction of its own, again after a lost connection.
    func page<Value: Sendable>(
        in mode: TransactionMode = .readCommittedReadOnly,
        _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        var attempt = 1
        while true {
            try Task.checkCancellation()
            do {
                return try await pool.withConnection { connection in
                    try connection.transaction(mode) { connection in
                        try connection.goByIndex()
                        return try body(connection)
                    }
                }
            } catch let error as PostgresError where error.isPassing && attempt < limits.attempts {
                attempt += 1
            } catch let error as PostgresError {
                throw LedgerError(error, doing: "verifying the ledger")
            }
        }
    }
}

/// The end of the log as its head row has it, and as the tables have it.
struct LogEnd: Sendable {
    let position: Int64
    let recordedAt: Timestamp
    let hash: Digest
    let nextIdentity: Int64
    private let catalogPosition: Int64

    /// Reads the head row and the bounds of the tables in one statement, so at one instant.
    init(on connection: isolated PostgresConnection) throws {
        let row = try connection.query(
            """
            SELECT head.position, head.recorded_at, head.hash, head.next_identity,
                head.recorded_at = date_trunc('milliseconds', head.recorded_at),
                (SELECT min(position) FROM event WHERE ledger_id = $1),
                (SELECT max(position) FROM event WHERE ledger_id = $1),
                (SELECT min(position) FROM evidence WHERE ledger_id = $1),
                (SELECT max(position) FROM evidence WHERE ledger_id = $1),
                (SELECT max(identity) FROM identity WHERE ledger_id = $1),
                (SELECT min(identity) FROM identity WHERE ledger_id = $1), head.catalog_position
            FROM ledger_head AS head WHERE head.ledger_id = $1
            """, [.int(ledgerID)]
        ).first
        guard let row else { throw Self.difference("is missing") }
        do {
            position = try row.int(0)
            recordedAt = try row.instant(1)
            hash = try row.digest(2)
            nextIdentity = try row.int(3)
            catalogPosition = try row.int(11)
        } catch {
            throw Self.difference("cannot be read: \(error)")
        }
        guard try row.bool(4) else { throw Self.difference("recorded_at is no whole millisecond") }
        try checkBounds(row)
        if position == 0, hash != .zero { throw Self.difference("hash is \(hash.hex), though the log is empty") }
        if let last = try row.optionalInt(9), last >= nextIdentity {
            throw Self.difference("next_identity is \(nextIdentity), though identity \(last) is given already")
        }
        if let first = try row.optionalInt(10), first < 1 {
            throw VerificationDifference("identity", "identity \(first)", "numbers begin at 1")
        }
    }

    private func checkBounds(_ row: PostgresRow) throws {
        if let first = try row.optionalInt(5), first < 1 {
            throw VerificationDifference(event: first, "positions begin at 1")
        }
        let last = try row.optionalInt(6) ?? 0
        if last > position {
            throw VerificationDifference(event: last, "lies beyond the end of the log, which is at \(position)")
        }
        if last < position {
            throw VerificationDifference(
                event: last + 1, "is missing: the log ends at \(position) and its last event is \(last)")
        }
        for column in [7, 8] {
            if let found = try row.optionalInt(column), found < 1 || found > position {
                throw VerificationDifference("evidence", "position \(found)", "there is no such event")
            }
        }
    }

    static func difference(_ problem: String) -> VerificationDifference {
        VerificationDifference("ledger_head", "ledger \(ledgerID)", problem)
    }

    /// Holds the head row against the last event.
    func check(lastHash: Digest, lastRecordedAt: Timestamp, lastCatalog: Int64, nextIdentity next: Int64) throws {
        guard hash == lastHash else {
            throw Self.difference("hash is \(hash.hex); that of event \(position) is \(lastHash.hex)")
        }
        guard position == 0 || recordedAt == lastRecordedAt else {
            throw Self.difference("recorded_at is \(recordedAt); event \(position) was recorded at \(lastRecordedAt)")
        }
        guard nextIdentity == next else {
            throw Self.difference("next_identity is \(nextIdentity), though the log's events commit to \(next - 1)")
        }
        guard catalogPosition == lastCatalog else {
            throw Self.difference(
                "catalog_position is \(catalogPosition); the last catalog was written at \(lastCatalog)")
        }
    }
}

extension PostgresConnection {
    /// Holds the planner of this transaction to indexes: a page is small, whatever statistics say or do not say yet.
    func goByIndex() throws {
        try walkByIndex()
        try execute(script: "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")
    }
}
