package import EntitlementCore
import PostgresClient

/// What a rebuild is at.
package enum RebuildPhase: String, Sendable, CaseIterable {
    /// What earlier rebuilds left is deleted.
    case emptying
    /// The log is folded, one original transaction after the other.
    case folding
    /// What is stored is compared with what was folded.
    case proving
    /// The new views are live; the old ones are deleted.
    case clearing
    case done
}

/// A rebuild as table `rebuild` knows it.
package struct RebuildState: Sendable, Equatable {
    package internal(set) var phase: RebuildPhase
    package internal(set) var foldVersion: Int64
    /// The generation of views that is being filled.
    var generation: Int64
    package internal(set) var startedAt: Timestamp
    /// The head when it started.
    package internal(set) var startPosition: Int64
    /// The last original that is done in this phase.
    var cursor: OriginalKey?
    /// How many events and originals this phase has done.
    package internal(set) var events: Int64
    package internal(set) var originals: Int64
    /// The snapshots written.
    var written: SnapshotDigest
    package internal(set) var isHeld: Bool
    /// Since it was last heard from, by the database's clock.
    package internal(set) var silence: Duration
    /// Changes with every sign of life.
    var heartbeat: Timestamp

    /// It was begun and is not finished.
    package var isUnfinished: Bool { phase != .done }
    /// Somebody works on it, as far as one can tell.
    package var isRunning: Bool { isUnfinished && isHeld(within: Rebuilder.Limits.leaseOfOthers) }

    /// Whether its holder gave a sign of life within some time.
    ///
    /// One that is further ahead was given before the database's clock was set back, by a process that may be long gone.
    func isHeld(within lease: Duration) -> Bool { isHeld && silence < lease && silence > .zero - lease }

    static let columns = """
        phase, fold_version, generation, started_at, start_position, cursor_environment, cursor_original, events,
        originals, written, digest, holder IS NOT NULL, heartbeat_at,
        (extract(epoch FROM clock_timestamp() - heartbeat_at) * 1000)::bigint
        """

    init(_ row: PostgresRow) throws {
        guard let phase = RebuildPhase(rawValue: try row.text(0)) else {
            throw LedgerError(.corrupt, "table rebuild names the phase \(try row.text(0))")
        }
        self.phase = phase
        foldVersion = try row.int(1)
        generation = try row.int(2)
        startedAt = try row.instant(3)
        startPosition = try row.int(4)
        if let environment = try row.optionalInt(5), let original = try row.optionalText(6) {
            cursor = OriginalKey(
                environment: try StoreEnvironment(stored: environment), originalTransactionID: original)
        }
        events = try row.int(7)
        originals = try row.int(8)
        written = SnapshotDigest(rows: try row.int(9), bytes: try row.digest(10).bytes)
        isHeld = try row.bool(11)
        heartbeat = try row.instant(12)
        silence = .milliseconds(try row.int(13))
    }

    /// A rebuild that has yet to do everything.
    mutating func beginAnew(generation: Int64, head: Int64) {
        self.generation = generation
        foldVersion = Int64(OriginalState.foldVersion)
        startPosition = head
        enter(.emptying)
    }

    mutating func enter(_ phase: RebuildPhase) {
        self.phase = phase
        // What was written by then is deleted in this phase.
        if phase == .emptying { written = SnapshotDigest() }
        cursor = nil
        events = 0
        originals = 0
    }

    static func read(on connection: isolated PostgresConnection) throws -> RebuildState? {
        try connection.query("SELECT \(columns) FROM rebuild WHERE ledger_id = $1", [.int(ledgerID)]).first
            .map { try RebuildState($0) }
    }

    /// Writes how far it came; the row's lock is held.
    func save(on connection: isolated PostgresConnection) throws {
        try connection.query(
            """
            UPDATE rebuild SET phase = $2, fold_version = $3, generation = $4, start_position = $5,
                cursor_environment = $6, cursor_original = $7, events = $8, originals = $9, written = $10, digest = $11
            WHERE ledger_id = $1
            """,
            [
                .int(ledgerID), .text(phase.rawValue), .int4(Int32(foldVersion)), .int4(Int32(generation)),
                .int(startPosition), .int2(cursor?.environment.number), .text(cursor?.originalTransactionID),
                .int(events), .int(originals), .int(written.rows), .bytes(written.bytes),
            ])
    }
}

/// Another rebuild of the same ledger is under way.
package struct RebuildUnderWay: Error, Sendable, CustomStringConvertible {
    package let state: RebuildState

    package var description: String {
        "another rebuild has been under way since \(state.startedAt) (\(state.phase.rawValue)); let it finish"
    }
}

/// How far a rebuild has come, for whoever watches.
package struct RebuildProgress: Sendable {
    package let phase: RebuildPhase
    /// Events gone through in this phase: counted, and folded where the life is long enough for a snapshot.
    package let events: Int64
    /// Originals done in this phase.
    package let originals: Int64
    /// About how many events this phase has to go through; 0 where that is not known.
    package let total: Int64
    /// Events gone through since the last report.
    package let passed: Int
    /// The most events that were read into memory at a time for them.
    package let held: Int
}

/// What a rebuild came to.
package struct RebuildReport: Sendable {
    /// It went on where an earlier one had stopped.
    package let isResumed: Bool
    /// Events and originals gone through.
    package let events: Int64
    package let originals: Int64
    /// The position as of which the new views are the fold of the log.
    package let position: Int64
    package let duration: Duration
}
