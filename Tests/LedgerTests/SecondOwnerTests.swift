import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// An event's row bears the first owner that Stripe names; whoever is named behind it counts as much.
@Suite("Events that name several owners of what was bought on the web", .timeLimit(.minutes(5)))
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
