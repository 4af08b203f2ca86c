import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What a superuser changes who also computes every hash anew is found all the same.
@Suite("Forgery")
struct VerifyForgeryTests {
    /// Changes of one event, each with the table in which a chain computed anew does not hide it.
    static let forgeries: [(name: String, table: String, change: @Sendable (inout EventRecord) -> Void)] = [
        ("another product in the column", "event", { $0.productID = "com.example.other" }),
        ("another original transaction in the column", "event", { $0.originalTransactionID = "20009" }),
        ("another transaction in the column", "event", { $0.transactionID = nil }),
        ("another owner in the column", "event", { $0.identity = IdentityRef(2) }),
        ("another second identity in the column", "event", { $0.otherIdentity = IdentityRef(1) }),
        ("a type that is looked for by name", "event", { $0.type = "catalog_applied" }),
        ("an earlier time", "event", { $0.recordedAt = .earliest }),
        ("other evidence", "evidence", { $0.evidenceHash = RandomDrafts.digest("other") }),
        ("no evidence", "event", { $0.evidenceHash = nil }),
        (
            "a longer subscription", "original_view",
            { record in
                guard case .notification(var fact)? = try? FactCodec.decode(record.facts) else { return }
                fact.transaction?.expiresDate = .latest
                record.facts = FactCodec.encode(.notification(fact))
            }
        ),
        (
            "another notification", "event",
            { record in
                guard case .notification(var fact)? = try? FactCodec.decode(record.facts) else { return }
                fact.uuid = "another"
                record.facts = FactCodec.encode(.notification(fact))
            }
        ),
        (
            "an owner nobody knows", "event_name",
            { record in
                guard case .notification(var fact)? = try? FactCodec.decode(record.facts) else { return }
                fact.transaction?.accountToken = IdentityRef(500)
                record.facts = FactCodec.encode(.notification(fact))
                record.identity = IdentityRef(500)
            }
        ),
    ]

    @Test("a forger who computes the whole chain anew is caught by what else the tables say")
    func forgedChain() async throws {
        let rig = try await VerifyRig(seed: 15)
        try await rig.prepare()
        let log = try await rig.ledger.reader.events(after: 0, limit: 1000).events
        let views = try await rig.owner.query("SELECT state FROM original_view").rows.map {
            try OriginalState(encoded: $0.bytes(0))
        }
        let kept = Set(views.flatMap { $0.transactions.map(\.position) })
        // One whose statement its original transaction's view keeps.
        let target = try #require(
            log.last { shown in
                guard case .notification(let fact) = shown.fact else { return false }
                return fact.transaction?.appTransaction != nil && kept.contains(shown.record.position)
            })
        for forgery in Self.forgeries {
            var previous = Digest.zero
            var records = log.map(\.record)
            for index in records.indices {
                if records[index].position == target.record.position { forgery.change(&records[index]) }
                records[index].previousHash = previous
                records[index].hash = records[index].computedHash()
                previous = records[index].hash
            }
            try await Self.write(records, rig)
            let difference = try await rig.difference()
            #expect(difference?.table == forgery.table, "\(forgery.name): \(String(describing: difference))")
            try await rig.restore()
        }
        #expect(try await rig.difference() == nil)
    }

    private static func write(_ records: [EventRecord], _ rig: VerifyRig) async throws {
        let head = try #require(records.last)
        try await rig.owner.run { connection in
            for record in records {
                try connection.query(
                    """
                    UPDATE event SET recorded_at = $2, type = $3, original_transaction_id = $4, transaction_id = $5,
                        product_id = $6, identity = $7, other_identity = $8, facts = $9, evidence_sha256 = $10,
                        previous_hash = $11, hash = $12
                    WHERE position = $1
                    """,
                    [
                        .int(record.position), .timestamp(record.recordedAt.milliseconds), .text(record.type),
                        .text(record.originalTransactionID), .text(record.transactionID), .text(record.productID),
                        .int(record.identity?.number), .int(record.otherIdentity?.number), .bytes(record.facts),
                        .bytes(record.evidenceHash?.bytes), .bytes(record.previousHash.bytes),
                        .bytes(record.hash.bytes),
                    ])
            }
            try connection.query("UPDATE ledger_head SET hash = $1", [.bytes(head.hash.bytes)])
        }
    }
}
