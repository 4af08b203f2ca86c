import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Ownership: links and aliases")
struct LinkTests {
    private func customers(_ map: OwnershipMap) -> [IdentityRef] {
        [alice, bob, carol, dave].map { map.customer(of: $0) }
    }

    @Test("an identity is its own customer until a link says otherwise")
    func plain() {
        #expect(customers(OwnershipMap()) == [alice, bob, carol, dave])
        #expect(customers(OwnershipMap((link(alice, to: bob), recorded: 0))) == [bob, bob, carol, dave])
    }

    @Test("links are followed to the end, in whatever order they were made")
    func chains() {
        let forwards = OwnershipMap(
            (link(alice, to: bob), recorded: 0), (link(bob, to: carol), recorded: 0),
            (link(carol, to: dave), recorded: 0))
        let backwards = OwnershipMap(
            (link(carol, to: dave), recorded: 0), (link(bob, to: carol), recorded: 0),
            (link(alice, to: bob), recorded: 0))
        #expect(customers(forwards) == [dave, dave, dave, dave])
        #expect(customers(backwards) == [dave, dave, dave, dave])
        #expect(forwards.linkPositions(of: alice) == [101, 102, 103])
        #expect(backwards.linkPositions(of: alice) == [103, 102, 101])
    }

    @Test("a later link of the same identity takes the place of the earlier")
    func relinked() {
        let map = OwnershipMap((link(alice, to: bob), recorded: 0), (link(alice, to: carol), recorded: 0))
        #expect(customers(map) == [carol, bob, carol, dave])
        #expect(map.linkPositions(of: alice) == [102])
    }

    @Test("a link to itself undoes the one before")
    func undone() {
        let map = OwnershipMap((link(alice, to: bob), recorded: 0), (link(alice, to: alice), recorded: 0))
        #expect(customers(map) == [alice, bob, carol, dave])
        #expect(OwnershipMap((link(alice, to: alice), recorded: 0)) == OwnershipMap())
    }

    @Test("a link that would close a circle changes nothing, wherever it meets the path", .timeLimit(.minutes(1)))
    func circles() {
        let two = OwnershipMap((link(alice, to: bob), recorded: 0), (link(bob, to: alice), recorded: 0))
        #expect(customers(two) == [bob, bob, carol, dave])
        let atTheEnd = OwnershipMap(
            (link(alice, to: bob), recorded: 0), (link(bob, to: carol), recorded: 0),
            (link(carol, to: alice), recorded: 0))
        #expect(customers(atTheEnd) == [carol, carol, carol, dave])
        let inTheMiddle = OwnershipMap(
            (link(alice, to: bob), recorded: 0), (link(bob, to: carol), recorded: 0),
            (link(bob, to: alice), recorded: 0))
        #expect(customers(inTheMiddle) == [carol, carol, carol, dave])
    }

    @Test(
        "any sequence of links leads every identity somewhere", .timeLimit(.minutes(1)),
        arguments: 0..<200 as Range<UInt64>)
    func neverCircular(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var map = OwnershipMap()
        for position in 1...30 {
            let identity = IdentityRef(Int64.random(in: 1...6, using: &random))
            let customer = IdentityRef(Int64.random(in: 1...6, using: &random))
            map.apply(link(identity, to: customer), position: Int64(position), recordedAt: day(0))
            for number in 1...6 {
                let end = map.customer(of: IdentityRef(Int64(number)))
                #expect(map.customer(of: end) == end, "seed \(seed)")
            }
        }
    }

    @Test("a link holds for every instant, the past included, and takes along what the alias had")
    func everyInstant() {
        let map = OwnershipMap((link(alice, to: bob), recorded: 20))
        let given = Given(subscription("1", from: 0, to: 30)).with {
            $0.ownership = map
            $0.grants = [grant("g", "gift", recorded: 5)]
        }
        #expect(given.timeline().isEmpty)
        let linked = given.with { $0.customer = bob }
        #expect(linked.timeline() == ["0..30 active pro", "30.. expired pro"])
        #expect(linked.timeline("gift") == ["5.. active -"])
        #expect(linked.answer(at: 1)?.reading.positions == [1, 101], "the link is among the reasons")
    }
}

@Suite("Ownership: whose a period is")
struct PeriodOwnerTests {
    private let unowned = subscription("1", from: 0, to: 30, of: nil)

    private func given(_ statement: Statement, of customer: IdentityRef, _ map: OwnershipMap = OwnershipMap()) -> Given
    {
        Given(statement).with {
            $0.customer = customer
            $0.ownership = map
        }
    }

