import EntitlementCore
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

/// An alias of whoever is forgotten may stand for somebody else, in the other environment or beside another token.
@Suite("Forgetting, and aliases that are somebody else's, too")
struct ForgetAliasTests {
    private static let ann = "0a000000-0000-4000-8000-00000000000a"
    private static let bob = "0b000000-0000-4000-8000-00000000000b"
    private static let account = "7000000001"

    private static func draft(_ fact: LedgerFact, _ identities: [String], _ environment: StoreEnvironment) -> EventDraft
    {
        EventDraft(
            environment: environment, source: .api, occurredAt: nil, fact: fact, identities: identities,
            deduplication: .unique)
    }

    private static func link(
        _ identity: String, to customer: String, in environment: StoreEnvironment, cause: LinkCause = .command
    ) -> EventDraft {
        draft(
            .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1), cause: cause)), [identity, customer],
            environment)
    }

    private static func grant(
        _ id: String, to customer: String, in environment: StoreEnvironment = .production
    ) -> EventDraft {
        draft(
            .grant(
                GrantFact(grantID: id, customer: IdentityRef(0), entitlementID: id, until: nil, reason: "r")),
            [customer], environment)
    }

    private static func forget(_ id: String, in ledger: TestLedger) async throws -> ForgettingOutcome? {
        let forgetter = Forgetter(pool: PostgresPool(ledger.database.ownerConninfo), now: { .earliest })
        return try await forgetter.forget(try #require(CustomerID(id)))
    }

    /// The entitlements that somebody holds, by what the log says now.
    private static func held(
        _ id: String, in environment: StoreEnvironment = .production, _ ledger: TestLedger
    ) async throws -> [String] {
        let customer = try #require(CustomerID(id))
        let known = try await ledger.reader.customerFacts(customer, environment: environment)
        return known.facts.timelines().map(\.entitlementID).sorted()
    }

    private static func ledger(_ drafts: [EventDraft]) async throws -> TestLedger {
        let ledger = try await TestLedger()
        _ = try await ledger.writer.append(TestLedger.catalogDraft(TestLedger.catalog))
        for draft in drafts { _ = try await ledger.writer.append(draft) }
        return ledger
    }

    @Test("a link in the sandbox erases nobody who is a customer of their own in production", arguments: [false, true])
    func sandboxLink(asksForAlias: Bool) async throws {
        let ledger = try await Self.ledger([
            Self.grant("of-ann", to: Self.ann), Self.grant("of-bob", to: Self.bob),
            Self.link(Self.ann, to: Self.bob, in: .sandbox), Self.grant("tested", to: Self.bob, in: .sandbox),
        ])
        #expect(try await Self.held(Self.ann, in: .sandbox, ledger) == ["tested"])
        let (asked, other) = asksForAlias ? (Self.ann, Self.bob) : (Self.bob, Self.ann)
        let outcome = try #require(try await Self.forget(asked, in: ledger))
        #expect(outcome.identities == 1 && outcome.keptAliases == 1 && outcome.positions == [6])
        #expect(try await Self.held(other, ledger) == [asksForAlias ? "of-bob" : "of-ann"])
        for environment in StoreEnvironment.allCases {
            #expect(try await Self.held(asked, in: environment, ledger) == [])
        }
        #expect(
            try await Self.held(other, in: .sandbox, ledger) == (asksForAlias ? ["tested"] : []),
            "nobody goes on being who is forgotten")
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("an account that is linked to somebody else in the sandbox stays, and is the forgotten customer no more")
    func linkedElsewhere() async throws {
        let account = "apple:\(Self.account)"
        let ledger = try await Self.ledger([
            Self.link(account, to: "carol", in: .production, cause: .login), Self.grant("of-carol", to: "carol"),
            Self.link(account, to: "dave", in: .sandbox, cause: .login),
            Self.grant("of-dave", to: "dave", in: .sandbox),
        ])
        #expect(try await Self.held(account, ledger) == ["of-carol"])
        let outcome = try #require(try await Self.forget("carol", in: ledger))
        #expect(outcome.identities == 1 && outcome.sharedAppTransactions == 1 && outcome.keptAliases == 0)
        for id in [account, "carol"] { #expect(try await Self.held(id, ledger) == []) }
        #expect(try await Self.held(account, in: .sandbox, ledger) == ["of-dave"])
        #expect(try await Self.forget("dave", in: ledger)?.identities == 2, "it goes with the last of them")
        #expect(try await Self.forget(account, in: ledger) == nil)
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test("what would be forgotten names every id, whether it goes, and whom it leads to in which environment")
    func members() async throws {
        let account = "apple:\(Self.account)"
        let ledger = try await Self.ledger([
            Self.link("old", to: "carol", in: .production),
            Self.link(account, to: "carol", in: .production, cause: .login),
            Self.link(account, to: "dave", in: .sandbox, cause: .login),
            Self.grant("of-dave", to: "dave", in: .sandbox),
        ])
        let forgetter = Forgetter(pool: PostgresPool(ledger.database.ownerConninfo), now: { .earliest })
        let old = try #require(CustomerID("old"))
        let preview = try await forgetter.preview(old)
        let lines = preview.members.map { member in
            let leads = member.leads.map { "\($0.customerID) in \($0.environment.rawValue)" }.joined(separator: " and ")
            return "\(member.id) \(member.isErased ? "goes" : "stays")\(leads.isEmpty ? "" : ", leads to \(leads)")"
        }
        #expect(
            lines == [
                "old goes, leads to carol in production", "carol goes",
                "\(account) stays, leads to carol in production and dave in sandbox",
            ])
    }

    @Test("a token that the service issued is the customer's in each environment, linked there or not")
    func issued() async throws {
        let ledger = try await Self.ledger([
            Self.link(Self.ann, to: "carol", in: .sandbox, cause: .issued), Self.grant("bought", to: Self.ann),
        ])
        #expect(try await Self.forget("carol", in: ledger)?.identities == 2)
        #expect(try await Self.held(Self.ann, ledger) == [])
    }

    @Test("an account that was used in the sandbox without a login is erased with whom it is linked to in production")
    func usedInSandbox() async throws {
        let account = "apple:\(Self.account)"
        let ledger = try await Self.ledger([
            Self.link(account, to: "carol", in: .production, cause: .login),
            Self.grant("tested", to: account, in: .sandbox),
        ])
        #expect(try await Self.forget("carol", in: ledger)?.identities == 2)
        #expect(try await Self.held(account, in: .sandbox, ledger) == [])
    }

    @Test("an account that another login's purchase bears stays with its evidence, and is linked to nobody any more")
    func borneByAnother() async throws {
        var bought = RandomDrafts(seed: 77, originals: 1).drafts(1)[0]
        guard case .notification(var fact) = bought.fact, var stated = fact.transaction else {
            Issue.record("no transaction")
            return
        }
        (stated.accountToken, stated.appTransaction) = (IdentityRef(0), IdentityRef(1))
        fact.transaction = stated
        bought.environment = .production
        bought.fact = .notification(fact)
        bought.identities = [Self.ann, "apple:\(Self.account)"]
        bought.evidence = .received(
            VerifyRig.signed(#"{"appAccountToken":"\#(Self.ann)","appTransactionId":"\#(Self.account)"}"#))
        let ledger = try await Self.ledger([
            bought, Self.link("apple:\(Self.account)", to: "carol", in: .production, cause: .login),
        ])
        let outcome = try #require(try await Self.forget("carol", in: ledger))
        #expect(outcome.identities == 1 && outcome.evidence == 0 && outcome.sharedAppTransactions == 1)
        let found = try await ledger.reader.customers(.appTransactionID(Self.account)).matches.map(\.customerID)
        #expect(found == [Self.ann])
        #expect(try await Self.forget(Self.ann, in: ledger)?.identities == 2, "it goes with the last who bears it")
        _ = try await Verifier(pool: ledger.pool, derive: nil).run()
    }

    @Test(
        "whom only signed bytes name is forgotten, and nobody is whom they do not name as whose it is",
        arguments: [
            (#""appAccountToken":"0A000000-0000-4000-8000-00000000000A""#, ann),
            (#""appTransactionId":"7000000001""#, "apple:7000000001"),
        ])
    func onlyInEvidence(member: String, id: String) async throws {
        var draft = RandomDrafts(seed: 77, originals: 1).drafts(1)[0]
        guard case .notification(var fact) = draft.fact, var stated = fact.transaction else {
            Issue.record("no transaction")
            return
        }
        (stated.accountToken, stated.appTransaction) = (nil, nil)
        fact.transaction = stated
        draft.environment = .production
        draft.fact = .notification(fact)
        draft.identities = []
        draft.evidence = .received(
            VerifyRig.signed(#"{"notificationUUID":"\#(Self.bob)","price":9990,"transactionId":"2001",\#(member)}"#))
        let ledger = try await Self.ledger([draft])
        for other in [Self.bob, "carol", "apple:9990", "apple:2001", "apple:700000000"] {
            #expect(try await Self.forget(other, in: ledger) == nil, "\(other)")
        }
        let outcome = try #require(try await Self.forget(id, in: ledger))
        #expect(outcome.identities == 0 && outcome.evidence == 1 && outcome.positions == [3])
        #expect(try await Self.forget(id, in: ledger) == nil)
        #expect(try await Verifier(pool: ledger.pool, derive: nil).run().erasedEvidence == 1)
    }
}
