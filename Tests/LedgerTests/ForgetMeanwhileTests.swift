import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// What happens between the look and the erasing.
extension ForgetTests {
    @Test("somebody who is linked after the look is looked for as well")
    func linkedMeanwhile() async throws {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(Self.notification(0, token: Self.ann, app: nil, original: "2001"))
        var other = Self.notification(1, token: Self.bob, app: nil, original: "2002")
        other.evidence = .received(VerifyRig.signed("{\"x\":\"7000000005\"}"))
        _ = try await ledger.writer.append(other)
        let ann = try #require(CustomerID(Self.ann))
        let preview = try await Self.forgetter(ledger).preview(ann)
        _ = try await ledger.writer.append(Self.link("apple:7000000005", to: Self.ann))
        #expect(preview.scope.identities.count == 1)
        await #expect(throws: LedgerError.self) {
            try await Self.forgetter(ledger).forget(ann, known: preview, isAgreed: true)
        }
        #expect(try await ledger.reader.status().position == 3, "nobody agreed to another id")
        let outcome = try await Self.forgetter(ledger).forget(ann, known: preview)
        #expect(outcome?.identities == 2 && outcome?.evidence == 2)
    }

    @Test("somebody whose link is undone after the look keeps their evidence")
    func unlinkedMeanwhile() async throws {
        let ledger = try await TestLedger()
        for (number, token) in [Self.ann, Self.bob].enumerated() {
            let draft = Self.notification(number, token: token, app: nil, original: "200\(number)")
            _ = try await ledger.writer.append(draft)
        }
        _ = try await ledger.writer.append(Self.link(Self.bob, to: Self.ann))
        let ann = try #require(CustomerID(Self.ann))
        let preview = try await Self.forgetter(ledger).preview(ann)
        #expect(preview.scope.identities.count == 2 && preview.scope.evidencePositions == [1, 2])
        var undo = Self.link(Self.bob, to: Self.ann)
        undo.fact = .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(0)))
        undo.identities = [Self.bob]
        _ = try await ledger.writer.append(undo)
        let renewal = Self.notification(2, token: Self.ann, app: nil, original: "2000")
        _ = try await ledger.writer.append(renewal)
        let outcome = try await Self.forgetter(ledger).forget(ann, known: preview, isAgreed: true)
        #expect(outcome?.identities == 1 && outcome?.evidence == 2)
        #expect(try await ledger.reader.event(at: 2)?.evidence != nil)
    }

    @Test("what several forget at once is forgotten once", arguments: [ann, bob])
    func atOnce(id: String) async throws {
        let ledger = try await TestLedger()
        // Bob is named by signed bytes alone.
        var draft = Self.notification(0, token: Self.ann, app: nil, original: "2001")
        draft.evidence = .received(
            VerifyRig.signed("{\"appAccountToken\":\"\(Self.ann)\",\"renewal\":{\"appAccountToken\":\"\(Self.bob)\"}}"))
        _ = try await ledger.writer.append(draft)
        let customer = try #require(CustomerID(id))
        let previews = [
            try await Self.forgetter(ledger).preview(customer), try await Self.forgetter(ledger).preview(customer),
        ]
        var outcomes: [ForgettingOutcome?] = []
        for preview in previews {
            outcomes.append(try await Self.forgetter(ledger).forget(customer, known: preview))
        }
        #expect(outcomes[0]?.evidence == 1 && outcomes[1] == nil)
        #expect(try await ledger.reader.status().position == 2)
    }

    @Test("the idempotency keys go of each of two ids that are two spellings of one word")
    func spellings() async throws {
        let ledger = try await TestLedger()
        for (key, alias) in [("composed", "caf\u{e9}"), ("decomposed", "cafe\u{301}")] {
            _ = try await ledger.writer.append(Self.link(alias, to: Self.ann))
            _ = try await CommandKeys(pool: ledger.pool).keep(
                [1], for: key, .zero, about: CustomerID(alias), now: Timestamp(milliseconds: 1_800_000_000_000))
        }
        #expect(try await Self.forgetter(ledger).forget(try #require(CustomerID(Self.ann)))?.identities == 3)
        let owner = try await ledger.database.owner()
        #expect(try await owner.query("SELECT count(*) FROM command_key").first?.int(0) == 0)
    }
}