    @Test("of its account token, else of its app transaction id, else unclaimed")
    func order() {
        let both = unowned.with {
            $0.accountToken = bob
            $0.appTransaction = carol
        }
        #expect(!given(both, of: bob).timeline().isEmpty)
        #expect(given(both, of: carol).timeline().isEmpty)
        let app = unowned.with { $0.appTransaction = carol }
        #expect(!given(app, of: carol).timeline().isEmpty)
        #expect(given(unowned, of: alice).timeline().isEmpty)
    }

    @Test("the first claim of what bears no identity wins, for every instant")
    func claims() {
        let map = OwnershipMap((claim(by: bob), recorded: 40), (claim(by: carol), recorded: 41))
        #expect(given(unowned, of: bob, map).timeline() == ["0..30 active pro", "30.. expired pro"])
        #expect(given(unowned, of: carol, map).timeline().isEmpty)
        #expect(given(unowned, of: bob, map).answer(at: 1)?.reading.positions == [1, 101])
        let other = OwnershipMap((claim(by: bob, of: "1001"), recorded: 40))
        #expect(given(unowned, of: bob, other).timeline().isEmpty)
    }

    @Test("a claim changes nothing about what bears an identity, token or app transaction id")
    func claimOfOwned() {
        let map = OwnershipMap((claim(by: bob), recorded: 40))
        let token = subscription("1", from: 0, to: 30, of: alice)
        let app = unowned.with { $0.appTransaction = alice }
        for statement in [token, app] {
            #expect(given(statement, of: bob, map).timeline().isEmpty)
            #expect(given(statement, of: alice, map).timeline() == ["0..30 active pro", "30.. expired pro"])
        }
    }

    @Test("the claimant's own links are followed")
    func claimantLinked() {
        let map = OwnershipMap((claim(by: bob), recorded: 1), (link(bob, to: carol), recorded: 2))
        #expect(given(unowned, of: bob, map).timeline().isEmpty)
        #expect(given(unowned, of: carol, map).answer(at: 1)?.reading.positions == [1, 101, 102])
    }

    @Test("two logins on one Apple account each keep what they paid for")
    func twoTokens() {
        let given = Given(
            subscription("1", from: 0, to: 30), subscription("2", from: 30, to: 60, .renewal, of: bob),
            subscription("3", from: 60, to: 90, .renewal, of: alice), renewalInfo(signed: 95, retry: true))
        #expect(
            given.reasons()
                == [
                    "0..30 active paid_period", "30..60 expired owned_by_another", "60..90 active paid_period",
                    "90..150 in_billing_retry billing_retry", "150.. expired billing_given_up",
                ])
        #expect(
            given.with { $0.customer = bob }.reasons()
                == ["30..60 active paid_period", "60.. expired owned_by_another"])
    }

    @Test("the tail of a period belongs to whom the period belongs")
    func tails() {
        let given = Given(
            subscription("1", from: 0, to: 30), renewalInfo(signed: 30, graceEnd: 46),
            subscription("2", from: 40, to: 70, .renewal, of: bob))
        #expect(
            given.timeline() == ["0..30 active pro", "30..40 in_grace_period pro", "40.. expired pro"])
        #expect(given.with { $0.customer = bob }.timeline() == ["40..70 active pro", "70.. expired pro"])
    }
}

@Suite("Ownership: transfers")
struct TransferTests {
    private func given(_ map: OwnershipMap) -> Given {
        Given(subscription("1", from: 0, to: 30), subscription("2", from: 30, to: 60, .renewal)).with {
            $0.ownership = map
        }
    }

