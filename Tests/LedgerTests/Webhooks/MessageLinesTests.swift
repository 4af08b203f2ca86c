import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("In whose order messages come", .timeLimit(.minutes(1)))
struct MessageLinesTests {
    private static let now = Timestamp(milliseconds: Int64(1_900_000_000_000))

    private static func command(_ fact: LedgerFact, _ identities: String...) -> EventDraft {
        EventDraft(
            environment: .production, source: .api, occurredAt: nil, fact: fact, identities: identities,
            deduplication: .unique)
    }

    private static func link(_ name: String, to customer: String) -> EventDraft {
        command(.link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))), name, customer)
    }

    @Test(
        "what an event says and what it changes are told in one line: the customer's to whom links led when it came",
        arguments: [Int64(200), 1])
    func lines(pageEvents: Int64) async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(.endpoint("we_1", types: [.eventRecorded, .entitlementsChanged]))
        // The name bears what it was given before the link by itself.
        let drafts: [EventDraft] = [
            .grant("1", of: "a", to: "name"), Self.link("name", to: "between"), Self.link("between", to: "c-1"),
            .grant("2", of: "b", to: "name"), .grant("3", of: "c", to: "c-1"), .grant("4", of: "d", to: "c-2"),
            Self.command(.conflict(ConflictFact(originalTransactionID: "1", claimant: IdentityRef(0))), "between"),
            Self.link("name", to: "name"), .grant("5", of: "e", to: "name"),
        ]
        for draft in drafts { _ = try await ledger.writer.append(draft) }
        let projector = WebhookProjector(ledger, pageEvents: pageEvents)
        while try await projector.step(now: { Self.now }).isUnfinished {}
        let lines = try await ledger.pool.withConnection { connection in
            try connection.query(
                """
                SELECT message.type, message.position, known.value FROM webhook_message AS message
                JOIN identity AS known USING (ledger_id, identity) ORDER BY message.position, message.type, known.value
                """
            ).rows.map { (type: try $0.int(0), position: try $0.int(1), name: try $0.text(2)) }
        }
        let events = lines.filter { $0.type == 2 }.map { "\($0.position) \($0.name)" }
        #expect(
            events == [
                "2 name", "3 between", "4 c-1", "5 c-1", "6 c-1", "7 c-2", "8 c-1", "9 name", "10 name",
            ])
        // A name that was told of before the link goes on being told in its own line besides.
        for position: Int64 in [2, 5, 6, 7, 10] {
            let event = try #require(lines.first { $0.type == 2 && $0.position == position })
            #expect(lines.contains { $0.type == 1 && $0.position == position && $0.name == event.name }, "\(position)")
        }
    }
}
