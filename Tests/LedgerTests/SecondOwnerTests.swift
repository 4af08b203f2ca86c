import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// An event's row bears the first owner that Stripe names, or that a device's statements do; whoever is named behind it counts
/// as much.
@Suite("Events that name several people", .timeLimit(.minutes(5)))
struct SecondOwnerTests {
    private static func reading(
        _ name: String, of owners: [(WebOwner.Place, String)], mentioning words: String
    ) -> EventDraft {
        let fact = WebFact(
            type: WebFact.readingLabel, eventID: nil, statedAt: Timestamp(milliseconds: 1_760_000_000_000),
            payloadHash: RandomDrafts.digest(name),
            originalTransactionID: "pi_9",
            owners: owners.enumerated().map { index, owner in
                WebOwner(place: owner.0, customer: IdentityRef(Int64(index)))
            })
        return EventDraft(
            environment: .production, source: .stripeAPI, type: WebFact.readingLabel, occurredAt: nil,
            fact: .web(fact), identities: owners.map(\.1), deduplication: .unique,
            evidence: .received(Array(words.utf8)))
    }

    private static let bob = "0b000000-0000-4000-8000-00000000000b"
    private static let dave = "0d000000-0000-4000-8000-00000000000d"

    /// Two transactions of one of somebody's purchases that came at once: the first was signed before app transactions had ids.
    private static func launch(of token: String, app: String) throws -> EventDraft {
        let drafts = RandomDrafts(seed: 77, originals: 1).drafts(9)
        var stated = drafts.compactMap { draft -> TransactionFact? in
            guard case .notification(let fact) = draft.fact else { return nil }
            return fact.transaction
        }.prefix(2)
        for index in stated.indices {
            stated[index].originalTransactionID = "of \(token)"
            stated[index].transactionID = "\(token)-\(index)"
            stated[index].accountToken = IdentityRef(0)
            stated[index].appTransaction = index == 0 ? nil : IdentityRef(1)
        }
        try #require(stated.count == 2)
        return EventDraft(
            environment: .production, source: .device, occurredAt: nil,
            fact: .statements(
                StatementsFact(
                    originalTransactionID: "of \(token)", transactions: Array(stated), renewals: [], remarks: [])),
            identities: [token, "apple:\(app)"], deduplication: .unique,
            evidence: .received(Array(#"{"appTransactionId":"\#(app)"}"#.utf8)))
    }

    @Test(
        "what stands beside the owner behind the first transaction shows its purchase to nobody, and is forgotten with them"
    )
    func besideTheSecond() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(
            EventDraft(
                environment: nil, source: .api, type: "linked", occurredAt: nil,
                fact: .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))),
                identities: ["apple:7000000001", "carol"], deduplication: .unique))
        for (token, app) in [
            (Self.bob, "7000000001"), (Self.bob, "7000000002"), (Self.bob, "7000000003"),
            (Self.dave, "7000000003"),
        ] { _ = try await ledger.writer.append(try Self.launch(of: token, app: app)) }
        for (id, positions) in [("carol", [1]), (Self.bob, [2, 3, 4]), (Self.dave, [5])] as [(String, [Int64])] {
            let customer = try #require(CustomerID(id))
            let page = try await ledger.reader.events(of: customer, environment: .production, after: 0, limit: 9)
            #expect(page.events.map(\.record.position) == positions, "\(id)")
        }
        let forgetter = Forgetter(pool: PostgresPool(ledger.database.ownerConninfo), now: { .earliest })
        let outcome = try await forgetter.forget(try #require(CustomerID(Self.bob)))
        #expect(outcome?.identities == 2 && outcome?.evidence == 3)
        #expect(outcome?.sharedAppTransactions == 2, "carol's and dave's")
        let owner = try await ledger.database.owner()
        #expect(
            try await owner.query("SELECT value FROM identity ORDER BY value").rows.map { try $0.text(0) }
                == [Self.dave, "apple:7000000001", "apple:7000000003", "carol"])
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("each sees the event among their own, and what names nobody only where nobody else is named")
    func events() async throws {
        let ledger = try await TestLedger()
        for draft in [
            Self.reading("both", of: [(.payer, "u-9"), (.purchase, "c-1"), (.session, "c-2")], mentioning: "{}"),
            Self.reading("nobody", of: [], mentioning: "{}"),
        ] { _ = try await ledger.writer.append(draft) }
        for id in ["u-9", "c-1", "c-2"] {
            let customer = try #require(CustomerID(id))
            let page = try await ledger.reader.events(of: customer, environment: .production, after: 0, limit: 9)
            #expect(page.events.map(\.record.position) == [1], "\(id)")
            // The row bears the first, whom the others are not told.
            #expect(page.events.map(\.customerID) == [id == "u-9" ? "u-9" : nil], "\(id)")
        }
    }

    @Test("what names nobody is the owner's, whatever a session's reference stands for")
    func reference() async throws {
        let ledger = try await TestLedger()
        for draft in [
            Self.reading("bought", of: [(.clientReference, "cart-7"), (.session, "c-1")], mentioning: "{}"),
            Self.reading("renewed", of: [], mentioning: "{}"),
        ] { _ = try await ledger.writer.append(draft) }
        for (id, positions) in [("c-1", [1, 2]), ("cart-7", [1])] as [(String, [Int64])] {
            let customer = try #require(CustomerID(id))
            let page = try await ledger.reader.events(of: customer, environment: .production, after: 0, limit: 9)
            #expect(page.events.map(\.record.position) == positions, "\(id)")
        }
    }

    @Test("whoever is named behind another has the evidence erased when they are forgotten")
    func forgotten() async throws {
        let ledger = try await TestLedger()
        for draft in [
            Self.reading(
                "both", of: [(.clientReference, "cart-7"), (.payer, "u-9")], mentioning: #"{"user_id":"u-9"}"#),
            Self.reading("nobody", of: [], mentioning: #"{"refund":"re_1"}"#),
            Self.reading("other", of: [(.clientReference, "cart-7")], mentioning: #"{"reference":"cart-7"}"#),
        ] { _ = try await ledger.writer.append(draft) }
        let forgetter = Forgetter(pool: PostgresPool(ledger.database.ownerConninfo), now: { .earliest })
        let outcome = try await forgetter.forget(try #require(CustomerID("u-9")))
        #expect(outcome?.evidence == 2)
        let owner = try await ledger.database.owner()
        #expect(try await owner.query("SELECT position FROM evidence").rows.map { try $0.int(0) } == [3])
    }
}
