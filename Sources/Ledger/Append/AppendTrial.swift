import EntitlementCore
import OpenSSLCrypto
import PostgresClient

/// Tries whether an event can be appended, and adds none to the log.
///
/// An event is written in the way of all others, to the same tables, indexes and triggers, and taken back. That alone would not
/// show that there is room on the disk: a small event finds some in pages that are there already, and what is taken back need not
/// reach the write-ahead log's file. So its evidence is larger than what is left over in pages, and the transaction commits,
/// without what it took back, which brings the write-ahead log to the disk.
enum AppendTrial {
    /// Takes new pages, unless as many are free and so of use to other events, too.
    private static let evidenceBytes = 64 << 10

    /// - Throws: what an append would throw.
    static func run(on connection: isolated PostgresConnection) throws {
        let batch = [event()]
        do {
            let context = try AppendRead.run(batch, memory: WriterMemory(), on: connection)
            let plan = AppendPlan(batch, context: context, now: context.databaseTime)
            try AppendWrite.runInVain(plan, on: connection)
        } catch {
            // If even this fails the connection is broken, and the server rolls back by itself.
            if connection.isInTransaction { try? connection.execute(script: "ROLLBACK") }
            throw error
        }
    }

    /// Of a customer and a statement that nobody has heard of.
    private static func event() -> PreparedEvent {
        let number = Digest(SecureRandom.bytes(32)) ?? .zero
        let fact = NotificationFact(
            type: "TRIAL", subtype: nil, uuid: number.hex, signedDate: nil, payloadHash: number, bundleID: "",
            transaction: nil, renewal: nil, appTransaction: IdentityRef(0), remarks: [])
        return PreparedEvent(
            EventDraft(
                environment: .sandbox, source: .notification, occurredAt: nil, fact: .notification(fact),
                identities: ["trial:\(number.hex)"], deduplication: .unique,
                evidence: .plain(SecureRandom.bytes(evidenceBytes))))
    }
}
