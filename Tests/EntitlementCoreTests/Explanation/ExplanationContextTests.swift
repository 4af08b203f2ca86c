import Testing

@testable import EntitlementCore

@Suite("Explanations: what else was weighed, and what would change it")
struct ExplanationContextTests {
    private func other(_ original: String, _ statement: Statement) -> Entry {
        .statement(statement.with { $0.originalTransactionID = original })
    }

    private let month = Entry.statement(subscription("1", from: 0, to: 30))

    private func considered(_ told: [Entry], at instant: Double, of customer: IdentityRef = alice) -> [String] {
        CustomerHistory(of: customer, told).explanation(at: instant).considered.map {
            "\($0.loss.rawValue) \($0.productID ?? "-") \($0.originalTransactionID ?? "-")"
        }
    }

    @Test("each loser says what it lost by")
    func losses() {
        let refunded = other("0999", subscription("9", from: 0, to: 30, revoked: 2))
        #expect(considered([month, refunded], at: 10) == ["gives_no_access pro 0999"])
        let lapsed = other("0998", subscription("8", from: -40, to: -10))
        #expect(considered([refunded, lapsed], at: 10) == ["weaker_state pro 0998"])
        let shorter = other("0997", subscription("7", from: 0, to: 20))
        #expect(considered([month, shorter], at: 10) == ["ends_earlier pro 0997"])
        let twin = other("1001", subscription("6", from: 0, to: 30))
        #expect(considered([month, twin], at: 10) == ["later_in_order pro 1001"])
        let later = other("1002", subscription("5", from: 20, to: 50))
        #expect(considered([month, later], at: 10) == ["not_begun pro 1002"])
        let elsewhere = other("1003", subscription("4", "basic", from: 0, to: 30))
        #expect(considered([elsewhere], at: 10) == ["product_not_mapped basic 1003"])
        #expect(considered([month, elsewhere], at: 10) == [], "a yes has no need of it")
    }

    @Test("what was transferred away before it began to count is another's")
    func anothers() {
        let told: [Entry] = [.statement(subscription("1", from: 10, to: 40)), .fact(transfer(to: bob), recorded: 5)]
        #expect(considered(told, at: 20) == ["belongs_to_another pro 1000"])
    }

    @Test("a purchase claimed by somebody else, or bearing another's identity, is no part of the history")
    func foreign() {
        let unowned = Entry.statement(subscription("1", from: 0, to: 30, of: nil))
        let claims: [Entry] = [.fact(claim(by: alice), recorded: 1), .fact(claim(by: bob), recorded: 2)]
        #expect(CustomerHistory(of: alice, [unowned] + claims).events.map(\.position) == [1, 2, 3, 4])
        #expect(CustomerHistory(of: bob, [unowned] + claims).events.map(\.position) == [1, 4])
        #expect(CustomerHistory(of: bob, [month, claims[1]]).events.map(\.position) == [1, 3])
        #expect(!CustomerHistory(of: carol, [unowned] + claims).knowsCustomer)
    }

    private func outlook(
        _ told: [Entry], at instant: Double, policy: AccessPolicy = AccessPolicy(), _ id: String = "premium"
    ) -> [String] {
        CustomerHistory(policy: policy, told).explanation(at: instant, id).outlook.map {
            $0.code.rawValue + ($0.at.map { " \(label($0))" } ?? "")
        }
    }

