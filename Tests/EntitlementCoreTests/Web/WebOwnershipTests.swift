import Testing

@testable import EntitlementCore

@Suite("Web checkout: whose it is, and what stands beside it")
struct WebOwnershipTests {
    private let month = paidLine("1", from: 0, to: 30)

    private func holder(_ told: WebTold...) -> IdentityRef? {
        OriginalState(web: told, of: "sub_1").web?.statedOwner
    }

    @Test("the subscription's metadata comes before the session's, and that before the client reference")
    func places() {
        let (own, session, reference) = (
            owned(by: alice, .purchase, at: 9), owned(by: bob, .session, at: 1), owned(by: carol, .clientReference)
        )
        #expect(holder(session, reference, own) == alice)
        #expect(holder(reference, session) == bob)
        #expect(holder(reference) == carol)
        #expect(holder(month) == nil)
        // Nothing depends on who was heard of first, whose number is the smaller.
        for (first, second) in [(alice, bob), (bob, alice)] {
            #expect(holder(owned(by: first, .payer), owned(by: second, .clientReference)) == second)
            #expect(holder(owned(by: second, .clientReference), owned(by: first, .payer)) == second)
        }
        #expect(holder(owned(by: alice, .payer)) == alice)
    }

    @Test("names that differ are told, and move nothing")
    func conflict() {
        let state = OriginalState(
            web: [owned(by: alice, at: 1), owned(by: bob, .session), owned(by: carol, .clientReference)], of: "sub_1")
        #expect(state.web?.contradictingOwners == [bob])
        #expect(holder(owned(by: alice, at: 1), owned(by: bob, at: 2)) == alice, "written over later")
        #expect(holder(owned(by: bob, at: 2), owned(by: alice, at: 1)) == alice)
        #expect(OriginalState(web: [owned(by: carol, .clientReference)], of: "sub_1").web?.contradictingOwners == [])
    }

