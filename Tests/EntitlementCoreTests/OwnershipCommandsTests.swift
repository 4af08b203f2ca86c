import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Decisions about link commands")
struct LinkDecisionTests {
    private let erin = IdentityRef(5)

    private func decision(_ map: OwnershipMap, _ identity: IdentityRef, _ customer: IdentityRef) -> String {
        do throws(LinkRefusal) {
            switch try map.decide(LinkFact(identity: identity, customer: customer)) {
            case .record: return "record"
            case .standing(let position): return "standing \(position)"
            }
        } catch {
            return "\(error)"
        }
    }

    @Test("a link is made, stands already, closes a circle, or takes the one before back")
    func links() {
        let chain = OwnershipMap((link(alice, to: bob), recorded: 0), (link(bob, to: carol), recorded: 0))
        let table: [(IdentityRef, IdentityRef, String)] = [
            (dave, erin, "record"), (alice, bob, "standing 101"), (bob, carol, "standing 102"),
            (alice, carol, "record"), (alice, dave, "record"), (dave, alice, "record"), (carol, dave, "record"),
            (bob, alice, "closesCircle([101])"), (carol, alice, "closesCircle([101, 102])"),
            (carol, bob, "closesCircle([102])"), (alice, alice, "record"), (carol, carol, "notLinked"),
            (dave, dave, "notLinked"),
        ]
        for (identity, customer, expected) in table {
            #expect(decision(chain, identity, customer) == expected, "\(identity) to \(customer)")
        }
        #expect(chain.path(of: alice) == [alice, bob, carol] && chain.path(of: dave) == [dave])
    }

    private func undo(
        _ facts: [LedgerFact], _ position: Int, for person: IdentityRef
    ) -> String {
        var now = OwnershipMap()
        var before = OwnershipMap()
        var links: [RecordedLink] = []
        for (index, fact) in facts.enumerated() {
            if index + 1 < position { before.apply(fact, position: Int64(index + 1), recordedAt: day(0)) }
            now.apply(fact, position: Int64(index + 1), recordedAt: day(0))
            if case .link(let link) = fact { links.append(RecordedLink(position: Int64(index + 1), fact: link)) }
        }
        guard case .link(let link) = facts[position - 1] else { return "no link" }
        do throws(LinkRefusal) {
            let restored = try now.decideUndo(
                of: link, at: Int64(position), for: person, before: before, links: links)
            let cause = restored.cause == .command ? "" : ", \(restored.cause)"
            return "\(restored.identity.number) to \(restored.customer.number)\(cause)"
        } catch {
            return "\(error)"
        }
    }

    @Test("a link that is in force can be undone by either of those it names, which restores what held before")
    func undoing() {
        let relinked = [link(alice, to: bob), link(alice, to: carol)]
        #expect(undo([link(alice, to: bob)], 1, for: bob) == "1 to 1")
        #expect(undo([link(alice, to: bob)], 1, for: alice) == "1 to 1")
        #expect(undo([link(alice, to: bob)], 1, for: carol) == "notTheirs")
        #expect(undo(relinked, 2, for: carol) == "1 to 2")
        #expect(undo(relinked, 1, for: bob) == "notInForce")
        let issued = LedgerFact.link(LinkFact(identity: alice, customer: bob, cause: .issued))
        #expect(undo([issued, link(alice, to: carol)], 2, for: carol) == "1 to 2, issued")
        #expect(undo([link(alice, to: bob), link(alice, to: alice)], 1, for: bob) == "notInForce")
        #expect(undo([link(alice, to: bob), link(alice, to: alice)], 2, for: alice) == "notInForce")
        let turned = relinked + [link(bob, to: alice)]
        #expect(undo(turned, 2, for: carol) == "closesCircle([3])")
    }

    @Test("what is decided to be recorded never closes a circle", arguments: 0..<100 as Range<UInt64>)
    func neverCircular(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var map = OwnershipMap()
        for position in 1...40 {
            let link = LinkFact(
                identity: IdentityRef(.random(in: 1...6, using: &random)),
                customer: IdentityRef(.random(in: 1...6, using: &random)))
            guard (try? map.decide(link)) == .record else { continue }
            map.apply(.link(link), position: Int64(position), recordedAt: day(0))
            let wanted = link.identity == link.customer ? nil : link.customer
            #expect(map.alias(of: link.identity)?.customer == wanted, "seed \(seed): what is recorded takes effect")
        }
    }
}

@Suite("Decisions about transfer and grant commands")
struct TransferDecisionTests {
    private let original = Given(
        subscription("1", from: 0, to: 30), subscription("2", from: 30, to: 60, .renewal, of: bob))
    private let unclaimed = Given(subscription("1", from: 0, to: 30, of: nil))

