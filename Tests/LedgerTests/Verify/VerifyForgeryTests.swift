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

    @Test("a key that may do more than it was made for, and a revocation taken back, are named")
    func keys() async throws {
        let rig = try await VerifyRig(seed: 16, drafts: 3)
        let store = APIKeyStore(pool: rig.ledger.pool, writer: rig.ledger.writer)
        let secret = try await store.create(name: "metrics", scopes: [.metrics]).secret
        let (revoked, revokedSecret) = try await store.create(name: "old", scopes: [.admin])
        _ = try await store.revoke(revoked.id)
        try await rig.prepare()
        let log = try await rig.ledger.reader.events(after: 0, limit: 1000).events.map(\.record)
        let made = try #require(log.firstIndex { $0.type == AccessFact.keyCreatedType })
        guard case .access(.keyCreated(var fact)) = try FactCodec.decode(log[made].facts) else {
            Issue.record("no key was made")
            return
        }
        fact.scopes = ["admin"]
        var records = log
        records[made].facts = FactCodec.encode(.access(.keyCreated(fact)))
        try await VerifyForgeryTests.write(records, rig)
        #expect(try await store.find(secret: secret)?.scopes == [.admin], "so the forgery would work")
        #expect(try await rig.difference()?.key == "position \(log[made].position)")
        try await rig.restore()

        let last = try #require(log.last)
        #expect(last.type == AccessFact.keyRevokedType)
        #expect(try await store.find(secret: revokedSecret) == nil)
        try await rig.owner.execute(script: "UPDATE event SET dedup_key = NULL WHERE position = \(last.position)")
        #expect(try await store.find(secret: revokedSecret) != nil, "so this would work, too")
        #expect(try await rig.difference()?.key == "position \(last.position)")
        try await rig.restore()
        #expect(try await rig.difference() == nil)
    }

    @Test("an event that says that evidence was erased excuses nothing by itself: the serving role may write it")
    func forgottenByTheServingRole() async throws {
        let rig = try await VerifyRig(seed: 17, drafts: 3)
        var draft = VerifyRig.drafts(seed: 18, count: 1)[0]
        draft.evidence = .received(VerifyRig.signed("{}"))
        let minted = try await rig.ledger.writer.append(draft).position
        try await rig.owner.execute(script: "DELETE FROM evidence WHERE position = \(minted)")
        #expect(try await rig.difference()?.key == "position \(minted)")
        _ = try await rig.ledger.writer.append(
            EventDraft(
                environment: nil, source: .operatorCommand, occurredAt: nil,
                fact: .forgetting(ForgettingFact(identities: [], evidencePositions: [minted])), identities: [],
                deduplication: .unique))
        let difference = try #require(try await rig.difference())
        #expect(difference.key == "position \(minted)" && difference.problem.contains("owner's table of erasures"))
        await #expect(throws: PostgresError.self) {
            try await PostgresConnection.connect(rig.ledger.database.serveConninfo).execute(
                script: "INSERT INTO erasure VALUES (1, \(minted))")
        }
    }

    @Test("nobody is two numbers: a customer's id under a second one is named")
    func twoNumbers() async throws {
        let rig = try await VerifyRig(seed: 19)
        try await rig.owner.execute(
            script: """
                ALTER TABLE identity DROP CONSTRAINT identity_ledger_id_value_key;
                ALTER TABLE identity DISABLE TRIGGER ALL;
                """)
        let victim = try #require(
            try await rig.owner.query("SELECT value FROM identity WHERE identity = 1").first?.text(0))
        // Another's commitment is made for the victim's id.
        _ = try await rig.ledger.writer.append(
            EventDraft(
                environment: nil, source: .api, occurredAt: nil,
                fact: .grant(
                    GrantFact(grantID: "g", customer: IdentityRef(0), entitlementID: "x", until: nil, reason: "")),
                identities: ["somebody"], deduplication: .unique))
        try await rig.owner.execute(script: "UPDATE identity SET value = '\(victim)' WHERE value = 'somebody'")
        let difference = try #require(try await rig.difference())
        #expect(difference.table == "identity", "\(difference)")
        #expect(try await LedgerGuards.off(rig.ledger.pool).contains { $0.contains("identity (ledger_id, value)") })
    }

    @Test("a second key under the id of another, and a revocation of none, are named; revoking the id leaves neither")
    func keyIDs() async throws {
        let rig = try await VerifyRig(seed: 20, drafts: 1)
        let store = APIKeyStore(pool: rig.ledger.pool, writer: rig.ledger.writer)
        let (key, secret) = try await store.create(name: "a", scopes: [.metrics])
        func append(_ fact: AccessFact) async throws -> Int64 {
            let fact = LedgerFact.access(fact)
            return try await rig.ledger.writer.append(
                EventDraft(
                    environment: nil, source: .operatorCommand, occurredAt: nil, fact: fact, identities: [],
                    deduplication: fact.deduplication(in: nil))
            ).position
        }
        let made = KeyCreationFact(
            keyID: key.id, secretHash: RandomDrafts.digest("other"), name: "b", isPublishable: false, scopes: ["admin"],
            environment: nil, bundleID: nil)
        let second = try await append(.keyCreated(made))
        #expect(try await rig.difference()?.key == "position \(second)")
        #expect(try await store.revoke(key.id))
        #expect(try await store.list().allSatisfy { $0.revokedAt != nil })
        #expect(try await store.find(secret: secret) == nil)

        let other = try await VerifyRig(seed: 21, drafts: 1)
        let none = LedgerFact.access(
            .keyRevoked(KeyRevocationFact(keyID: "key_x", secretHash: RandomDrafts.digest("x"))))
        let position = try await other.ledger.writer.append(
            EventDraft(
                environment: nil, source: .operatorCommand, occurredAt: nil, fact: none, identities: [],
                deduplication: none.deduplication(in: nil))
        ).position
        #expect(try await other.difference()?.key == "position \(position)")
    }

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
