import EntitlementCore
import Foundation
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Forgetting")
struct ForgetTests {
    static func notification(
        _ number: Int, token: String?, app: String?, original: String, transaction: Bool = true
    ) -> EventDraft {
        var draft = RandomDrafts(seed: 77, originals: 1).drafts(number + 1)[number]
        draft.environment = .production
        draft.identities = [token, app.map { "apple:\($0)" }].compactMap { $0 }
        guard case .notification(var fact) = draft.fact, var stated = fact.transaction else { return draft }
        stated.originalTransactionID = original
        stated.transactionID = "\(original)-\(number)"
        stated.webOrderLineItemID = "line-\(original)-\(number)"
        stated.accountToken = token == nil ? nil : IdentityRef(0)
        stated.appTransaction = app == nil ? nil : IdentityRef(token == nil ? 0 : 1)
        fact.transaction = transaction ? stated : nil
        fact.renewal?.originalTransactionID = original
        if !transaction { draft.identities = [] }
        draft.fact = .notification(fact)
        draft.evidence = .received(
            VerifyRig.signed(
                "{\"appAccountToken\":\"\(token?.uppercased() ?? "")\",\"appTransactionId\":\"\(app ?? "")\",\"n\":\(number)}"
            ))
        return draft
    }

    static func link(_ identity: String, to customer: String) -> EventDraft {
        EventDraft(
            environment: nil, source: .api, type: "linked", occurredAt: nil,
            fact: .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))),
            identities: [identity, customer], deduplication: .unique)
    }

    /// A withdrawn consent, which names whose copy of the app it is about.
    private static func consent(app: String) -> EventDraft {
        let fact = NotificationFact(
            type: "RESCIND_CONSENT", subtype: nil, uuid: "consent-\(RandomDrafts.digest(app).hex)", signedDate: nil,
            payloadHash: RandomDrafts.digest("consent \(app)"), bundleID: "com.example", transaction: nil,
            renewal: nil, appTransaction: IdentityRef(0), remarks: [])
        return EventDraft(
            environment: .production, source: .notification, type: "consent_rescinded", occurredAt: nil,
            fact: .notification(fact), identities: ["apple:\(app)"],
            deduplication: .statement(id: "notification:\(fact.uuid)", payloadHash: fact.payloadHash),
            evidence: .received(VerifyRig.signed("{\"appTransactionId\":\"\(app)\"}")))
    }

    static let ann = "0a000000-0000-4000-8000-00000000000a"
    static let bob = "0b000000-0000-4000-8000-00000000000b"

    /// Tables in which one of the ids stands in clear, in text or in bytes.
    static func traces(of ids: [String], in ledger: TestLedger) async throws -> Set<String> {
        let owner = try await ledger.database.owner()
        return try await owner.run { connection in
            let tables = try connection.query(
                "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
            var found: Set<String> = []
            for row in tables.rows {
                let table = try row.text(0)
                for id in ids + ids.map({ $0.uppercased() }) {
                    let hex = id.utf8.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
                    let count = try connection.query(
                        "SELECT count(*) FROM \(table) AS t WHERE position($1 IN t::text) + position($2 IN t::text) > 0",
                        [.text(id), .text(hex)]
                    ).first?.int(0)
                    if count != 0 { found.insert(table) }
                }
            }
            // Where evidence is compressed, the database cannot look into it.
            for row in try connection.query("SELECT parts FROM evidence").rows {
                let steps = String(decoding: try EvidenceParts.steps(of: row.bytes(0)), as: UTF8.self).lowercased()
                if ids.contains(where: { steps.contains($0) }) { found.insert("evidence") }
            }
            return found
        }
    }

    static func forgetter(_ ledger: TestLedger) -> Forgetter {
        Forgetter(pool: PostgresPool(ledger.database.ownerConninfo), now: { .earliest })
    }

    @Test("evidence that does not read keeps nobody from being forgotten, and is named")
    func unreadable() async throws {
        let ledger = try await TestLedger()
        let (ann, bob) = (try #require(CustomerID(Self.ann)), try #require(CustomerID(Self.bob)))
        for (number, token) in [Self.ann, Self.bob, Self.ann].enumerated() {
            let draft = Self.notification(number, token: token, app: nil, original: "200\(number)")
            #expect(try await ledger.writer.append(draft).position == Int64(number + 1))
        }
        let owner = try await ledger.database.owner()
        for damage in ["substr(parts, 1, length(parts) - 3)", "set_byte(parts, 60, get_byte(parts, 60) # 16)"] {
            try await owner.execute(
                script: "BEGIN; UPDATE evidence SET parts = \(damage) WHERE position IN (1, 2); COMMIT")
        }
        let preview = try await Self.forgetter(ledger).preview(ann)
        #expect(preview.unreadableEvidence == [2])
        let outcome = try #require(try await Self.forgetter(ledger).forget(ann))
        #expect(outcome.unreadableEvidence == [2] && outcome.evidence == 2)
        // One's own needs not be read to be erased.
        #expect(try await Self.forgetter(ledger).forget(bob)?.unreadableEvidence == [])
        #expect(try await owner.query("SELECT count(*) FROM evidence").first?.int(0) == 0)
    }

    @Test("nothing of a person stays in clear, everything else stays as it was, and the log verifies")
    func forgotten() async throws {
        let ledger = try await TestLedger()
        let (ann, bob) = (try #require(CustomerID(Self.ann)), try #require(CustomerID(Self.bob)))
        let drafts = [
            TestLedger.catalogDraft(TestLedger.catalog),
            Self.notification(0, token: Self.ann, app: "7000000001", original: "2001"),
            Self.notification(1, token: Self.ann, app: nil, original: "2001"),
            Self.notification(2, token: Self.ann, app: nil, original: "2001", transaction: false),
            Self.notification(3, token: Self.bob, app: "7000000002", original: "2002"),
            Self.notification(4, token: Self.ann, app: "7000000002", original: "2003"),
            Self.consent(app: "7000000001"), Self.consent(app: "7000000002"),
            Self.link("account-of-ann", to: Self.ann), Self.link("account-of-bob", to: Self.bob),
            Self.notification(5, token: "account-of-ann", app: "7000000003", original: "2004"),
        ]
        for draft in drafts { _ = try await ledger.writer.append(draft) }
        let erased = [Self.ann, "account-of-ann", "7000000001", "7000000003"]
        let kept = [Self.bob, "account-of-bob", "7000000002"]
        #expect(try await Self.traces(of: erased, in: ledger) == ["identity", "evidence"])
        let bobBefore = try await ledger.reader.customerFacts(bob, environment: .production).facts.timelines()
        let hashes = try await ledger.reader.events(after: 0, limit: 100).events.map(\.record.hash)

        let outcome = try #require(try await Self.forgetter(ledger).forget(ann))
        #expect(
            outcome
                == ForgettingOutcome(
                    positions: [12], identities: 4, evidence: 6, sharedAppTransactions: 1, keptAliases: 0,
                    sharedMailAddresses: 0,
                    unreadableEvidence: []))

        #expect(try await Self.traces(of: erased, in: ledger) == [])
        for id in kept { #expect(try await Self.traces(of: [id], in: ledger).contains("identity"), "\(id)") }
        for lookup in [
            CustomerLookup.appAccountToken(Self.ann), .appTransactionID("7000000001"), .transactionID("2001"),
        ] { #expect(try await ledger.reader.customers(lookup).matches == [], "\(lookup)") }
        #expect(try await ledger.reader.customers(.transactionID("2002")).matches.map(\.customerID) == [Self.bob])
        for customer in [ann, try #require(CustomerID("account-of-ann"))] {
            for position in [KnownAt.head, .position(11)] {
                let known = try await ledger.reader.customerFacts(
                    customer, environment: .production, knownAt: position)
                #expect(known.facts.timelines().isEmpty)
            }
        }
        #expect(try await ledger.reader.customerFacts(bob, environment: .production).facts.timelines() == bobBefore)
        #expect(!bobBefore.isEmpty)

        let log = try await ledger.reader.events(after: 0, limit: 100).events
        #expect(log.dropLast().map(\.record.hash) == hashes)
        #expect(log.map(\.customerID).compactMap { $0 } == [Self.bob, "apple:7000000002", "account-of-bob"])
        let event = try #require(log.last)
        #expect(event.record.type == "forgotten" && event.record.source == .operatorCommand)
        #expect(event.fact.forgetting?.evidencePositions == [2, 3, 4, 6, 7, 11])
        let evidence = try await ledger.reader.event(at: 2)
        #expect(evidence?.evidence == nil && evidence?.event.record.evidenceHash != nil)
        let summary = try await Verifier(pool: ledger.pool, derive: nil).run()
        #expect(summary.erasedEvidence == 6 && summary.evidence == 2)
    }

    @Test("the same again is a duplicate still; what is new of the same person begins anew")
    func afterwards() async throws {
        let ledger = try await TestLedger()
        let ann = try #require(CustomerID(Self.ann))
        let first = Self.notification(0, token: Self.ann, app: "7000000001", original: "2001")
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        _ = try await ledger.writer.append(first)
        _ = try await Self.forgetter(ledger).forget(ann)
        #expect(try await Self.forgetter(ledger).forget(ann) == nil)
        #expect(try await Self.forgetter(ledger).preview(ann).isEmpty)
        #expect(try await ledger.writer.append(first) == AppendOutcome(position: 2, isDuplicate: true))
        #expect(try await Self.traces(of: [Self.ann, "7000000001"], in: ledger) == [])
        #expect(try await ledger.reader.status().position == 3, "forgetting nobody writes nothing")

        let second = Self.notification(1, token: Self.ann, app: "7000000001", original: "2001")
        #expect(try await ledger.writer.append(second) == AppendOutcome(position: 4, isDuplicate: false))
        let events = try await ledger.reader.events(of: ann, environment: .production, after: 0, limit: 10).events
        #expect(events.map(\.record.position) == [4])
        let log = try await ledger.reader.events(after: 0, limit: 10).events
        #expect(log[3].record.identity != log[1].record.identity)
        #expect(try await Verifier(pool: ledger.pool, derive: nil).run().erasedEvidence == 1)
        #expect(try await Self.forgetter(ledger).forget(ann)?.positions == [5])
        #expect(try await Verifier(pool: ledger.pool, derive: nil).run().erasedEvidence == 2)
    }

    @Test("evidence of others that names the person goes too, and no other; token requests leave no trace")
    func elsewhere() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(Self.notification(0, token: Self.ann, app: "7000000001", original: "2001"))
        // About Bob's purchase, with Ann in renewal information that the fold knows nobody from.
        var gift = Self.notification(1, token: Self.bob, app: "7000000002", original: "2002")
        gift.evidence = .received(
            VerifyRig.signed("{\"data\":{\"appAccountToken\":\"\(Self.bob)\",\"giftOf\":\"\(Self.ann.uppercased())\"}}")
        )
        _ = try await ledger.writer.append(gift)
        // The same, kept as it was received: in base64, at any offset.
        for (number, filler) in ["", "x", "xy"].enumerated() {
            var odd = Self.notification(2 + number, token: Self.bob, app: nil, original: "2002")
            let payload = Data("{\(filler)\"appTransactionId\":\"7000000001\"}".utf8).base64EncodedString()
            odd.evidence = .received(Array("short.\(payload).odd".utf8))
            _ = try await ledger.writer.append(odd)
        }
        _ = try await ledger.writer.append(Self.notification(5, token: Self.bob, app: "70000000017", original: "2002"))
        let keys = CommandKeys(pool: ledger.pool)
        let ann = try #require(CustomerID(Self.ann))
        let bob = try #require(CustomerID(Self.bob))
        let sent = Timestamp(milliseconds: Int64(1_800_000_000_000))
        for (key, customer) in [("token-for-ann", ann), ("page-for-bob", bob), ("key-of-nobody", nil)] {
            _ = try await keys.keep([1], for: key, RandomDrafts.digest(key), about: customer, now: sent)
        }
        _ = try await keys.replace(
            nil, with: [2], for: "page-for-ann", RandomDrafts.digest("page"), about: ann, now: sent)

        let forgetter = Self.forgetter(ledger)
        let preview = try await forgetter.preview(ann)
        #expect(preview.scope.evidencePositions == [1, 2, 3, 4, 5])
        // What comes after the look is looked through as well.
        var late = Self.notification(6, token: Self.bob, app: nil, original: "2002")
        late.evidence = gift.evidence
        _ = try await ledger.writer.append(late)
        #expect(try await forgetter.forget(ann, known: preview)?.evidence == 6)
        #expect(try await Self.traces(of: [Self.ann, "token-for-ann", "page-for-ann"], in: ledger) == [])
        for key in ["page-for-bob", "key-of-nobody"] {
            #expect(try await keys.answer(to: key, RandomDrafts.digest(key), now: sent) == [1], "\(key)")
        }
        let owner = try await ledger.database.owner()
        let left = try await owner.query("SELECT position FROM evidence ORDER BY position").rows.map { try $0.int(0) }
        #expect(left == [6], "the longer id is somebody else's")
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        #expect(try await !ledger.reader.customerFacts(bob, environment: .production).facts.timelines().isEmpty)
        #expect(try await Verifier(pool: ledger.pool, derive: nil).run().erasedEvidence == 6)
    }

    @Test("somebody with hundreds of ids is forgotten by all of them")
    func manyIDs() async throws {
        let ledger = try await TestLedger()
        let apps = (0..<300).map { "70000\(10_000 + $0)" }
        for app in apps { _ = try await ledger.writer.append(Self.link("apple:\(app)", to: Self.ann)) }
        var other = Self.notification(0, token: Self.bob, app: nil, original: "2002")
        other.evidence = .received(VerifyRig.signed("{\"x\":\"\(apps[299])\"}"))
        _ = try await ledger.writer.append(other)
        let ann = try #require(CustomerID(Self.ann))
        let outcome = try await Self.forgetter(ledger).forget(ann)
        #expect(outcome?.identities == 301 && outcome?.evidence == 1)
    }

    @Test("an app's own id is looked for in no evidence, whatever word it is")
    func ordinaryWord() async throws {
        let ledger = try await TestLedger()
        for (number, token) in ["Production", Self.bob].enumerated() {
            _ = try await ledger.writer.append(
                Self.notification(number, token: token, app: nil, original: "200\(number)"))
        }
        let word = try #require(CustomerID("Production"))
        #expect(try await Self.forgetter(ledger).forget(word)?.evidence == 1)
        #expect(try await ledger.reader.event(at: 2)?.evidence != nil)
    }

    @Test("what others have at positions that the log lost since the look is looked through, not erased")
    func lostEnd() async throws {
        let ledger = try await TestLedger()
        let owner = try await ledger.database.owner()
        _ = try await ledger.writer.append(Self.notification(0, token: Self.ann, app: nil, original: "2001"))
        let end = try await LogEnd.now(of: owner)
        var gift = Self.notification(1, token: Self.bob, app: nil, original: "2002")
        gift.evidence = .received(VerifyRig.signed("{\"giftOf\":\"\(Self.ann)\"}"))
        let own = Self.notification(2, token: Self.bob, app: nil, original: "2003")
        for draft in [gift, own, EventDraft.grant("1", of: "pro", to: Self.ann)] {
            _ = try await ledger.writer.append(draft)
        }
        let ann = try #require(CustomerID(Self.ann))
        let forgetter = Self.forgetter(ledger)
        let preview = try await forgetter.preview(ann)
        #expect(preview.scope.evidencePositions == [1, 2] && preview.scope.positions == [1, 4])

        // As long as before, but in another order, and with Bob's command where Ann's grant was.
        try await end.restore(by: owner)
        var command = EventDraft.grant("2", of: "pro", to: Self.bob)
        command.deduplication = .command(key: "key-of-bob", requestHash: .zero)
        for (number, draft) in [own, gift, command].enumerated() {
            let outcome = try await ledger.writer.append(draft)
            #expect(outcome == AppendOutcome(position: Int64(number + 2), isDuplicate: false))
        }
        #expect(try await forgetter.preview(ann).scope.evidencePositions == [1, 3])
        let outcome = try await forgetter.forget(ann, known: preview)
        #expect(outcome?.identities == 1 && outcome?.evidence == 2 && outcome?.positions == [5])
        let left = try await owner.query("SELECT position FROM evidence").rows.map { try $0.int(0) }
        #expect(left == [2], "Bob's own")
        let keys = try await owner.query("SELECT command_key FROM command_key").rows.map { try $0.text(0) }
        #expect(keys == ["key-of-bob"])
        #expect(try await Self.traces(of: [Self.ann], in: ledger) == [])
        #expect(try await Verifier(pool: ledger.pool, derive: nil).run().erasedEvidence == 2)
        #expect(try await forgetter.preview(ann).isEmpty)
    }

    @Test("an app transaction that two customers bear goes with the last of them")
    func sharedAppTransaction() async throws {
        let ledger = try await TestLedger()
        for (number, token) in [Self.ann, Self.bob].enumerated() {
            _ = try await ledger.writer.append(
                Self.notification(number, token: token, app: "7000000009", original: "200\(number)"))
        }
        let (ann, bob) = (try #require(CustomerID(Self.ann)), try #require(CustomerID(Self.bob)))
        #expect(try await Self.forgetter(ledger).forget(ann)?.sharedAppTransactions == 1)
        #expect(
            try await ledger.reader.customers(.appTransactionID("7000000009")).matches.map(\.customerID) == [Self.bob])
        #expect(try await Self.forgetter(ledger).forget(bob)?.sharedAppTransactions == 0)
        #expect(try await Self.traces(of: [Self.ann, Self.bob, "7000000009"], in: ledger) == [])
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("statistics keep no sample of what is erased")
    func statistics() async throws {
        let ledger = try await TestLedger()
        for (number, token) in [Self.ann, Self.bob].enumerated() {
            let draft = Self.notification(number, token: token, app: "700", original: "2001")
            _ = try await ledger.writer.append(draft)
            _ = try await CommandKeys(pool: ledger.pool).keep(
                [1], for: token, .zero, about: CustomerID(token), now: Timestamp(milliseconds: 1_800_000_000_000))
        }
        let owner = try await ledger.database.owner()
        try await owner.execute(script: "ANALYZE identity, evidence, command_key, webhook_message")
        let columns = try await owner.query(
            "SELECT tablename || '.' || attname FROM pg_stats WHERE tablename IN ('identity', 'evidence', 'command_key')"
        ).rows.map { try $0.text(0) }
        let sampled = ["identity.identity", "evidence.position", "command_key.recorded_at", "command_key.position"]
        #expect(Set(columns).isSuperset(of: sampled))
        let erased = [
            "identity.value", "identity.salt", "evidence.parts", "command_key.command_key", "command_key.answer",
        ]
        for column in erased {
            #expect(!columns.contains(column), "\(column)")
        }
    }

    @Test("the serving role cannot forget, and nothing is half erased by its trying")
    func servingRole() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(Self.notification(0, token: Self.ann, app: nil, original: "2001"))
        let ann = try #require(CustomerID(Self.ann))
        let forgetter = Forgetter(pool: ledger.pool, now: { .earliest })
        await #expect(throws: LedgerError.self) { try await forgetter.forget(ann) }
        #expect(try await ledger.reader.status().position == 1)
        #expect(try await ledger.reader.customers(.appAccountToken(Self.ann)).matches.count == 1)
        #expect(try await Verifier(pool: ledger.pool, derive: nil).run().evidence == 1)
    }

    @Test("forgetting everybody while others append leaves nobody, and a log that verifies")
    func everybody() async throws {
        let rig = try await VerifyRig(seed: 21, drafts: 80)
        let forgetter = Self.forgetter(rig.ledger)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for draft in VerifyRig.drafts(seed: 22, count: 80) { _ = try await rig.ledger.writer.append(draft) }
            }
            for number in 0..<6 {
                group.addTask {
                    let customer = try #require(CustomerID("customer-of-2000\(number)"))
                    for _ in 0..<5 { _ = try await forgetter.forget(customer) }
                }
            }
            try await group.waitForAll()
        }
        // What names nobody is erased with somebody whom other events of its original transaction name; whoever was
        // forgotten before it came is not found by it. So each original ends with an event that names its customer.
        for number in 0..<6 {
            for environment in StoreEnvironment.allCases {
                var draft = Self.notification(
                    2 * number + (environment == .sandbox ? 1 : 0), token: "customer-of-2000\(number)", app: nil,
                    original: "2000\(number)")
                draft.environment = environment
                _ = try await rig.ledger.writer.append(draft)
            }
        }
        for number in 0..<6 {
            for id in ["customer-of-2000\(number)", "apple:70000\(number)"] {
                _ = try await forgetter.forget(try #require(CustomerID(id)))
            }
        }
        #expect(try await rig.owner.query("SELECT count(*) FROM identity").first?.int(0) == 0)
        #expect(try await Self.traces(of: (0..<6).map { "customer-of-2000\($0)" }, in: rig.ledger) == [])
        #expect(try await rig.verifier.run().evidence == 0)
    }
}
