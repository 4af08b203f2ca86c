import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Drift")
struct DriftTests {
    private static func claim(
        _ product: String, _ state: EntitlementState, _ until: Double? = nil
    ) -> DeviceClaim {
        DeviceClaim(productID: product, state: state, until: until.map { day($0) })
    }

    /// In words: `active>revoked`, one for each drift.
    private static func drift(_ given: Given, at instant: Double, _ claims: DeviceClaim...) -> [String] {
        given.facts.drift(from: claims, at: day(instant)).drift.map {
            "\($0.claim.state.rawValue)>\($0.actual?.rawValue ?? "nothing")"
        }
    }

    @Test("states are compared product by product, ends where both give access and the device names one")
    func table() {
        let paid = Given(subscription("1", from: 0, to: 30))
        let grace = Given(subscription("1", from: 0, to: 30), renewalInfo(signed: 30.5, graceEnd: 46, retry: true))
        let refunded = Given(subscription("1", from: 0, to: 30, signed: 9, revoked: 8))
        let lifetime = Given(oneTime("1", "lifetime", .nonConsumable, at: 0))
        let upgraded = Given(
            subscription("1", "pro", from: 0, to: 30), subscription("2", "pro.yearly", from: 10, to: 375))
        let table: [(given: Given, at: Double, claim: DeviceClaim, drift: String?)] = [
            (paid, 10, Self.claim("pro", .active), nil), (paid, 10, Self.claim("pro", .active, 30), nil),
            (paid, 10, Self.claim("pro", .active, 31), "active>active"),
            (paid, 10, Self.claim("pro", .expired), "expired>active"),
            (paid, 40, Self.claim("pro", .active, 30), "active>expired"),
            (paid, 40, Self.claim("pro", .expired, 29), nil),
            (paid, 10, Self.claim("basic", .expired), nil), (paid, 10, Self.claim("basic", .active), "active>nothing"),
            (paid, 10, Self.claim("basic", .revoked), "revoked>nothing"),
            (grace, 31, Self.claim("pro", .inGracePeriod), nil),
            (grace, 31, Self.claim("pro", .inGracePeriod, 46), nil),
            (grace, 31, Self.claim("pro", .inGracePeriod, 40), "in_grace_period>in_grace_period"),
            (grace, 31, Self.claim("pro", .inBillingRetry), "in_billing_retry>in_grace_period"),
            (refunded, 10, Self.claim("pro", .revoked), nil),
            (refunded, 10, Self.claim("pro", .active), "active>revoked"),
            (lifetime, 10, Self.claim("lifetime", .active), nil),
            (lifetime, 10, Self.claim("lifetime", .active, 400), "active>active"),
            (upgraded, 12, Self.claim("pro", .expired), nil),
            (upgraded, 12, Self.claim("pro.yearly", .active, 375), nil),
            (upgraded, 12, Self.claim("pro", .active, 30), "active>expired"),
            (upgraded, 5, Self.claim("pro", .active, 10), nil),
            (paid.with { $0.customer = bob }, 10, Self.claim("pro", .active), "active>nothing"),
        ]
        for (index, row) in table.enumerated() {
            #expect(Self.drift(row.given, at: row.at, row.claim) == [row.drift].compactMap(\.self), "row \(index)")
        }
    }

    @Test("a product counts by itself: neither another of the same entitlement nor a grant stands in for it")
    func products() {
        let two = Given(subscription("1", from: 0, to: 30)).and("2000", oneTime("9", "lifetime", .nonConsumable, at: 0))
        #expect(Self.drift(two, at: 40, Self.claim("pro", .expired), Self.claim("lifetime", .active)).isEmpty)
        #expect(Self.drift(two, at: 40, Self.claim("pro", .active, 30)) == ["active>expired"])
        let granted = Given().with { $0.grants = [grant(recorded: 0)] }
        #expect(granted.answer(at: 1)?.givesAccess == true)
        #expect(Self.drift(granted, at: 1, Self.claim("premium", .expired), Self.claim("pro", .expired)).isEmpty)
    }

    @Test("products outside the catalog are compared too, and what runs by its duration by that")
    func catalog() {
        let strange = Given(subscription("1", "unheard", from: 0, to: 30))
        #expect(Self.drift(strange, at: 1, Self.claim("unheard", .active, 30)).isEmpty)
        let season = Given(oneTime("1", "season", .nonRenewing, at: 0))
        #expect(Self.drift(season, at: 1, Self.claim("season", .active, 90)).isEmpty)
        #expect(Self.drift(season, at: 91, Self.claim("season", .active, 90)) == ["active>expired"])
    }

    @Test("drift is told in whole sentences that name no identity")
    func sentences() {
        let given = Given(subscription("1", from: 0, to: 30, signed: 9, revoked: 8))
        let told = given.facts.drift(
            from: [Self.claim("pro", .active, 30), Self.claim("basic", .active)], at: day(10)
        ).drift.map(\.explanation)
        #expect(
            told == [
                "The device reads active; by the facts it is revoked since 2026-01-09T00:00:00.000Z (refunded).",
                "The device reads active; nothing that is known to be this customer's is of this product.",
            ])
        let failing = Given(
            subscription("1", from: 0, to: 30), renewalInfo(signed: 30.5, graceEnd: 36, retry: true),
            renewalInfo(signed: 40, retry: true))
        let states = [31.0, 41].flatMap { instant in
            failing.facts.drift(from: [Self.claim("pro", .active, 30)], at: day(instant)).drift.map(\.explanation)
        }
        #expect(
            states == [
                "The device reads active; by the facts it is in its grace period since 2026-01-31T00:00:00.000Z "
                    + "(grace_period).",
                "The device reads active; by the facts it is in billing retry since 2026-02-06T00:00:00.000Z "
                    + "(billing_retry).",
            ], "since the state began, and neither access nor what was said last about it")
        let ends = Given(subscription("1", from: 0, to: 30)).facts.drift(
            from: [Self.claim("pro", .active, 31)], at: day(10)
        ).drift.map(\.explanation)
        #expect(
            ends == [
                "The device expects access to end on 2026-02-01T00:00:00.000Z; by the facts it ends on "
                    + "2026-01-31T00:00:00.000Z."
            ])
    }

    @Test(
        "a device that folds the same facts never drifts, at any instant", arguments: 0..<60 as Range<UInt64>)
    func consistent(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let given = random.given().with { $0.grants = [] }
        for _ in 0..<10 {
            let instant = random.instant(-2...60)
            // Each product as an entitlement of its own, as a device reads it.
            let names = Set(given.facts.originals.values.flatMap { $0.transactions.map(\.fact.productID) }).sorted()
            let mirror = given.facts
            var facts = mirror
            facts.catalog = Catalog(
                products: names.map {
                    CatalogProduct(productID: $0, entitlements: [$0], duration: mirror.catalog.product($0)?.duration)
                }, policy: mirror.catalog.policy)
            let claims = facts.answers(at: instant).map {
                DeviceClaim(productID: $0.entitlementID, state: $0.state, until: $0.until)
            }
            #expect(mirror.drift(from: claims, at: instant).drift.isEmpty, "seed \(seed)")
        }
    }
}
