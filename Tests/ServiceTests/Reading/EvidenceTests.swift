import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import OpenSSLCrypto
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Ledger
@testable import Service

/// What verifying finds when somebody who owns the database changes it and computes every hash anew.
@Suite("Evidence, read again")
struct EvidenceTests {
    /// A ledger with notifications and what a device posted, and its owner.
    private struct Ledger {
        let rig: ServiceRig
        let owner: PostgresConnection
        let derive: EvidenceDerivation

        init() async throws {
            rig = try await ServiceRig.make()
            _ = try await rig.put(ServiceRig.deviceCatalog)
            for number in 0..<4 {
                let purchase = Purchase(
                    uuid: "3838df56-31ab-4e2d-9f44-00000000000\(number)", original: "200000000000001\(number)",
                    transaction: "200000000000001\(number)",
                    token: number == 3 ? nil : "7e3fb20b-4cdb-47cc-936d-00000000000\(number)",
                    appTransaction: "70400000\(number)")
                #expect(try await rig.notify(purchase).status == 200)
                #expect(
                    try await rig.notify(purchase.renewed(uuid: "3838df56-31ab-4e2d-9f44-10000000000\(number)")).status
                        == 200)
            }
            let held = HeldTransaction(id: "2000000000000099", token: "7e3fb20b-4cdb-47cc-936d-000000000001")
            let posted = Posted(
                transactions: [try rig.store.sign(held.payload)],
                renewals: [
                    try rig.store.sign(HeldRenewal(original: held.originalID).payload),
                    try rig.store.sign(
                        HeldRenewal(original: held.originalID, signed: 0.2, renews: false, priceIncrease: 0).payload),
                ])
            let answer = try await rig.send(
                "POST", "/v1/customers/7e3fb20b-4cdb-47cc-936d-000000000001/reconcile", key: rig.admin,
                body: try posted.body)
            #expect(answer.status == 200, "\(answer.text)")
            let grant = try await rig.send(
                "POST", "/v1/customers/c-1/actions/grant", key: rig.admin,
                body: Array(#"{"entitlement":"premium","reason":"a test"}"#.utf8))
            #expect(grant.status == 200, "\(grant.text)")
            owner = try await rig.database.owner()
            try await owner.execute(
                script: """
                    ALTER TABLE event DISABLE TRIGGER event_append_only;
                    ALTER TABLE event_name DISABLE TRIGGER event_name_append_only
                    """)
            let reading = EvidenceReading(jws: try JWSVerifier(trusting: TrustAnchors([rig.store.root.certificate])))
            derive = { evidence, event, fact in try reading.derive(evidence, of: event, fact: fact) }
        }

        func verify(quick: Bool = false) async throws -> VerificationDifference? {
            do {
                _ = try await Verifier(pool: rig.pool, derive: quick ? nil : derive).run()
                return nil
            } catch let difference as VerificationDifference {
                return difference
            }
        }

        /// Changes events, and computes the chain anew behind them.
        func forge(_ change: @Sendable (inout EventRecord) -> Void) async throws {
            try await owner.run { connection in
                var previous = Digest.zero
                for row in try connection.query("SELECT \(EventColumns.list) FROM event ORDER BY position").rows {
                    var record = try EventRecord(row)
                    change(&record)
                    record.previousHash = previous
                    record.hash = record.computedHash()
                    previous = record.hash
                    try connection.query(
                        """
                        UPDATE event SET facts = $2, evidence_sha256 = $3, previous_hash = $4, hash = $5,
                            identity_commitments = $6, occurred_at = $7, type = $8, environment = $9
                        WHERE position = $1
                        """,
                        [
                            .int(record.position), .bytes(record.facts), .bytes(record.evidenceHash?.bytes),
                            .bytes(record.previousHash.bytes), .bytes(record.hash.bytes),
                            .bytes(IdentityCommitment.column(record.identityCommitments)),
                            .timestamp(record.occurredAt?.milliseconds), .text(record.type),
                            .int(record.environment.map { Int64($0.number) }),
                        ])
                }
                try connection.query("UPDATE ledger_head SET hash = $1", [.bytes(previous.bytes)])
                try connection.query("DELETE FROM tree_node")
                try connection.query("UPDATE projection SET checkpoint = 0 WHERE name = 'tree'")
            }
        }
    }

