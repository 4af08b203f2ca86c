import Testing

@testable import EntitlementCore

/// A `client_reference_id` is written by whoever has a Payment Link: it says whose a purchase is, and never who paid.
@Suite("Web checkout: who paid, and who is charged")
struct WebPayerTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let named: [WebTold]
        /// Whose it is, by the contract.
        var owner: IdentityRef? = alice
        /// Whether its owner is taken for whoever paid.
        let isPayer: Bool
    }

    private static let reference = owned(by: alice, .clientReference, at: 1)

    static let cases: [Case] = [
        Case(testDescription: "metadata of the purchase", named: [owned(by: alice)], isPayer: true),
        Case(testDescription: "metadata of the session", named: [owned(by: alice, .session)], isPayer: true),
        Case(testDescription: "a team's own list", named: [owned(by: alice, .list)], isPayer: true),
        Case(testDescription: "metadata of Stripe's customer", named: [owned(by: alice, .payer)], isPayer: true),
        Case(testDescription: "a reference alone", named: [reference], isPayer: false),
        Case(
            testDescription: "a reference beside the same in the session's metadata",
            named: [reference, owned(by: alice, .session, at: 1)], isPayer: true),
        Case(
            testDescription: "a reference, and the same in metadata later",
            named: [reference, owned(by: alice, at: 9)], isPayer: true),
        Case(
            testDescription: "a reference, and the same in a list later",
            named: [reference, owned(by: alice, .list, at: 9)], isPayer: true),
        Case(
            testDescription: "a reference beside another name in metadata",
            named: [reference, owned(by: bob, .session, at: 1)], owner: bob, isPayer: true),
        Case(
            testDescription: "a reference, though Stripe's customer is known as another",
            named: [reference, owned(by: bob, .payer, at: 9)], isPayer: false),
        Case(
            testDescription: "a reference, and later another in a list",
            named: [reference, owned(by: bob, .list, at: 9)], isPayer: false),
        Case(
            testDescription: "a reference that came after a list named another",
            named: [owned(by: bob, .list), reference], owner: bob, isPayer: true),
        Case(testDescription: "nobody", named: [], owner: nil, isPayer: false),
    ]

    /// What a customer has, of whom the log tells this.
    private func facts(_ told: [WebTold], of customer: IdentityRef = alice, _ links: LedgerFact...) -> CustomerFacts {
        var given = WebGiven()
        given.customer = customer
        for fact in links { given.ownership = OwnershipMap((fact, recorded: 40)) }
        return given.facts(of: told)
    }

    private func product(_ id: String) throws -> CatalogProduct {
        try #require(webProducts.first { $0.productID == id })
    }

    @Test("it is the owner, where the seller named them", arguments: cases)
    func payer(_ example: Case) throws {
        let pro = try product("pro")
        for named in [example.named, example.named.reversed()] {
            let running = [paidLine("1", from: 0, to: 30), says("active", at: 0, until: 30)] + named
            let ordered = [says("incomplete", at: 0)] + named
            #expect(OriginalState(web: running, of: "sub_1").web?.statedOwner == example.owner)
            for customer in [alice, bob] {
                let isPayer = example.isPayer && customer == example.owner
                let isOwner = customer == example.owner
                let facts = facts(running, of: customer)
                #expect(facts.paidOnWeb().map(\.originalTransactionID) == (isPayer ? ["sub_1"] : []))
                #expect(facts.isNamedByPayersAlone == (isOwner && !isPayer))
                #expect(
                    self.facts(ordered, of: customer).unpaid(of: pro, at: day(2)) == (isPayer ? ["sub_1"] : []))
                // What they have they are not sold again, whoever paid.
                #expect((facts.obstacle(toSelling: pro, at: day(2)) != nil) == isOwner)
            }
        }
    }

    @Test("of one's own purchase and a stranger's newer one the own counts, in whichever order they are heard of")
    func ownIsOlder() {
        let own = [says("active", at: 0, until: 30), owned(by: alice)]
        let strangers = [
            says("active", at: 5, until: 35, of: "sub_2"),
            owned(by: alice, .clientReference, at: 5, original: "sub_2"),
        ]
        for told in [own + strangers, strangers + own] {
            let facts = facts(told)
            #expect(facts.paidOnWeb().map(\.originalTransactionID) == ["sub_1"])
            #expect(!facts.isNamedByPayersAlone)
        }
    }

    @Test("links count for who is named as for whose it is")
    func linked() {
        let told = [says("active", at: 0), owned(by: bob, .clientReference), owned(by: alice, .payer)]
        #expect(facts(told, of: alice, link(bob, to: alice)).paidOnWeb().count == 1)
        #expect(facts(told, of: bob).paidOnWeb().isEmpty)
        #expect(facts([told[0], told[1]], of: alice, link(bob, to: alice)).paidOnWeb().isEmpty)
    }

    @Test("whoever comes after somebody who was forgotten is no payer for what was written of that one")
    func afterForgotten() {
        var state = OriginalState(web: [owned(by: carol)], of: "sub_1")
        state.join(
            .forgetting(ForgettingFact(identities: [carol], evidencePositions: [], originalTransactionID: "sub_1")),
            originalTransactionID: "sub_1", source: .notification, position: 2)
        state.join(.web(Self.reference.fact), originalTransactionID: "sub_1", source: .notification, position: 3)
        let facts = CustomerFacts(
            customer: alice, originals: ["sub_1": state], grants: [], ownership: OwnershipMap(),
            catalog: Catalog(products: webProducts))
        #expect(state.web?.statedOwner == alice)
        #expect(facts.paidOnWeb().isEmpty && facts.isNamedByPayersAlone)
    }

    @Test("what was given by an operator is looked at before it is sold again, whatever it names")
    func given() throws {
        let ordered = [says("incomplete", at: 0), owned(by: bob, .clientReference)]
        let facts = facts(ordered, of: alice, transfer(to: alice, of: "sub_1"))
        #expect(try facts.unpaid(of: product("pro"), at: day(2)) == ["sub_1"])
        #expect(facts.paidOnWeb().isEmpty)
    }

    @Test("a card that is charged in vain under somebody's name keeps them from buying only while they have it")
    func chargedInVain() throws {
        let pro = try product("pro")
        func obstacle(_ place: WebOwner.Place, at instant: Double) -> WebSaleObstacle? {
            facts([
                paidLine("1", from: 0, to: 30), says("past_due", at: 30, until: 60), owned(by: alice, place),
            ]).obstacle(toSelling: pro, at: day(instant))
        }
        // In grace they have it; then Stripe goes on trying the card.
        for place in WebOwner.Place.allCases { #expect(obstacle(place, at: 32) != nil) }
        #expect(obstacle(.purchase, at: 45) == .charged(originalTransactionID: "sub_1"))
        #expect(obstacle(.clientReference, at: 45) == nil)
        // A debit that its bank refuses days later is active before.
        func debit(_ place: WebOwner.Place) -> CustomerFacts {
            facts([says("active", at: 0, until: 30), owned(by: alice, place)])
        }
        #expect(debit(.session).obstacle(toSelling: pro, at: day(1)) == .charged(originalTransactionID: "sub_1"))
        #expect(debit(.clientReference).obstacle(toSelling: pro, at: day(1)) == nil)
    }
}
