import EntitlementCore
import PostgresClient

/// A session of the event loop's own that tells what came into the log, without ever waiting.
///
/// One small statement proves at once how fresh everything is that was read before; see `CustomerCache`.
package struct LogTail: Sendable {
    /// The most events told apart; reading all anew costs less than telling more.
    package static let limit = 10_000

    private let session: NonblockingSession

    /// What the event loop watches.
    package var descriptor: Int32 { session.descriptor }
    /// Whether the descriptor is watched for writing too.
    package var awaitsWriting: Bool { session.awaitsWriting }
    /// Whether an answer is still to come.
    package var isAsked: Bool { session.isUnderWay }

    /// Asks for the head of the log and for what came after a position; `nil` asks for the head alone.
    ///
    /// - Throws: what makes this session useless; another is to be opened.
    package func ask(after position: Int64?) throws {
        try session.send(Self.parameters(after: position))
    }

    /// Takes what the database has sent; to be called whenever the descriptor is ready.
    ///
    /// - Returns: the news, once they are here whole.
    /// - Throws: what makes this session useless; another is to be opened.
    package func receive() throws -> LogNews? {
        guard let result = try session.receive() else { return nil }
        return try Self.news(from: result)
    }

    fileprivate init(_ session: NonblockingSession) { self.session = session }

    private static func parameters(after position: Int64?) -> [PostgresValue] {
        // The greatest position cannot be counted on from.
        [.int(ledgerID), .int(position ?? .max - 1)]
    }

    /// The log is searched only where it is longer than it was.
    ///
    /// The columns of an event name only those whom its first statement names; where it may have several, it brings its
    /// facts along. The last two columns, of the first row, are the hash of the head and that of the event at `$2`.
    fileprivate static let statement = PostgresStatement(
        """
        SELECT head.position, news.position, news.environment, news.type, news.identity, news.other_identity,
            news.original_transaction_id,
            CASE WHEN news.transaction_id IS NULL AND news.original_transaction_id IS NOT NULL THEN news.facts END,
            CASE WHEN news.position IS NULL OR news.position = $2 + 1 THEN head.hash END,
            CASE WHEN news.position = $2 + 1 THEN news.previous_hash WHEN head.position = $2 THEN head.hash END
        FROM ledger_head AS head LEFT JOIN LATERAL (
            SELECT * FROM event
            WHERE event.ledger_id = $1 AND head.position > $2
                AND event.position > $2 AND event.position <= head.position
            ORDER BY event.position LIMIT \(limit + 1)
        ) AS news ON true
        WHERE head.ledger_id = $1
        """, parameters(after: nil))

    private static func news(from result: PostgresResult) throws -> LogNews {
        guard let first = result.first else { throw Statements.missingHead }
        let position = try first.int(0)
        let hash = try first.digest(8)
        let previousHash = try first.isNull(9) ? nil : first.digest(9)
        guard result.rowCount <= limit else {
            return LogNews(position: position, hash: hash, previousHash: previousHash, changes: nil)
        }
        return LogNews(
            position: position, hash: hash, previousHash: previousHash,
            changes: try result.rows.compactMap { row in try row.isNull(1) ? nil : try LogChange(row) })
    }
}

extension LedgerReader {
    /// Opens a session that tells what came into the log.
    package func openLogTail() async throws -> LogTail {
        do {
            return LogTail(try await pool.openNonblockingSession(preparing: LogTail.statement))
        } catch {
            throw LedgerError(error, doing: "following the ledger")
        }
    }
}

extension LogChange {
    /// Reads a row of the tail's statement.
    fileprivate init(_ row: PostgresRow) throws {
        position = try row.int(1)
        environment = try row.optionalInt(2).map { try StoreEnvironment(stored: $0) }
        let original = try row.optionalText(6)
        var identities = [try row.optionalInt(4), try row.optionalInt(5)].compactMap { $0.map { IdentityRef($0) } }
        if let facts = try row.optionalBytes(7) {
            for transaction in try FactCodec.decode(facts).transactions {
                identities += [transaction.accountToken, transaction.appTransaction].compactMap(\.self)
            }
        }
        switch try row.text(3) {
        case "catalog_applied", "forgotten": scope = .everybody
        // What belongs to no environment is a link, or something that this version does not know.
        case let type where environment == nil && type != "linked": scope = .everybody
        default: scope = .dependents(identities: identities, originalTransactionID: original)
        }
    }
}