    @Test("a reference counts until metadata names another, which is told; one that came with the metadata is nothing")
    func referenceOverruled() {
        func rivals(_ told: WebTold...) -> [IdentityRef] {
            let states = [told, told.reversed()].map { OriginalState(web: $0, of: "sub_1").web?.contradictingOwners }
            #expect(states[0] == states[1], "in either order of delivery")
            return states[0] ?? []
        }
        let reference = owned(by: alice, .clientReference, at: 1)
        #expect(rivals(reference, owned(by: bob, .purchase, at: 9)) == [alice])
        #expect(rivals(reference, owned(by: bob, .session, at: 9)) == [alice])
        #expect(rivals(reference, owned(by: alice, .purchase, at: 9)) == [])
        #expect(rivals(reference, owned(by: bob, .session, at: 1)) == [], "of one session")
        #expect(rivals(reference, owned(by: bob, .purchase, at: 0)) == [], "it never counted")
        #expect(rivals(owned(by: alice, .session, at: 1), owned(by: bob, .purchase, at: 9)) == [alice])
        #expect(
            rivals(owned(by: alice, .session, at: 1), owned(by: bob, at: 9), owned(by: carol, at: 12))
                == [alice, carol])
    }

    @Test("facts in which people are named after they were forgotten, as no log names them, still lead to one owner")
    func namedAfterForgotten() {
        var sold = WebOriginal("sub_1")
        sold.join(owned(by: alice, at: 1).fact, position: 15)
        sold.join(owned(by: bob, at: 2).fact, position: 20)
        _ = sold.forget([alice], position: 10)
        _ = sold.forget([bob], position: 12)
        #expect(sold.statedOwner == alice)
        // In their order, whoever is named after the last one who was forgotten.
        var orderly = WebOriginal("sub_1")
        for (index, person) in [alice, bob, carol].enumerated() {
            orderly.join(owned(by: person, at: Double(index)).fact, position: Int64(10 * index + 1))
            if person != carol { _ = orderly.forget([person], position: Int64(10 * index + 5)) }
        }
        #expect(orderly.statedOwner == carol)
    }

    @Test("whose a purchase is that names two is told to both, until links or a transfer settle it")
    func explained() {
        let named = [
            event(month.fact, at: 2), event(owned(by: alice, .clientReference, at: 1).fact, at: 3),
            event(owned(by: bob, .purchase, at: 9).fact, at: 4),
        ]
        func told(_ customer: IdentityRef, _ more: [HistoryEvent] = []) -> [String] {
            let history = CustomerHistory(
                of: customer, environment: .production, position: 9, events: named + more)
            return Explainer(history, at: day(3)).refusedClaims.map {
                "\($0.event.position) \($0.originalTransactionID) \($0.sentence.contains("belongs to the other"))"
            }
        }
        func later(_ fact: LedgerFact) -> HistoryEvent {
            HistoryEvent(
                position: 5, recordedAt: day(2), environment: fact.originalTransactionID == nil ? nil : .production,
                source: "api", statementSource: .notification, type: "t", occurredAt: nil, fact: fact)
        }
        #expect(told(alice) == ["4 sub_1 true"])
        #expect(told(bob) == ["4 sub_1 false"])
        #expect(told(carol) == [])
        #expect(told(alice, [later(link(alice, to: bob))]) == [] && told(bob, [later(link(alice, to: bob))]) == [])
        #expect(told(alice, [later(transfer(to: alice, of: "sub_1"))]) == [])
        #expect(told(carol, [later(link(alice, to: carol))]) == ["4 sub_1 true"], "an alias stands for its customer")
    }

    @Test("without an owner it gives nobody anything, and reads as a subscription")
    func nobody() {
        var given = WebGiven(month)
        given.told = [month]
        let facts = given.facts(of: [month])
        #expect(facts.timelines().isEmpty)
        let state = facts.originals["sub_1"]
        #expect(state?.chains(facts.catalog).flatMap(\.periods).map(\.end) == [day(30)])
        #expect(state?.winningStatements().map(\.fact.statedOwner) == [nil])
    }

    @Test("links lead to whom they lead for the App Store's purchases")
    func links() {
        let given = WebGiven(month).with {
            $0.ownership = OwnershipMap((link(alice, to: bob), recorded: 40))
            $0.customer = bob
        }
        #expect(given.timeline() == ["0..30 active pro", "30.. expired pro"])
        #expect(given.with { $0.customer = alice }.timeline().isEmpty)
    }

    @Test("a transfer moves it from its recorded instant on")
    func transfers() throws {
        let given = WebGiven(month).with {
            $0.ownership = OwnershipMap((transfer(to: bob, of: "sub_1"), recorded: 10))
        }
        #expect(given.reasons() == ["0..10 active paid_period", "10.. expired owned_by_another"])
        #expect(given.with { $0.customer = bob }.reasons() == ["10..30 active paid_period", "30.. expired expired"])
        let decided = try WebGiven(month).facts.decideTransfer(of: "sub_1", to: bob)
        #expect(decided == TransferFact(originalTransactionID: "sub_1", customer: bob))
    }

    @Test("sources add up: what one takes away the other still gives")
    func union() {
        let apple = Given(subscription("1", from: 20, to: 50))
        let given = WebGiven(month, paidLine("2", from: 60, to: 90)).with { $0.beside = apple }
        #expect(
            given.origins() == [
                "0..20 active web_checkout", "20..50 active app_store", "50..60 expired app_store",
                "60..90 active web_checkout", "90.. expired web_checkout",
            ])
        let refundedApple = Given(subscription("1", from: 20, to: 50, revoked: 25))
        #expect(
            WebGiven(paidLine("1", from: 0, to: 40)).with { $0.beside = refundedApple }.answer(at: 30)?.givesAccess
                == true)
        var granted = Given()
        granted.grants = [grant(recorded: 10, until: 35)]
        let both = WebGiven(month).with { $0.beside = granted }
        #expect(both.answer(at: 33)?.reading.source == .grant)
        #expect(both.answer(at: 33)?.since == day(0))
    }

    @Test("a key of one app hears of it, as of a grant: it is sold for every app")
    func apps() {
        let events = [
            HistoryEvent(
                position: 1, recordedAt: day(0), environment: nil, source: "api", statementSource: .notification,
                type: "t", occurredAt: nil, fact: .catalog(Catalog(products: webProducts))),
            event(month.fact, at: 2), event(owned(by: alice).fact, at: 3),
            HistoryEvent(
                position: 4, recordedAt: day(1), environment: .production, source: "api",
                statementSource: .notification, type: "t", occurredAt: nil, fact: transfer(to: alice, of: "sub_1")),
        ]
        for app in [nil, AppScope("com.example"), AppScope("com.example.other")] {
            let history = CustomerHistory(
                of: alice, environment: .production, position: 9, events: events, app: app)
            #expect(history.facts().answers(at: day(3)).map(\.entitlementID) == ["premium"])
            #expect(history.events.count == 4)
        }
    }

    @Test("whom metadata names in vain sees nothing of it")
    func strangers() {
        let events = [
            event(month.fact, at: 2), event(owned(by: alice).fact, at: 3),
            event(owned(by: bob, .session).fact, at: 4),
        ]
        func seen(by customer: IdentityRef) -> Int {
            CustomerHistory(of: customer, environment: .production, position: 9, events: events).events.count
        }
        #expect(seen(by: alice) == 3)
        #expect(seen(by: bob) == 0)
    }

    @Test("the numbers that a device is given are its own, and the order of owners stays")
    func localNumbers() {
        let given = WebGiven(month, owned(by: dave)).with { $0.customer = dave }
        let (facts, numbers) = given.facts.withLocalNumbers()
        #expect(numbers[dave] == IdentityRef(1))
        #expect(facts.answers(at: day(3)).map(\.givesAccess) == [true])
        #expect(facts.originals["sub_1"]?.web?.statedOwner == IdentityRef(1))
    }

    private func event(_ fact: WebFact, at position: Int64) -> HistoryEvent {
        HistoryEvent(
            position: position, recordedAt: day(0), environment: .production, source: "stripe",
            statementSource: .notification, type: fact.type, occurredAt: fact.statedAt, fact: .web(fact))
    }
}
