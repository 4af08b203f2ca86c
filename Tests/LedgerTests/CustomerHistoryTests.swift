import EntitlementCore
import SeededRandom
import TestSupport
import Testing

@testable import Ledger

@Suite("A customer's history, found by index", .timeLimit(.minutes(5)))
struct CustomerHistoryTests {
    private func id(_ value: String) throws -> CustomerID { try #require(CustomerID(value)) }

    /// What a notification says about one original transaction.
    private func draft(
        _ uuid: String, original: String, token: String?, app: String? = nil, month: Int64 = 0,
        environment: StoreEnvironment = .production
    ) -> EventDraft {
        let length = 30 * Timestamp.millisecondsPerDay
        let start = Timestamp(milliseconds: 1_700_000_000_000 + month * length)
        let identities = [token, app].compactMap(\.self)
        let transaction = TransactionFact(
            payloadHash: RandomDrafts.digest(uuid), signedDate: start, transactionID: "\(original)-\(month)",
            originalTransactionID: original, productID: "com.example.pro", bundleID: "com.example",
            kind: .known(.autoRenewable), purchaseDate: start, expiresDate: start.adding(milliseconds: length),
            reason: .known(month == 0 ? .purchase : .renewal), ownership: .known(.purchased),
            accountToken: token.map { _ in IdentityRef(0) },
            appTransaction: app.map { _ in IdentityRef(token == nil ? 0 : 1) })
        return EventDraft(
            environment: environment, source: .notification, type: "renewed", occurredAt: start,
            fact: .notification(
                NotificationFact(
                    type: "DID_RENEW", subtype: nil, uuid: uuid, signedDate: start,
                    payloadHash: RandomDrafts.digest(uuid), bundleID: "com.example", transaction: transaction,
                    renewal: nil, remarks: [])),
            identities: identities,
            deduplication: .statement(id: "notification:\(uuid)", payloadHash: RandomDrafts.digest(uuid)),
            evidence: .received(Array("evidence of \(uuid), which names \(identities.joined(separator: " "))".utf8)))
    }

    private func command(_ fact: LedgerFact, _ identities: String...) -> EventDraft {
        EventDraft(
            environment: .production, source: .api, type: "commanded", occurredAt: nil, fact: fact,
            identities: identities, deduplication: .unique)
    }

    private func told(_ drafts: [EventDraft]) async throws -> TestLedger {
        let ledger = try await TestLedger()
        for draft in [TestLedger.catalogDraft(TestLedger.catalog)] + drafts {
            _ = try await ledger.writer.append(draft)
        }
        return ledger
    }

    private func positions(
        _ ledger: TestLedger, of customer: String, knownAt: KnownAt = .head
    ) async throws -> [Int64] {
        try await ledger.reader.history(of: id(customer), environment: .production, knownAt: knownAt)
            .events.map(\.position)
    }

    @Test("it holds what bears on the customer and nothing else, up to the position asked for")
    func selection() async throws {
        let ledger = try await told([
            draft("a", original: "1", token: "ann"), draft("b", original: "2", token: "ben"),
            draft("c", original: "1", token: "ann", month: 1),
            draft("d", original: "3", token: "ann", environment: .sandbox),
            command(
                .grant(GrantFact(grantID: "g", customer: IdentityRef(0), entitlementID: "x", until: nil, reason: "")),
                "ann"),
        ])
        #expect(try await positions(ledger, of: "ann") == [1, 2, 4, 6])
        #expect(try await positions(ledger, of: "ann", knownAt: .position(3)) == [1, 2])
        #expect(try await positions(ledger, of: "ben") == [1, 3])
        #expect(try await positions(ledger, of: "nobody") == [1])
        let history = try await ledger.reader.history(of: id("ann"), environment: .production)
        let facts = try await ledger.reader.customerFacts(id("ann"), environment: .production).facts
        #expect(history.facts().originals == facts.originals, "the same states as the views hold")
        await #expect(throws: KnownAtError.beyondHead(head: 6)) {
            try await positions(ledger, of: "ann", knownAt: .position(7))
        }
    }