    private func attempt(
        _ given: Given, by customer: IdentityRef, to receiver: IdentityRef, of id: String = "1000",
        forgotten: Set<IdentityRef> = []
    ) -> String {
        do throws(TransferRefusal) {
            let fact = try given.with { $0.customer = given.ownership.customer(of: customer) }.facts
                .decideTransfer(of: id, to: receiver, forgotten: forgotten)
            return "to \(fact.customer.number)\(fact.hadNoOwner ? " from nobody" : "")"
        } catch {
            return "\(error)"
        }
    }

    @Test("whoever owns a period may give the whole; nobody else, and not to themselves")
    func transfers() {
        #expect(attempt(original, by: alice, to: carol) == "to 3")
        #expect(attempt(original, by: bob, to: alice) == "to 1", "of two owners either may give it to the other")
        #expect(attempt(original, by: carol, to: dave) == "anothers")
        #expect(attempt(original, by: alice, to: alice) == "sameCustomer")
        #expect(attempt(original, by: alice, to: bob, of: "2000") == "unknownOriginal")
        #expect(attempt(unclaimed, by: alice, to: bob) == "nobodys", "only whoever is to have it is given it")
        #expect(attempt(unclaimed, by: bob, to: bob) == "to 2 from nobody")
        let claimed = unclaimed.with { $0.ownership = OwnershipMap((claim(by: alice), recorded: 1)) }
        #expect(attempt(claimed, by: alice, to: bob) == "to 2")
        #expect(attempt(claimed, by: bob, to: alice) == "anothers")
        #expect(attempt(claimed, by: bob, to: bob, forgotten: [alice]) == "boughtByForgotten")
        let given = unclaimed.with { $0.ownership = OwnershipMap((transfer(to: bob), recorded: 1)) }
        #expect(attempt(given, by: carol, to: carol) == "anothers", "it is given once")
    }

    @Test("links are followed, and a transfer in force decides whose it is")
    func followed() {
        let linked = original.with {
            $0.ownership = OwnershipMap((link(alice, to: dave), recorded: 1), (link(carol, to: dave), recorded: 1))
        }
        #expect(attempt(linked, by: dave, to: bob) == "to 2")
        #expect(attempt(linked, by: carol, to: bob) == "to 2", "an alias is the customer")
        #expect(attempt(linked, by: alice, to: carol) == "sameCustomer")
        let moved = original.with {
            $0.ownership = OwnershipMap((transfer(to: carol), recorded: 1))
        }
        #expect(attempt(moved, by: alice, to: dave) == "anothers")
        #expect(attempt(moved, by: carol, to: alice) == "to 1")
    }

    private func listed(
        _ given: Given, to customer: IdentityRef, accounts: Set<IdentityRef> = [], links: [LinkFact] = [],
        forgotten: Set<IdentityRef> = [], app: String = "com.example"
    ) -> String {
        let decision = given.facts.decideListed(
            owner: customer, of: "1000", in: AppScope(app), accounts: accounts,
            links: links.enumerated().map { RecordedLink(position: Int64($0 + 101), fact: $1) }, forgotten: forgotten)
        return switch decision {
        case .theirs: "theirs"
        case .link(let link): "links \(link.identity.number) to \(link.customer.number)"
        case .transfer(let transfer): "gives to \(transfer.customer.number)"
        case .others(let others): "others \(others.map(\.number).sorted())"
        case .takenBack: "taken back"
        case .unknown: "unknown"
        }
    }

