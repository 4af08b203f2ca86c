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
        for (index, fact) in facts.enumerated() {
            if index + 1 < position { before.apply(fact, position: Int64(index + 1), recordedAt: day(0)) }
            now.apply(fact, position: Int64(index + 1), recordedAt: day(0))
        }
        guard case .link(let link) = facts[position - 1] else { return "no link" }
        do throws(LinkRefusal) {
            let restored = try now.decideUndo(of: link, at: Int64(position), for: person, before: before)
            return "\(restored.identity.number) to \(restored.customer.number)"
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
        func revocation(_ id: String, at instant: Double, _ given: Given) -> String {
            do throws(GrantRefusal) {
                let grant = try given.facts.decideRevocation(of: id, at: day(instant))
                return grant.revokedPosition.map { "done at \($0)" } ?? "takes back"
            } catch {
                return "\(error)"
            }
        }
        #expect(revocation("open", at: 20, given) == "takes back")
        #expect(revocation("ends", at: 9, given) == "takes back")
        #expect(revocation("ends", at: 10, given) == "\(GrantRefusal.ended(day(10)))")
        #expect(revocation("gone", at: 20, given) == "done at 202")
        #expect(revocation("other", at: 20, given) == "unknownGrant")
        #expect(revocation("none", at: 20, given) == "unknownGrant")
        let linked = given.with { $0.ownership = OwnershipMap((link(bob, to: alice), recorded: 0)) }
        #expect(revocation("other", at: 20, linked) == "takes back")
    }
}
