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
    private(set) var furthest = EventMark.none
    /// Gone by what a batch said, and not told yet.
    private var lost: EventMark?

    /// Takes note of a committed batch.
    ///
    /// Batches may be noted out of order. But positions have no gaps, and a batch goes on from the end of another: so none
    /// begins before the furthest event and ends after it, unless that was lost.
    mutating func note(base: EventMark, end: EventMark) {
        let passes = base.position < furthest.position && end.position > furthest.position
        let replaces = [base, end].contains { $0.position == furthest.position && $0 != furthest }
        if passes || replaces {
            lost = lost ?? furthest
            furthest = end
        } else if end.position > furthest.position {
            furthest = end
        }
    }

    /// Takes note of what the log says.
    ///
    /// - Parameters:
    ///   - asked: the furthest event when the log was asked.
    ///   - isHeld: whether the log holds it.
    ///   - head: where the log ends.
    /// - Returns: what was lost since the last time.
    mutating func settle(_ asked: EventMark, isHeld: Bool, head: EventMark) -> LostEnd? {
        defer { lost = nil }
        if isHeld {
            if head.position > furthest.position { furthest = head }
        } else {
            lost = lost ?? asked
            if furthest == asked { furthest = head }
        }
        return lost.map { LostEnd(known: $0, head: head) }
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
        let asked = state.withLock(\.furthest)
        let row = try await pool.run(doing: "looking where the log ends") { connection in
            try connection.query(
                """
                SELECT position, hash, $2 = 0 OR EXISTS (
                    SELECT FROM event WHERE event.ledger_id = $1 AND event.position = $2 AND event.hash = $3)
                FROM ledger_head WHERE ledger_id = $1
                """, [.int(ledgerID), .int(asked.position), .bytes(asked.hash.bytes)]
            ).first
        }
        guard let row else { throw Statements.missingHead }
        let (head, isHeld) = (try EventMark(row, 0), try row.bool(2))
        return state.withLock { $0.settle(asked, isHeld: isHeld, head: head) }
    }
}
