package import EntitlementCore
import PostgresClient

/// A command sent with an idempotency key that no event of its own remembers, and whose result names nobody.
///
/// Its result is kept under the key by the same transaction that carries it out. So it is done once, however often and
/// concurrently it is sent, and whichever process dies in between.
package struct KeyedCommand: Sendable, Hashable {
    /// Unique to its sender.
    package let key: String
    package let requestHash: Digest
    package let now: Timestamp

    package init(key: String, requestHash: Digest, now: Timestamp) {
        (self.key, self.requestHash, self.now) = (key, requestHash, now)
    }

    /// What was kept under a key.
    enum Kept: Sendable {
        case nothing
        case something([UInt8])
        /// The key was used for another request.
        case other
    }

    /// Locks the key until the end of the transaction; whoever sends the same meanwhile waits for that.
    ///
    /// It has to come before every other lock but the head's, so that two transactions cannot deadlock.
    func take(on connection: isolated PostgresConnection) throws -> Kept {
        let record = try CommandKeys.take(key, requestHash, about: nil, now: now, on: connection)
        guard record.requestHash == requestHash else { return .other }
        let kept = try connection.query(
            """
            SELECT answer FROM command_key WHERE ledger_id = $1 AND command_key = $2 AND answer IS NOT NULL
            FOR UPDATE
            """, [.int(ledgerID), .text(key)]
        ).first
        return try kept.map { .something(try $0.bytes(0)) } ?? .nothing
    }

    /// Keeps something under the key, which the transaction holds.
    ///
    /// - Parameter answer: without anybody's identity, which could not be erased here.
    func keep(_ answer: [UInt8], on connection: isolated PostgresConnection) throws {
        try connection.query(
            "UPDATE command_key SET answer = $3 WHERE ledger_id = $1 AND command_key = $2",
            [.int(ledgerID), .text(key), .bytes(answer)])
    }
}

/// The forgetting of somebody, sent with an idempotency key.
package struct KeyedForgetting: Sendable {
    let command: KeyedCommand
    /// Makes the answer, which names nobody.
    let answer: @Sendable (ForgettingOutcome) throws -> [UInt8]

    package init(_ command: KeyedCommand, answer: @escaping @Sendable (ForgettingOutcome) throws -> [UInt8]) {
        (self.command, self.answer) = (command, answer)
    }
}
