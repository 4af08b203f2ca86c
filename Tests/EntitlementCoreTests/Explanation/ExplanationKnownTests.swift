import Testing

@testable import EntitlementCore

/// Support asks about an instant when more is known than was then: what is known must not be told as unknown.
@Suite("Explanations: what is known already, and what was refunded beside")
struct ExplanationKnownTests {
    private static let month = Entry.statement(subscription("1", from: 0, to: 30))
    private static let next = Entry.statement(subscription("2", from: 30, to: 60, .renewal))

    private static func explain(
        _ told: [Entry], at instant: Double, policy: AccessPolicy = AccessPolicy(), of customer: IdentityRef = alice
    ) -> Explanation {
        CustomerHistory(of: customer, policy: policy, told).explanation(at: instant)
    }

    private static func outlook(_ told: [Entry], at instant: Double) -> [String] {
        explain(told, at: instant).outlook.map(\.sentence)
    }

    @Test("a renewal that is known is told, wherever one is spoken of")
    func renewed() {
        let late = Entry.statement(subscription("2", from: 50, to: 80, .renewal))
        let retry = Entry.statement(renewalInfo(signed: 30, retry: true, renews: true))
        let known = "It is known already that pro is renewed on 20 February 2026, 00:00 UTC."
        #expect(Self.outlook([Self.month, late], at: 40).first == known)
        #expect(Self.outlook([Self.month, retry, late], at: 40).first == known)
        let other = Entry.statement(subscription("2", "pro.max", from: 50, to: 80, .renewal))
        #expect(
            Self.outlook([Self.month, other], at: 40).first
                == "It is known already that pro goes on as pro.max on 20 February 2026, 00:00 UTC.")
        let explanation = Self.explain([Self.month, other], at: 40)
        #expect(
            explanation.decision.sentence.hasSuffix(
                "pro ran out on 31 January 2026, 00:00 UTC and went on as pro.max on 20 February 2026, 00:00 UTC."))
        #expect(explanation.cited == [1, 2, 3])
    }

    @Test("what is known to end it is told with its cause, and what only follows where nothing is heard as that")
    func ends() {
        let basic = Entry.statement(subscription("2", "basic", from: 20, to: 50))
        #expect(
            Self.outlook([Self.month, basic], at: 10).contains(
                "It is known already that it closes on 21 January 2026, 00:00 UTC: another product took its place."))
        let moved = Self.outlook([Self.month, .fact(transfer(to: bob), recorded: 5)], at: 3)
        #expect(
            moved.contains(
                "It is known already that it closes on 6 January 2026, 00:00 UTC: it became another customer's."))
        let refunded = Self.outlook([.statement(subscription("1", from: 0, to: 90, revoked: 20))], at: 10)
        #expect(
            refunded == ["It is known already that it closes on 21 January 2026, 00:00 UTC: it was refunded."],
            "and no refund is told as one that may come")
        let grace = Entry.statement(renewalInfo(signed: 30, graceEnd: 46, retry: true, renews: true))
        #expect(
            Self.outlook([Self.month, grace], at: 10).last
                == "Unless something else is heard, it is in its grace period from 31 January 2026, 00:00 UTC on.")
    }

    @Test("what was another's before is not told to begin for whom it was transferred to")
    func received() {
        let told = [Entry.statement(subscription("1", from: 0, to: 90)), .fact(transfer(to: bob), recorded: 5)]
        #expect(
            Self.explain(told, at: 3, of: bob).decision.sentence.hasSuffix(
                "because pro is this customer's only from 6 January 2026, 00:00 UTC on."))
    }

    @Test("a refund that ends nothing is told, so that nobody wonders why")
    func refunds() {
        let earlier = Entry.statement(subscription("1", from: 0, to: 30, signed: 50, revoked: 50))
        let beside = Self.explain([Self.month, Self.next, earlier], at: 55)
        #expect(
            beside.decision.sentence.hasSuffix(
                "because pro is paid from 31 January 2026, 00:00 UTC until 2 March 2026, 00:00 UTC; the refund of 20 "
                    + "February 2026, 00:00 UTC is of its period from 1 January 2026, 00:00 UTC until 31 January 2026, "
                    + "00:00 UTC alone."))
        #expect(beside.decision.givesAccess && beside.cited.contains(4))
        #expect(!Self.explain([Self.month, Self.next, earlier], at: 45).decision.sentence.contains("refund"))
        let long = (2...4).map {
            Entry.statement(subscription("\($0)", from: Double($0 - 1) * 30, to: Double($0) * 30))
        }
        #expect(!Self.explain([earlier] + long, at: 100).decision.sentence.contains("refund"), "long ago")

        let part = Entry.statement(subscription("1", from: 0, to: 30, signed: 10, revoked: 10, .refundProrated))
        var policy = AccessPolicy()
        policy.proratedRefund = .keepsAccess
        let kept = Self.explain([Self.month, part], at: 20, policy: policy)
        #expect(
            kept.decision.sentence.hasSuffix(
                ", and a part of that was refunded on 11 January 2026, 00:00 UTC, which by the catalog's policy ends no "
                    + "access."))
        #expect(kept.decision.givesAccess && kept.cited == [1, 3])
        let bought = oneTime("1", "lifetime", .nonConsumable, at: 0)
        let returned = oneTime("1", "lifetime", .nonConsumable, at: 0, signed: 10, revoked: 10).with {
            $0.revocation = Revocation(date: day(10), kind: .known(.refundProrated), percentage: 40_000)
        }
        #expect(
            Self.explain([.statement(bought), .statement(returned)], at: 20, policy: policy).decision.sentence
                .hasSuffix(
                    "does not run out, and 40 % of that was refunded on 11 January 2026, 00:00 UTC, which by the catalog's "
                        + "policy ends no access."))

        func stated(_ percentage: Int64) -> Entry {
            .statement(
                subscription("1", from: 0, to: 30, signed: 10, revoked: 10, .refundProrated).with {
                    $0.revocation?.percentage = percentage
                })
        }
        #expect(
            Self.explain([Self.month, stated(40_000)], at: 20, policy: policy).decision.sentence.contains(
                ", and 40 % of that was refunded on 11 January 2026, 00:00 UTC, which by"))
        #expect(
            Self.explain([Self.month, stated(33_330)], at: 20).decision.sentence.contains(
                "because 33.33 % of what was paid for pro was refunded on 11 January 2026, 00:00 UTC, and by the catalog's "
                    + "policy that ends access."))
        for strange in [0, 100_000, -1] as [Int64] {
            #expect(
                Self.explain([Self.month, stated(strange)], at: 20).decision.sentence.contains("because a part of what")
            )
        }
    }

    @Test("a grace period that is over is told, and why a charge is tried no more")
    func overSince() {
        let grace = Entry.statement(renewalInfo(signed: 30, graceEnd: 46, retry: true, renews: true))
        #expect(
            Self.explain([Self.month, grace], at: 50).decision.sentence.hasSuffix(
                "the store is still trying to collect it, and its grace period ended on 16 February 2026, 00:00 UTC."))
        let cancelled = Entry.statement(renewalInfo(signed: 40, renews: false, intent: 1))
        let retry = Entry.statement(renewalInfo(signed: 30, retry: true, renews: true))
        #expect(
            Self.explain([Self.month, retry, cancelled], at: 50).decision.sentence.hasSuffix(
                "the store no longer tries to collect it, since it was set not to renew."))
    }

    @Test("what was bought and has no duration is told as that, not as nothing bought")
    func withoutDuration() {
        let bought = Entry.statement(oneTime("1", "gems", .consumable, at: 5))
        let again = Entry.statement(oneTime("1", "gems", .consumable, at: 5, signed: 6))
        let catalog = Catalog(products: [
            CatalogProduct(productID: "gems", entitlements: ["premium"]),
            CatalogProduct(productID: "pro", entitlements: ["premium"]),
        ])
        let explanation = CustomerHistory([bought, again, .fact(.catalog(catalog), recorded: 6)]).explanation(at: 10)
        #expect(
            explanation.decision.sentence.hasSuffix(
                "because gems was bought on 6 January 2026, 00:00 UTC and gives nothing, because the catalog has no duration "
                    + "for it."))
        #expect(explanation.decision.rule == .neverHeld && !Set(explanation.cited).isDisjoint(with: [2, 3]))
        #expect(explanation.considered.map(\.loss) == [.noDuration])
        #expect(explanation.outlook.map(\.sentence).contains { $0.hasSuffix("would open it: pro.") })
    }

    @Test(
        "what the store sold without an end is told as that, and a purchase of the product is offered all the same",
        arguments: [
            (.known(.autoRenewable), "the store named no end of it", .noEnd, true),
            (
                .unknown("Super Subscription"), "the store named no end of it and the catalog has no duration for it",
                .noDuration, false
            ),
            (nil, "the store named no end of it and the catalog has no duration for it", .noDuration, false),
        ] as [(Known<ProductKind>?, String, Alternative.Loss, Bool)])
    func withoutEnd(kind: Known<ProductKind>?, why: String, loss: Alternative.Loss, isOffered: Bool) {
        let fact = TransactionFact(
            payloadHash: .zero, signedDate: day(5), transactionID: "1", originalTransactionID: "1000", productID: "pro",
            bundleID: "com.example", kind: kind, purchaseDate: day(5), reason: .known(.purchase),
            ownership: .known(.purchased), accountToken: alice)
        let catalog = Catalog(products: [CatalogProduct(productID: "pro", entitlements: ["premium"])])
        let history = CustomerHistory([
            .statement(.transaction(fact.hashed(), .notification)), .fact(.catalog(catalog), recorded: 6),
        ])
        let explanation = history.explanation(at: 10)
        #expect(
            explanation.decision.sentence.hasSuffix(
                "because pro was bought on 6 January 2026, 00:00 UTC and gives nothing, because \(why)."))
        #expect(explanation.decision.rule == .neverHeld && explanation.cited.contains(2))
        #expect(explanation.considered.map(\.loss) == [loss])
        #expect(explanation.outlook.map(\.sentence).contains { $0.hasSuffix("would open it: pro.") } == isOffered)
    }

    @Test("what has no duration is told to whoever has it at the instant, and to nobody once it was taken back")
    func withoutDurationElsewhere() {
        let catalog = Catalog(products: [
            CatalogProduct(productID: "gems", entitlements: ["premium"]),
            CatalogProduct(productID: "pro", entitlements: ["premium"]),
        ])
        let told: [Entry] = [
            .statement(oneTime("1", "gems", .consumable, at: 5)), .fact(.catalog(catalog), recorded: 6),
            .fact(transfer(to: bob), recorded: 8),
        ]
        let refund = Entry.statement(oneTime("1", "gems", .consumable, at: 5, signed: 7, revoked: 7))
        func isTold(_ customer: IdentityRef, _ told: [Entry], at instant: Double) -> Bool {
            let explanation = CustomerHistory(of: customer, told).explanation(at: instant)
            #expect(explanation.outlook.map(\.sentence).contains { $0.hasSuffix("would open it: pro.") })
            let isTold = explanation.decision.sentence.contains("the catalog has no duration for it")
            #expect(explanation.considered.map(\.loss) == (isTold ? [.noDuration] : []))
            return isTold
        }
        #expect(isTold(alice, told, at: 7) && !isTold(alice, told, at: 10))
        #expect(!isTold(bob, told, at: 7) && isTold(bob, told, at: 10))
        #expect(
            isTold(alice, [told[0], told[1], refund], at: 6) && !isTold(alice, [told[0], told[1], refund], at: 10))
    }
}
