import EntitlementCore
package import PostgresClient
import Synchronization

/// A log that does not hold what it held, as after a failover to a server that had not got the last events, or after a backup
/// was restored.
package struct LostEnd: Sendable, Hashable {
    /// The furthest event that was seen and is gone.
    package let known: EventMark
    /// Where the log ends now.
    package let head: EventMark

    package init(known: EventMark, head: EventMark) {
        self.known = known
        self.head = head
    }
}

/// The furthest event that one instance has seen in the log, and whether the log was found without it.
struct WitnessedEnd: Sendable, Hashable {
    /// How many events are remembered until the log is asked about them, which is each two seconds.
    static let limit = 4096

    private(set) var furthest = EventMark.none
    /// What was furthest before others have appended: whether what is furthest now goes on from it, only the log says.
    private var unproven: [EventMark] = []
    /// Gone by what a batch said, and not told yet.
    private var lost: EventMark?

    /// What the log is to be asked about.
    var marks: [EventMark] { unproven + [furthest] }

    /// Takes note of a committed batch.
    ///
    /// Batches may be noted out of order. But positions have no gaps, and a batch goes on from the end of another: so none
    /// begins before the furthest event and ends after it, unless that was lost.
    mutating func note(base: EventMark, end: EventMark) {
        let passes = base.position < furthest.position && end.position > furthest.position
        let replaces = [base, end].contains { $0.position == furthest.position && $0 != furthest }
        if passes || replaces {
            lose(furthest)
            furthest = end
        } else if end.position > furthest.position {
            if base != furthest { doubt(furthest) }
            furthest = end
        }
    }

    /// Takes note of what the log says.
    ///
    /// - Parameters:
    ///   - asked: ``marks``, when the log was asked.
    ///   - held: those of them that the log holds.
    ///   - head: where the log ends.
    /// - Returns: what was lost since the last time.
    mutating func settle(_ asked: [EventMark], held: Set<EventMark>, head: EventMark) -> LostEnd? {
        defer { lost = nil }
        let told = Set(asked)
        unproven.removeAll { told.contains($0) }
        for mark in asked where !held.contains(mark) { lose(mark) }
        if told.contains(furthest), !held.contains(furthest) {
            furthest = head
        } else if head.position > furthest.position {
            if !told.contains(furthest) { doubt(furthest) }
            furthest = head
        }
        return lost.map { LostEnd(known: $0, head: head) }
    }

    private mutating func lose(_ mark: EventMark) {
        if mark.position > lost?.position ?? 0 { lost = mark }
    }

    private mutating func doubt(_ mark: EventMark) {
        if mark != .none, unproven.count < Self.limit { unproven.append(mark) }
    }
}

/// Notices that the log has lost events that this instance committed, or saw when it last looked.
package final class LogWitness: Sendable {
    private let state = Mutex(WitnessedEnd())

    package init() {}

    /// Takes note of a committed batch.
    package func note(_ batch: LedgerWriter.BatchReport) {
        state.withLock { $0.note(base: batch.base, end: batch.end) }
    }

    /// Looks whether the log still holds what was seen.
    ///
    /// - Returns: what was lost since the last look; `nil`: nothing.
    package func look(through pool: PostgresPool) async throws -> LostEnd? {
        let asked = state.withLock(\.marks)
        let (head, held) = try await pool.run(doing: "looking where the log ends") { connection in
            let rows = try connection.query(
                """
                SELECT head.position, head.hash, asked.position, asked.hash
                FROM ledger_head AS head
                LEFT JOIN unnest($2::bigint[], $3::bytea[]) AS asked (position, hash) ON asked.position = 0 OR EXISTS (
                    SELECT FROM event WHERE event.ledger_id = $1 AND event.position = asked.position
                    AND event.hash = asked.hash)
                WHERE head.ledger_id = $1
                """,
                [.int(ledgerID), .intArray(asked.map(\.position)), .bytesArray(asked.map(\.hash.bytes))]
            ).rows
            guard let first = rows.first else { throw Statements.missingHead }
            let held = try rows.compactMap { try $0.optionalInt(2) == nil ? nil : EventMark($0, 2) }
            return (try EventMark(first, 0), Set(held))
        }
        return state.withLock { $0.settle(asked, held: held, head: head) }
    }
}