    @Test("a list links an Apple account that is nobody's, gives what is nobody's, and takes nothing from anybody")
    func listed() {
        let account = Given(subscription("1", from: 0, to: 30, of: alice))
        let made = LinkFact(identity: alice, customer: bob)
        func linked(_ facts: [LinkFact]) -> Given {
            account.with { given in
                for (index, fact) in facts.enumerated() {
                    given.ownership.apply(.link(fact), position: Int64(index + 101), recordedAt: day(1))
                }
            }
        }
        #expect(listed(account, to: bob, accounts: [alice]) == "links 1 to 2")
        #expect(listed(account, to: alice, accounts: [alice]) == "theirs")
        #expect(listed(account, to: bob) == "others [1]", "it is no Apple account")
        #expect(listed(account, to: bob, accounts: [alice], forgotten: [alice]) == "others [1]")
        #expect(listed(account, to: bob, accounts: [alice], app: "com.other") == "unknown")
        #expect(listed(linked([made]), to: bob, accounts: [alice], links: [made]) == "theirs")
        #expect(listed(linked([made]), to: carol, accounts: [alice], links: [made]) == "others [2]")
        let back = [made, LinkFact(identity: alice, customer: alice)]
        #expect(listed(linked(back), to: bob, accounts: [alice], links: back) == "taken back")
        #expect(listed(linked(back), to: carol, accounts: [alice], links: back) == "links 1 to 3")
        let inverse = [LinkFact(identity: bob, customer: alice)]
        #expect(listed(linked(inverse), to: carol, accounts: [alice], links: inverse) == "others [1]")
        #expect(listed(original, to: carol, accounts: [alice, bob]) == "others [1, 2]")
        #expect(listed(original, to: bob, accounts: [alice]) == "links 1 to 2", "the other part is theirs already")
        #expect(listed(unclaimed, to: carol) == "gives to 3")
        let given = unclaimed.with { $0.ownership = OwnershipMap((transfer(to: carol), recorded: 1)) }
        #expect(listed(given, to: carol) == "theirs")
        #expect(listed(given, to: dave) == "others [3]")
        var undone = given
        undone.ownership.apply(
            .transferUndo(TransferUndoFact(originalTransactionID: "1000", undoes: 101)), position: 102,
            recordedAt: day(2))
        #expect(listed(undone, to: carol) == "taken back")
    }

    private func undo(_ given: Given, _ position: Int64, by customer: IdentityRef) -> String {
        let facts = given.with { $0.customer = customer }.facts
        do throws(TransferRefusal) {
            let undo = try facts.decideUndo(
                of: TransferFact(originalTransactionID: "1000", customer: carol), at: position)
            return "back to \(facts.receiver(ofUndone: undo).map { String($0.number) } ?? "nobody")"
        } catch {
            return "\(error)"
        }
    }

    @Test("undoing gives it back to whoever asks, where they are among those who get it; else to the latest period's")
    func undoing() {
        let moved = original.with {
            $0.ownership = OwnershipMap((transfer(to: carol), recorded: 1))
        }
        #expect(undo(moved, 101, by: carol) == "back to 2")
        #expect(undo(moved, 101, by: alice) == "back to 1")
        #expect(undo(moved, 101, by: bob) == "back to 2")
        #expect(undo(moved, 101, by: dave) == "notTheirs")
        let twice = original.with {
            $0.ownership = OwnershipMap(
                (transfer(to: carol), recorded: 1),
                (transfer(to: dave), recorded: 2))
        }
        #expect(undo(twice, 102, by: dave) == "back to 3")
        #expect(undo(twice, 101, by: carol) == "notInForce")
        #expect(undo(twice, 102, by: alice) == "back to 3", "what was before it may not be the beginning")
        let given = unclaimed.with {
            $0.ownership = OwnershipMap((transfer(to: carol), recorded: 1))
        }
        #expect(undo(given, 101, by: carol) == "back to nobody")
    }

    @Test("a grant is taken back by its customer, links followed, while it runs")
    func revocations() throws {
        let given = Given().with {
            $0.grants = [
                grant("open", recorded: 0), grant("ends", recorded: 0, until: 10),
                grant("gone", recorded: 0, until: 10, revoked: 5), grant("other", recorded: 0, to: bob),
            ]
        }
        func revocation(_ id: String, at instant: Double, dated: Double? = nil, _ given: Given) -> String {
            do throws(GrantRefusal) {
                let grant = try given.facts.decideRevocation(
                    of: id, now: day(instant), date: day(dated ?? instant))
                return grant.revokedPosition.map { "done at \($0)" } ?? "takes back"
            } catch {
                return "\(error)"
            }
        }
        #expect(revocation("open", at: 20, given) == "takes back")
        #expect(revocation("ends", at: 9, given) == "takes back")
        #expect(revocation("ends", at: 10, given) == "\(GrantRefusal.ended(day(10)))")
        #expect(
            revocation("ends", at: 9, dated: 10, given)
                == "\(GrantRefusal.endsBefore(day(10), takenBackAt: day(10)))")
        #expect(revocation("ends", at: 10, dated: 12, given) == "\(GrantRefusal.ended(day(10)))")
        #expect(revocation("gone", at: 20, given) == "done at 202")
        #expect(revocation("other", at: 20, given) == "unknownGrant")
        #expect(revocation("none", at: 20, given) == "unknownGrant")
        let linked = given.with { $0.ownership = OwnershipMap((link(bob, to: alice), recorded: 0)) }
        #expect(revocation("other", at: 20, linked) == "takes back")
    }
}