    @Test("links are followed both ways, as they were known then; claims and transfers bring what they moved")
    func ownership() async throws {
        let ledger = try await told([
            draft("a", original: "1", token: "ann"),
            command(.link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))), "ann", "bea"),
            draft("b", original: "2", token: nil),
            command(.claim(ClaimFact(originalTransactionID: "2", customer: IdentityRef(0))), "bea"),
            command(.claim(ClaimFact(originalTransactionID: "2", customer: IdentityRef(0))), "eve"),
            draft("c", original: "3", token: "cid"),
            command(.transfer(TransferFact(originalTransactionID: "3", customer: IdentityRef(0))), "bea"),
        ])
        for customer in ["ann", "bea"] {
            #expect(try await positions(ledger, of: customer) == [1, 2, 3, 4, 5, 6, 7, 8])
            let history = try await ledger.reader.history(of: id(customer), environment: .production)
            let timeline = try #require(history.facts().timelines().first)
            #expect(Set(timeline.readings.compactMap(\.originalTransactionID)).isSubset(of: ["1", "2", "3"]))
            #expect(
                history.facts().customer == history.facts().ownership.customer(of: history.customer ?? IdentityRef(0)))
        }
        #expect(try await positions(ledger, of: "bea", knownAt: .position(2)) == [1])
        #expect(try await positions(ledger, of: "ann", knownAt: .position(2)) == [1, 2])
        #expect(try await positions(ledger, of: "eve") == [1, 6], "a claim that came too late shows nothing")
        #expect(try await positions(ledger, of: "cid") == [1, 7, 8])
    }

    @Test("an export has all of the customer and, of others, only their numbers")
    func export() async throws {
        let ledger = try await told([
            draft("a", original: "1", token: "ann", app: "apple:7"),
            draft("b", original: "1", token: "ben", app: "apple:7", month: 1),
            draft("c", original: "2", token: "ben", app: "apple:7"),
            draft("d", original: "3", token: "ann", environment: .sandbox),
            command(.link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))), "ann", "main"),
        ])
        let export = try #require(
            try await ledger.reader.export(of: id("ann"), environments: StoreEnvironment.allCases))
        #expect(export.items.map(\.record.position) == [1, 2, 3, 5, 6])
        #expect(Set(export.identities.values) == ["ann", "apple:7", "main"])
        #expect(export.items.map(\.isWithheld) == [false, false, true, false, false])
        let evidence = export.items.map { $0.evidence.map { String(decoding: $0, as: UTF8.self) } }
        #expect(evidence[1] == "evidence of a, which names ann apple:7")
        #expect(evidence.compactMap(\.self).allSatisfy { !$0.contains("ben") })
        #expect(export.items.allSatisfy { $0.fault == nil })
        #expect(try await export.hash == ledger.reader.status().hash)
        #expect(try await ledger.reader.export(of: id("nobody"), environments: [.production]) == nil)
        let sandbox = try #require(try await ledger.reader.export(of: id("ann"), environments: [.sandbox]))
        #expect(sandbox.items.map(\.record.position) == [1, 5])
    }

    @Test("evidence that names somebody else where no fact is taken from it is withheld from an export")
    func renewalOfAnother() async throws {
        let (ann, ben) = ("0a000000-0000-4000-8000-00000000000a", "0b000000-0000-4000-8000-00000000000b")
        let ledger = try await told(
            [ann, ben].map { renewed in
                var draft = draft(renewed, original: "1", token: ann, app: "apple:7")
                let renewal = #"{"appAccountToken" : "\#(renewed.uppercased())","appTransactionId":"7"}"#
                draft.evidence = .received(VerifyRig.signed(#"{"appAccountToken":"\#(ann)","renewal":\#(renewal)}"#))
                return draft
            })
        let export = try #require(try await ledger.reader.export(of: id(ann), environments: [.production]))
        #expect(export.items.map(\.isWithheld) == [false, false, true])
        #expect(export.items.map { $0.evidence != nil } == [false, true, false])
    }

    @Test("of whom a link once tied to the customer by mistake nothing is handed out, in either direction")
    func undoneLink() async throws {
        func link(_ identity: String, to customer: String) -> EventDraft {
            command(.link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))), identity, customer)
        }
        let undo = command(.link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(0))), "ben")
        let ledger = try await told([
            draft("a", original: "1", token: "ann"), draft("b", original: "2", token: "ben", app: "apple:9"),
            link("ben", to: "ann"), undo, draft("c", original: "2", token: "ben", month: 1), link("old", to: "ben"),
        ])
        func export(_ customer: String) async throws -> CustomerExport {
            try #require(try await ledger.reader.export(of: id(customer), environments: [.production]))
        }
        for (customer, positions, people) in [
            ("ann", [1, 2, 4, 5, 7], ["ann"]), ("ben", [1, 3, 4, 5, 6, 7], ["ben", "old", "apple:9"]),
            ("old", [1, 3, 4, 5, 6, 7], ["ben", "old", "apple:9"]),
        ] as [(String, [Int64], Set<String>)] {
            let found = try await export(customer)
            #expect(found.items.map(\.record.position) == positions, "\(customer)")
            #expect(Set(found.identities.values) == people, "\(customer)")
            let text = found.items.compactMap(\.evidence).map { String(decoding: $0, as: UTF8.self) }
            #expect(text.allSatisfy { $0.contains("names \(customer == "ann" ? "ann" : "ben")") }, "\(text)")
            let shown = try await ledger.reader.events(
                of: id(customer), environment: .production, after: 0, limit: 100
            ).events
            #expect(shown.map(\.record.position) == positions.filter { $0 != 1 }, "\(customer)")
            #expect(Set(shown.compactMap(\.customerID)).isSubset(of: people), "\(customer)")
            // What is left folds to the same answer.
            let history = CustomerHistory(
                of: found.identity, environment: .production, position: found.position,
                events: found.items.map { HistoryEvent($0.record, fact: $0.fact) })
            let known = try await ledger.reader.customerFacts(id(customer), environment: .production).facts
            #expect(history.facts().timelines() == known.timelines(), "\(customer)")
        }
        // While the link held they were one, and that answer stays.
        #expect(try await positions(ledger, of: "ann", knownAt: .position(4)) == [1, 2, 3, 4])
    }

    @Test("an event that was changed, or whose evidence was, shows it")
    func faults() async throws {
        let ledger = try await told([draft("a", original: "1", token: "ann")])
        let export = try #require(try await ledger.reader.export(of: id("ann"), environments: [.production]))
        let item = try #require(export.items.last)
        var record = item.record
        record.type = "refunded"
        func fault(_ record: EventRecord, _ evidence: [UInt8]?) -> String? {
            CustomerExport.Item(record: record, fact: item.fact, evidence: evidence, isWithheld: false).fault
        }
        #expect(fault(item.record, item.evidence) == nil && fault(item.record, nil) == nil)
        #expect(fault(record, item.evidence) != nil)
        #expect(fault(item.record, [1]) != nil)
    }

    @Test("a customer's answer is the same from the history as from the views, for random logs and positions")
    func sameAnswers() async throws {
        let drafts = RandomDrafts(seed: 11, originals: 5)
        let ledger = try await told(drafts.drafts(60))
        var random = SplitMix64(seed: 11)
        for number in 0..<5 {
            let customer = try id(drafts.customer(of: "2000\(number)"))
            for environment in StoreEnvironment.allCases {
                let knownAt = KnownAt.position(Int64.random(in: 0...61, using: &random))
                let history = try await ledger.reader.history(
                    of: customer, environment: environment, knownAt: knownAt)
                let known = try await ledger.reader.customerFacts(customer, environment: environment, knownAt: knownAt)
                #expect(history.position == known.position)
                #expect(history.facts().timelines() == known.facts.timelines(), "\(customer) \(knownAt)")
            }
        }
    }
}
