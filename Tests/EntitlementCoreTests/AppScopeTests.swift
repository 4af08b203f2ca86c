import Testing

@testable import EntitlementCore

@Suite("What of a history is about one app")
struct AppScopeTests {
    private static let app = "com.example.app"
    private static let other = "com.example.other"

    private func statement(
        _ id: String, of original: String, in app: String, token: IdentityRef? = alice, product: String = "pro",
        appTransaction: IdentityRef? = nil
    ) -> LedgerFact {
        let fact = TransactionFact(
            payloadHash: digest(of: Array("\(id)\(app)".utf8)), signedDate: day(1), transactionID: id,
            originalTransactionID: original, productID: product, bundleID: app, kind: .known(.nonConsumable),
            purchaseDate: day(0), accountToken: token, appTransaction: appTransaction)
        return .statements(
            StatementsFact(originalTransactionID: original, transactions: [fact], renewals: [], remarks: []))
    }

    /// Its word about what is known already, which names no app.
    private func renewal(of original: String) -> LedgerFact {
        let fact = RenewalFact(
            payloadHash: digest(of: Array(original.utf8)), signedDate: day(2), originalTransactionID: original)
        return .statements(
            StatementsFact(originalTransactionID: original, transactions: [], renewals: [fact], remarks: []))
    }

    private func link(_ identity: IdentityRef, to customer: IdentityRef) -> LedgerFact {
        .link(LinkFact(identity: identity, customer: customer))
    }

    private func drift(of product: String, in app: String) -> LedgerFact {
        .drift(
            DriftFact(
                customer: alice, bundleID: app, productID: product, claimed: .active, claimedUntil: nil, actual: nil,
                actualUntil: nil))
    }

    /// The positions that are kept, the first fact's being 1.
    private func kept(_ facts: [LedgerFact], of customer: IdentityRef? = alice) -> [Int64] {
        let events = facts.enumerated().map { index, fact in
            HistoryEvent(
                position: Int64(index + 1), recordedAt: day(3), environment: .production, source: "device",
                statementSource: .device, type: "told", occurredAt: nil, fact: fact)
        }
        return CustomerHistory(
            of: customer, environment: .production, position: 99, events: events, app: AppScope(Self.app)
        ).events.map(\.position)
    }

    @Test("what the store was told or asked is about the app that it names")
    func storeRequests() {
        func told(of app: String) -> LedgerFact {
            .storeRequest(
                StoreRequestFact(
                    bundleID: app, originalTransactionID: "1", content: .consumption(transactionID: "1", nil),
                    outcome: .tooLate))
        }
        let own = statement("1", of: "1", in: Self.app)
        #expect(kept([own, told(of: Self.app), told(of: Self.other)]) == [1, 2])
        #expect(kept([statement("1", of: "1", in: Self.other), told(of: Self.other)]) == [])
        #expect(AppScope(Self.app).names(told(of: Self.other)) == false)
    }

    @Test("what names no app is about the one that its original transaction's first statement names")
    func lives() {
        let claimed = LedgerFact.claim(ClaimFact(originalTransactionID: "1", customer: alice))
        let own = statement("1", of: "1", in: Self.app, token: nil)
        let foreign = statement("1", of: "1", in: Self.other, token: nil)
        #expect(kept([own, claimed, renewal(of: "1")]) == [1, 2, 3])
        #expect(kept([foreign, claimed, renewal(of: "1")]) == [])
        // No store signs such; should one, nothing of the other app shows.
        #expect(kept([own, claimed, foreign]) == [1, 2])
        #expect(kept([foreign, claimed, own]) == [], "claimed in the other app, and nobody's in this one")
        #expect(kept([foreign, claimed, statement("2", of: "1", in: Self.app)]) == [3])
        // Two spellings of one character are two bundle ids.
        #expect(AppScope("caf\u{E9}").names(statement("1", of: "1", in: "cafe\u{301}")) == false)
    }

    @Test("of links those are kept that lead from what names somebody here, and from whoever was asked about")
    func links() {
        let own = statement("1", of: "1", in: Self.app, token: alice)
        let foreign = statement("2", of: "2", in: Self.other, token: carol)
        let (dora, eve) = (IdentityRef(4), IdentityRef(5))
        let links = [link(alice, to: bob), link(bob, to: dora), link(carol, to: bob), link(eve, to: alice)]
        #expect(kept([own, foreign] + links, of: dora) == [1, 3, 4])
        #expect(kept([own, foreign] + links, of: eve) == [1, 3, 4, 6])
        #expect(kept([own, foreign] + links, of: carol) == [1, 3, 4, 5], "one person, by the operator's word")
        #expect(kept([foreign] + links, of: carol) == [], "who has nothing here is nobody")
    }

    @Test("grants hold in every app, drift is about the app whose device it is, and who was forgotten is not told")
    func others() {
        let own = statement("1", of: "1", in: Self.app)
        let foreign = statement("2", of: "2", in: Self.other, product: "basic")
        let forgotten = LedgerFact.forgetting(ForgettingFact(identities: [alice], evidencePositions: [1]))
        #expect(kept([foreign, granted(), takenBack()]) == [2, 3])
        let told = [
            drift(of: "pro", in: Self.app), drift(of: "pro", in: Self.other), drift(of: "basic", in: Self.other),
        ]
        #expect(kept([own, foreign] + told + [forgotten]) == [1, 3])
    }
}
