import EntitlementCore
import PostgresClient

/// A session of the event loop's own that tells what came into the log, without ever waiting.
///
/// The smallest statement there is, the head of the log, proves at once how fresh everything is that was read before; see
/// `CustomerCache`. What came is asked for only where the head has moved.
package struct LogTail: Sendable {
    /// The most events, and the most new identities, that are read one by one; beyond that it is cheaper to drop all
    /// answers.
    package static let limit = 10_000

    private let session: NonblockingSession
    /// Hears of each end of the log, when its event was recorded.
    private let hear: @Sendable (Timestamp) -> Void

    /// What the event loop watches.
    package var descriptor: Int32 { session.descriptor }
    /// Whether the descriptor is watched for writing too.
    package var awaitsWriting: Bool { session.awaitsWriting }
    /// Whether an answer is still to come.
    package var isAsked: Bool { session.isUnderWay }

    /// Asks for the head of the log.
    ///
    /// - Throws: what makes this session useless; another is to be opened.
    package func ask() throws {
        try session.send(Self.headIndex, [.int(ledgerID)])
    }

    /// Takes what the database has sent, and asks on where the log has moved; to be called whenever the descriptor is
    /// ready.
    ///
    /// - Parameter known: the end of the log up to which everything is known, the same as long as this is asked; `nil`
    ///   before the first time.
    /// - Returns: the news since then, once they are here whole.
    /// - Throws: what makes this session useless; another is to be opened.
    package func receive(since known: LogMark?) throws -> LogNews? {
        guard let result = try session.receive() else { return nil }
        guard let row = result.first else { throw Statements.missingHead }
        guard session.lastSent == Self.headIndex else {
            hear(try row.instant(10))
            return try Self.news(from: result)
        }
        hear(try row.instant(3))
        let head = LogMark(position: try row.int(0), hash: try row.digest(1), nextIdentity: try row.int(2))
        guard let known else { return LogNews(head: head, previousHash: nil, hashes: [], changes: nil) }
        if head == known { return LogNews(head: head, previousHash: head.hash, hashes: [], changes: []) }
        try session.send(Self.newsIndex, Self.newsParameters(since: known))
        return nil
    }

    fileprivate init(_ session: NonblockingSession, hear: @escaping @Sendable (Timestamp) -> Void) {
        self.session = session
        self.hear = hear
    }

    private static let headIndex = 0
    private static let newsIndex = 1

    fileprivate static let statements = [
        PostgresStatement(
            "SELECT position, hash, next_identity, recorded_at FROM ledger_head WHERE ledger_id = $1", [.int(ledgerID)]),
        PostgresStatement(newsSQL, newsParameters(since: LogMark(position: 0, hash: .zero, nextIdentity: 0))),
    ]

    private static func newsParameters(since known: LogMark) -> [PostgresValue] {
        [.int(ledgerID), .int(known.position), .int(known.nextIdentity)]
    }

    // Columns: kind, position or number, environment, type or value, identity, other identity, original transaction,
    // facts, hash, hash of the event at $2, when the head's event was recorded.
    // The columns of an event name only those whom its first statement names, or the first owner of what was bought on the
    // web; where it may name more, it brings its facts along.
    private static let newsSQL = """
        SELECT 0::smallint, position, NULL::smallint, NULL::text, next_identity, NULL::bigint, NULL::text, NULL::bytea,
            hash, CASE WHEN position = $2 THEN hash ELSE (
                SELECT previous_hash FROM event WHERE ledger_id = $1 AND position = $2 + 1) END, recorded_at
        FROM ledger_head WHERE ledger_id = $1
        UNION ALL
        (SELECT 1, position, environment, type, identity, other_identity, original_transaction_id,
            CASE WHEN transaction_id IS NULL AND original_transaction_id IS NOT NULL THEN facts END, hash, NULL, NULL
        FROM event WHERE ledger_id = $1 AND position > $2
        ORDER BY position LIMIT \(limit + 1))
        UNION ALL
        (SELECT 2, identity, NULL, value, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM identity WHERE ledger_id = $1 AND identity >= $3
        ORDER BY identity LIMIT \(limit + 1))
        """

    private static func news(from result: PostgresResult) throws -> LogNews {
        guard let first = result.first, try first.int(0) == 0 else { throw Statements.missingHead }
        let head = LogMark(position: try first.int(1), hash: try first.digest(8), nextIdentity: try first.int(4))
        let previousHash = try first.isNull(9) ? nil : first.digest(9)
        var events: [LogChange] = []
        var hashes: [Digest] = []
        var newcomers: [LogChange] = []
        for row in result.rows.dropFirst() {
            if try row.int(0) == 1 {
                events.append(try LogChange(event: row))
                hashes.append(try row.digest(8))
            } else {
                // It became known at this position at the latest.
                newcomers.append(
                    LogChange(position: head.position, environment: nil, scope: .becameKnown(try row.text(3))))
            }
        }
        let isTooMuch = events.count > limit || newcomers.count > limit
        return LogNews(
            head: head, previousHash: previousHash, hashes: isTooMuch ? [] : hashes,
            changes: isTooMuch ? nil : events + newcomers)
    }
}

extension LedgerReader {
    /// Opens a session that tells what came into the log.
    package func openLogTail() async throws -> LogTail {
        do {
            return LogTail(try await pool.openNonblockingSession(preparing: LogTail.statements), hear: hear)
        } catch {
            throw LedgerError(error, doing: "following the ledger")
        }
    }
}

extension LogChange {
    /// Reads an event's row of the tail's statement.
    fileprivate init(event row: PostgresRow) throws {
        position = try row.int(1)
        environment = try row.optionalInt(2).map { try StoreEnvironment(stored: $0) }
        let original = try row.optionalText(6)
        var identities = [try row.optionalInt(4), try row.optionalInt(5)].compactMap { $0.map { IdentityRef($0) } }
        if let facts = try row.optionalBytes(7) { identities += try FactCodec.decode(facts).identities }
        switch try row.text(3) {
        case "catalog_applied", "forgotten": scope = .everybody
        // No answer rests on keys.
        case let type where AccessFact.eventTypes.contains(type):
            scope = .dependents(identities: [], originalTransactionID: nil)
        // What belongs to no environment is a link, or something that this version does not know.
        case let type where environment == nil && type != "linked": scope = .everybody
        default: scope = .dependents(identities: identities, originalTransactionID: original)
        }
    }
}