    @Test("what the store signed about an app that is not configured proves nothing here")
    func otherApp() async throws {
        let ledger = try await Ledger()
        let jws = try JWSVerifier(trusting: TrustAnchors([ledger.rig.store.root.certificate]))
        for (apps, isFound) in [([], false), ([ServiceRig.bundleID], false), (["com.example.other"], true)] {
            let reading = EvidenceReading(jws: jws, bundleIDs: Set(apps))
            var found: VerificationDifference?
            do {
                _ = try await Verifier(
                    pool: ledger.rig.pool, derive: { try reading.derive($0, of: $1, fact: $2) }
                ).run()
            } catch let difference as VerificationDifference {
                found = difference
            }
            #expect((found != nil) == isFound, "\(apps): \(String(describing: found))")
            if isFound { #expect(found?.problem.contains("is not configured") == true, "\(String(describing: found))") }
        }
    }

    @Test("what the store signed is found proven, and without signatures it is said to be unproven")
    func genuine() async throws {
        let ledger = try await Ledger()
        let summary = try await Verifier(pool: ledger.rig.pool, derive: ledger.derive).run()
        #expect(summary.isProven && summary.evidence == 9)
        #expect(try await !Verifier(pool: ledger.rig.pool, derive: nil).run().isProven)
    }

    @Test("an event that says another thing of a higher price than its evidence, or nothing, is found")
    func priceIncreases() async throws {
        let ledger = try await Ledger()
        func rewrite(_ status: Int64?) async throws {
            try await ledger.forge { record in
                guard case .statements(var fact)? = try? FactCodec.decode(record.facts), fact.renewals.count == 2 else {
                    return
                }
                for index in fact.renewals.indices where fact.renewals[index].autoRenews == false {
                    fact.renewals[index].priceIncreaseStatus = status
                }
                record.facts = FactCodec.encode(.statements(fact))
            }
        }
        let events = try await ledger.rig.get("/v1/events").text
        #expect(events.contains(#""price_increase_status":0"#), "\(events)")
        for other in [nil, 1] as [Int64?] {
            try await rewrite(other)
            #expect(try await ledger.verify()?.problem.contains("renewal information") == true)
        }
        try await rewrite(0)
        #expect(try await ledger.verify() == nil)
    }

    @Test("moving a customer's purchases to another id is found, whatever is changed along")
    func movedIdentities() async throws {
        let ledger = try await Ledger()
        let token = "7e3fb20b-4cdb-47cc-936d-000000000001"
        for (name, script) in [
            ("another id", "UPDATE identity SET value = 'c-9' WHERE value = '\(token)'"),
            (
                "two ids swapped",
                """
                UPDATE identity SET value = CASE value WHEN 'c-1' THEN '\(token)-' ELSE 'c-1-' END
                WHERE value IN ('c-1', '\(token)');
                UPDATE identity SET value = rtrim(value, '-') WHERE value LIKE '%-'
                """
            ),
            (
                "two numbers swapped",
                """
                UPDATE identity SET identity = 1000 - identity WHERE value IN ('c-1', '\(token)');
                UPDATE identity SET identity = (SELECT sum(1000 - identity) FROM identity WHERE identity > 900)
                    - (1000 - identity) WHERE identity > 900
                """
            ),
            ("another salt", "UPDATE identity SET salt = decode('00', 'hex') WHERE value = 'c-1'"),
            ("a number more", "UPDATE ledger_head SET next_identity = next_identity + 1"),
            ("a row more", "INSERT INTO identity VALUES (1, 0, '', 'c-0')"),
        ] {
            try await ledger.owner.execute(script: "CREATE TABLE kept AS SELECT * FROM identity; " + script)
            for quick in [true, false] {
                let difference = try await ledger.verify(quick: quick)
                #expect(
                    difference?.table == (name == "a number more" ? "ledger_head" : "identity"),
                    "\(name): \(String(describing: difference))")
            }
            try await ledger.owner.execute(
                script: """
                    DELETE FROM identity; INSERT INTO identity SELECT * FROM kept; DROP TABLE kept;
                    UPDATE ledger_head SET next_identity = (SELECT max(identity) + 1 FROM identity)
                    """)
        }
        #expect(try await ledger.verify() == nil)
        // The commitment changed along with the id, and the whole chain: only the signed token tells.
        try await ledger.owner.execute(script: "UPDATE identity SET value = 'c-9' WHERE value = '\(token)'")
        let row = try #require(
            try await ledger.owner.query("SELECT identity, salt FROM identity WHERE value = 'c-9'").first)
        let (number, commitment) = (
            try row.int(0), IdentityCommitment.of("c-9", salt: try row.bytes(1))
        )
        let firsts = try await ledger.owner.query(
            "SELECT position, coalesce(length(identity_commitments) / 32, 0) FROM event ORDER BY position"
        ).rows.map { (try $0.int(0), try $0.int(1)) }
        var place: (position: Int64, index: Int)?
        var next: Int64 = 1
        for (position, count) in firsts {
            if (next..<next + count).contains(number) { place = (position, Int(number - next)) }
            next += count
        }
        let changed = try #require(place)
        try await ledger.forge {
            if $0.position == changed.position { $0.identityCommitments[changed.index] = commitment }
        }
        #expect(try await ledger.verify(quick: true) == nil)
        let difference = try await ledger.verify()
        #expect(
            difference?.problem.contains("not whom its evidence names") == true, "\(String(describing: difference))")
    }

    @Test("facts, dates and labels that the store did not sign are found, though every hash fits")
    func forgedFacts() async throws {
        let changes: [(String, String, @Sendable (inout EventRecord) -> Void)] = [
            (
                "a longer subscription", "facts",
                { record in
                    guard case .notification(var fact)? = try? FactCodec.decode(record.facts) else { return }
                    fact.transaction?.expiresDate = .latest
                    record.facts = FactCodec.encode(.notification(fact))
                }
            ),
            (
                "a device's longer subscription", "facts",
                { record in
                    guard case .statements(var fact)? = try? FactCodec.decode(record.facts) else { return }
                    fact.transactions[0].expiresDate = .latest
                    record.facts = FactCodec.encode(.statements(fact))
                }
            ),
            (
                "a renewal less", "does not prove",
                { record in
                    guard case .statements(var fact)? = try? FactCodec.decode(record.facts) else { return }
                    fact.renewals.removeLast()
                    record.facts = FactCodec.encode(.statements(fact))
                }
            ),
            (
                "no owner", "",
                { record in
                    guard case .notification(var fact)? = try? FactCodec.decode(record.facts) else { return }
                    fact.transaction?.appTransaction = nil
                    record.facts = FactCodec.encode(.notification(fact))
                }
            ),
            ("another date", "occurred_at", { if $0.position == 3 { $0.occurredAt = .latest } }),
            ("another label", "type", { if $0.position == 3 { $0.type = "refunded" } }),
        ]
        for (name, problem, change) in changes {
            let ledger = try await Ledger()
            try await ledger.forge(change)
            let difference = try await ledger.verify()
            #expect(difference?.problem.contains(problem) == true, "\(name): \(String(describing: difference))")
            #expect(difference != nil, "\(name)")
        }
    }

    @Test("evidence that another authority signed, and a statement without any, prove nothing")
    func forgedEvidence() async throws {
        let ledger = try await Ledger()
        let stranger = try SimulatedAuthority()
        var purchase = Purchase(
            uuid: "3838df56-31ab-4e2d-9f44-00000000000f", original: "2000000000000500", transaction: "2000000000000500")
        purchase.token = "7e3fb20b-4cdb-47cc-936d-000000000001"
        let reading = EvidenceReading(jws: try JWSVerifier(trusting: TrustAnchors([stranger.root.certificate])))
        let signed = Array(try purchase.signed(by: stranger).utf8)
        let derived = try reading.derive(
            signed,
            of: try #require(
                try await ledger.rig.pool.withConnection { connection in
                    try connection.query("SELECT \(EventColumns.list) FROM event ORDER BY position DESC LIMIT 1").first
                        .map { try EventRecord($0) }
                }),
            fact: .notification(
                NotificationFact(
                    type: "", subtype: nil, uuid: "", signedDate: nil, payloadHash: .zero, bundleID: "",
                    transaction: nil, renewal: nil, remarks: [])))
        guard case .notification(let fact) = derived.fact else {
            Issue.record("no notification")
            return
        }
        // As the serving role may: through the ledger's own writer, with the stranger's bytes as evidence.
        let writer = LedgerWriter(pool: ledger.rig.pool, now: { ledger.rig.clock.now })
        let forged = EventDraft(
            environment: .production, source: .notification, type: derived.type, occurredAt: derived.occurredAt,
            fact: derived.fact, identities: derived.identities,
            deduplication: .statement(id: "notification:" + fact.uuid, payloadHash: fact.payloadHash),
            evidence: .received(signed))
        let position = try await writer.append(forged).position
        #expect(try await ledger.verify(quick: true) == nil)
        var difference = try await ledger.verify()
        #expect(
            difference?.table == "evidence" && difference?.key == "position \(position)"
                && difference?.problem.contains("trusted root") == true, "\(String(describing: difference))")
        var without = forged
        without.evidence = nil
        without.deduplication = .unique
        guard case .notification(var other) = without.fact else { return }
        other.uuid = "3838df56-31ab-4e2d-9f44-0000000000ff"
        without.fact = .notification(other)
        let second = try await Ledger()
        let alone = try await LedgerWriter(pool: second.rig.pool, now: { second.rig.clock.now }).append(without)
            .position
        difference = try await second.verify(quick: true)
        #expect(
            difference?.key == "position \(alone)" && difference?.problem.contains("names no evidence") == true,
            "\(String(describing: difference))")
    }
}