    @Test("before its recorded instant the old owner, from it on the new one, tokens notwithstanding")
    func transferred() {
        let moved = given(OwnershipMap((transfer(to: bob), recorded: 10)))
        #expect(moved.reasons() == ["0..10 active paid_period", "10.. expired owned_by_another"])
        #expect(
            moved.with { $0.customer = bob }.reasons()
                == ["10..30 active paid_period", "30..60 active paid_period", "60.. expired expired"])
        #expect(moved.answer(at: 9.5)?.givesAccess == true)
        #expect(moved.answer(at: 10)?.givesAccess == false)
        #expect(moved.answer(at: 10)?.state == .expired)
        #expect(moved.with { $0.customer = bob }.answer(at: 9.5) == nil)
        #expect(moved.with { $0.customer = bob }.answer(at: 10)?.givesAccess == true)
    }

    @Test("it also moves what nobody had claimed, and what is bought later")
    func unclaimed() {
        let map = OwnershipMap((transfer(to: bob), recorded: 10))
        let unclaimed = Given(
            subscription("1", from: 0, to: 30, of: nil), subscription("2", from: 50, to: 80, of: carol)
        ).with { $0.ownership = map }
        #expect(
            unclaimed.with { $0.customer = bob }.timeline()
                == ["10..30 active pro", "30..50 expired pro", "50..80 active pro", "80.. expired pro"])
        #expect(unclaimed.with { $0.customer = carol }.timeline().isEmpty)
    }

    @Test("back and forth, each from its own instant")
    func backAndForth() {
        let map = OwnershipMap((transfer(to: bob), recorded: 10), (transfer(to: alice), recorded: 20))
        #expect(
            given(map).timeline() == [
                "0..10 active pro", "10..20 expired pro", "20..60 active pro", "60.. expired pro",
            ])
        #expect(
            given(map).with { $0.customer = bob }.timeline() == ["10..20 active pro", "20.. expired pro"])
    }

    @Test("to the owner it already has, it changes nothing that is shown")
    func toSelf() {
        #expect(
            given(OwnershipMap((transfer(to: alice), recorded: 10))).timeline()
                == ["0..60 active pro", "60.. expired pro"])
    }

    @Test("after everything lapsed, the new owner has a lapsed entitlement")
    func lapsed() {
        let moved = given(OwnershipMap((transfer(to: bob), recorded: 99)))
        #expect(moved.with { $0.customer = bob }.timeline() == ["99.. expired pro"])
    }

    @Test("what had been given up before is the new owner's too, and over")
    func givenUpBefore() {
        let map = OwnershipMap((transfer(to: bob), recorded: 45))
        let moved = Given(
            subscription("1", "pro.max", from: 0, to: 30), subscription("2", "pro", from: 20, to: 50),
            subscription("3", "basic", from: 40, to: 70)
        ).with {
            $0.ownership = map
            $0.customer = bob
        }
        #expect(moved.timeline("max") == ["45.. expired pro.max"])
        #expect(moved.reasons("max") == ["45.. expired replaced"])
        #expect(moved.timeline() == ["45.. expired pro"])
        #expect(moved.timeline("basic") == ["45..70 active basic", "70.. expired basic"])
        #expect(
            moved.with { $0.customer = alice }.timeline() == [
                "0..20 active pro.max", "20..40 active pro", "40.. expired pro",
            ])
        let back = OwnershipMap((transfer(to: bob), recorded: 45), (transfer(to: carol), recorded: 50))
        #expect(moved.with { $0.ownership = back }.timeline("max") == ["45.. expired pro.max"])
        let mixed = Given(
            subscription("1", "pro", from: 0, to: 30, of: bob), subscription("2", "pro.yearly", from: 20, to: 50),
            subscription("3", "basic", from: 40, to: 70)
        ).with {
            $0.ownership = map
            $0.customer = bob
        }
        #expect(mixed.timeline() == ["0..20 active pro", "20..45 expired pro", "45.. expired pro.yearly"])
    }

    @Test("before the purchase, it moves all of it")
    func beforePurchase() {
        let moved = given(OwnershipMap((transfer(to: bob), recorded: -5)))
        #expect(moved.timeline().isEmpty)
        #expect(moved.with { $0.customer = bob }.timeline() == ["0..60 active pro", "60.. expired pro"])
    }

    @Test("the new owner's links are followed")
    func linked() {
        let map = OwnershipMap((transfer(to: bob), recorded: 10), (link(bob, to: carol), recorded: 50))
        #expect(given(map).with { $0.customer = carol }.timeline() == ["10..60 active pro", "60.. expired pro"])
    }

    @Test("of several recorded at one instant, or backwards, the later position wins and nothing overlaps")
    func recordedBackwards() {
        let same = OwnershipMap((transfer(to: bob), recorded: 10), (transfer(to: carol), recorded: 10))
        #expect(given(same).with { $0.customer = bob }.timeline().isEmpty)
        #expect(given(same).with { $0.customer = carol }.timeline() == ["10..60 active pro", "60.. expired pro"])
        let backwards = OwnershipMap((transfer(to: bob), recorded: 20), (transfer(to: carol), recorded: 10))
        #expect(given(backwards).timeline() == ["0..10 active pro", "10.. expired pro"])
        #expect(given(backwards).with { $0.customer = bob }.timeline().isEmpty)
        #expect(given(backwards).with { $0.customer = carol }.timeline() == ["10..60 active pro", "60.. expired pro"])
    }
}