    @Test("what would end access that is given")
    func changesOfYes() {
        func renews(_ flag: Bool) -> Entry { .statement(renewalInfo(signed: 1, renews: flag)) }
        let failing = Entry.statement(renewalInfo(signed: 30, graceEnd: 46, renews: true))
        #expect(outlook([month], at: 10) == ["expiry 30", "refund"])
        #expect(outlook([month, renews(true)], at: 10) == ["renewal 30", "expiry 30", "refund"])
        #expect(outlook([month, renews(false)], at: 10) == ["expiry 30", "refund"])
        let renewed = Entry.statement(subscription("2", from: 30, to: 60, .renewal))
        #expect(outlook([month, renewed], at: 10) == ["refund", "known_next 30"])
        #expect(outlook([month, failing], at: 10) == ["refund", "known_next 30"])
        #expect(outlook([month, failing], at: 40) == ["grace_end 46", "renewal", "known_next 46"])
        #expect(
            outlook([month], at: 30.5, policy: AccessPolicy(leewaySeconds: 86_400)) == ["leeway_end 31", "renewal"])
        #expect(outlook([.fact(granted(until: 9), recorded: 1)], at: 5) == ["grant_end 9", "grant_revocation"])
        #expect(outlook([.statement(oneTime("1", "lifetime", .nonConsumable, at: 0))], at: 5) == ["refund"])
    }

    @Test("what would give access that is not given")
    func changesOfNo() {
        let retry = Entry.statement(renewalInfo(signed: 30, retry: true, renews: true))
        #expect(outlook([month], at: 40) == ["renewal", "grant"])
        #expect(outlook([month, retry], at: 40) == ["renewal", "retry_limit 90", "policy"])
        let recovered = Entry.statement(subscription("2", from: 50, to: 80, .renewal))
        #expect(
            outlook([month, retry, recovered], at: 40) == ["renewal 50", "retry_limit 90", "policy", "known_next 50"])
        let refunded = Entry.statement(subscription("1", from: 0, to: 30, revoked: 5))
        #expect(outlook([refunded], at: 10) == ["refund_reversal", "purchase"])
        let basic = Entry.statement(subscription("1", "basic", from: 0, to: 30))
        #expect(outlook([basic], at: 10) == ["purchase", "grant", "catalog_mapping"])
        #expect(outlook([basic], at: 40) == ["purchase", "grant"], "mapping what has lapsed would open nothing")
        #expect(outlook([.statement(subscription("1", from: 50, to: 80))], at: 10) == ["begins 50"])
    }

    @Test("what gives it beside the one shown keeps it open, and only what still runs is worth a transfer")
    func overlaps() {
        func sentences(_ told: [Entry], at instant: Double) -> [String] {
            CustomerHistory(told).explanation(at: instant).outlook.map(\.sentence)
        }
        let endless = Entry.fact(granted(), recorded: 1)
        #expect(sentences([endless], at: 5) == ["It closes when the grant is taken back."])
        #expect(
            sentences([month, endless], at: 5).contains(
                "If the grant is taken back, pro (App Store, 1000) keeps it open for now."))
        #expect(
            sentences([month, .fact(granted(until: 10), recorded: 1)], at: 5).contains(
                "If pro is refunded, a grant keeps it open for now."))
        let away: [Entry] = [month, .fact(transfer(to: bob), recorded: 5)]
        #expect(outlook(away, at: 10) == ["transfer", "purchase", "grant"])
        #expect(outlook(away, at: 40) == ["purchase", "grant"])
    }

    @Test("a claim that had no effect is named until the customer owns the purchase")
    func refusedClaims() {
        func conflict(_ claimant: IdentityRef) -> LedgerFact {
            .conflict(ConflictFact(originalTransactionID: "1000", claimant: claimant))
        }
        func claims(_ told: [Entry], of customer: IdentityRef) -> [String] {
            Explainer(CustomerHistory(of: customer, told), at: day(20)).refusedClaims.map {
                "\($0.event.position) \($0.originalTransactionID)"
            }
        }
        let told: [Entry] = [
            month, .fact(conflict(bob), recorded: 3), .fact(conflict(carol), recorded: 4),
            .fact(conflict(bob), recorded: 5),
        ]
        #expect(claims(told, of: bob) == ["5 1000"])
        #expect(claims(told, of: carol) == ["4 1000"])
        #expect(claims(told, of: alice) == [], "whose it is claimed nothing")
        #expect(claims(told + [.fact(link(carol, to: dave), recorded: 6)], of: dave) == ["4 1000"])
        #expect(claims(told + [.fact(transfer(to: bob), recorded: 6)], of: bob) == [])
        let explainer = Explainer(CustomerHistory(of: bob, told), at: day(20))
        #expect(explainer.explanation(of: "premium").decision.rule == .neverHeld)
        #expect(
            explainer.refusedClaims[0].sentence
                == "On 6 January 2026, 00:00 UTC this customer claimed the original transaction 1000, \(Self.unknown)")
    }

    private static let others =
        "which was another's, and nobody's access changed; a transfer would make it this customer's"
    private static let unknown =
        others + ", or, where it bears an Apple account with which nobody is linked, a link of that account."
    private static let unlinked =
        "which bears an Apple account that is not linked to this customer, and nobody's access changed; a link of that "
        + "account would make it this customer's."

    @Test("what would make a claimed purchase the customer's depends on what it bears")
    func remedies() {
        let bought = Entry.statement(
            subscription("1", from: 0, to: 30, of: nil).with { $0.appTransaction = carol })
        let undone: [Entry] = [.fact(link(carol, to: bob), recorded: 1), .fact(link(carol, to: carol), recorded: 2)]
        let claimed = Entry.fact(
            .conflict(ConflictFact(originalTransactionID: "1000", claimant: bob)), recorded: 5)
        func said(_ told: [Entry]) -> [String] {
            let opening = "On 6 January 2026, 00:00 UTC this customer claimed the original transaction 1000, "
            return Explainer(CustomerHistory(of: bob, told), at: day(20)).refusedClaims.map { claim in
                #expect(claim.sentence.hasPrefix(opening))
                return String(claim.sentence.dropFirst(opening.count))
            }
        }
        #expect(said([bought] + undone + [claimed]) == [Self.unlinked], "a link that was taken back")
        #expect(said([bought, claimed]) == [Self.unknown], "the history does not show what it bears")
        let givenBack: [Entry] = [
            .fact(transfer(to: bob), recorded: 1),
            .fact(.transferUndo(TransferUndoFact(originalTransactionID: "1000", undoes: 3)), recorded: 2),
        ]
        #expect(said([bought] + givenBack + [claimed]) == [Self.unknown], "its Apple account may be somebody's")
        for other in [link(carol, to: dave), link(dave, to: carol), transfer(to: dave)] {
            let told: [Entry] = [bought] + undone + [Entry.fact(other, recorded: 3), claimed]
            #expect(said(told) == [Self.others + "."], "\(other)")
        }
        let ofAlice: [Entry] = [.fact(link(alice, to: bob), recorded: 1), .fact(link(alice, to: alice), recorded: 2)]
        #expect(said([month] + ofAlice + [claimed]) == [Self.others + "."], "it bears another's account token")
        let relinked = Entry.fact(link(carol, to: bob), recorded: 6)
        #expect(said([bought] + undone + [claimed, relinked]) == [])
    }

    @Test("a catalog that made a difference is named, and one that made none is not")
    func catalogChanges() {
        let without = Catalog(products: [CatalogProduct(productID: "pro", entitlements: ["basic"])])
        let alike = Catalog(
            products: without.products + [CatalogProduct(productID: "new", entitlements: ["other"])])
        let told: [Entry] = [month, .fact(.catalog(without), recorded: 5), .fact(.catalog(alike), recorded: 6)]
        let premium = CustomerHistory(told).explanation(at: 10)
        #expect(premium.decision.rule == .unknownEntitlement)
        #expect(premium.catalogChange?.event.position == 3)
        #expect(
            premium.catalogChange?.sentence
                == "Under the catalog that was in force until 6 January 2026, 00:00 UTC, premium was open (active) at "
                + "this instant.")
        let basic = CustomerHistory(told).explanation(at: 10, "basic")
        #expect(basic.catalogChange?.gaveAccess == false && basic.catalogChange?.event.position == 3)
        #expect(basic.cited == [2, 4], "the catalog in force is what it rests on")
        #expect(CustomerHistory([month]).explanation(at: 10).catalogChange == nil)
    }

    @Test("only so many catalogs are kept, and the last is in force")
    func catalogLimit() {
        let catalogs = (0..<20).map { number in
            Entry.fact(
                .catalog(Catalog(products: products, policy: AccessPolicy(leewaySeconds: Int64(number)))), recorded: 5)
        }
        let history = CustomerHistory([month] + catalogs)
        #expect(history.catalogs.count == CustomerHistory.catalogLimit)
        #expect(history.facts().catalog.policy.leewaySeconds == 19)
    }
}
