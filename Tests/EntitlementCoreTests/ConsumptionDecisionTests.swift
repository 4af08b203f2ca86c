import Testing

@testable import EntitlementCore

@Suite("What the store is told of a refund request")
struct ConsumptionDecisionTests {
    private struct Row {
        let name: String
        let statements: [Statement]
        var transaction = "1"
        var asked = 45.0
        var preference: ConsumptionInformation.RefundPreference?
        var hasOwner = true
        var deliversConsumables = false
        /// `DELIVERED 50000 DECLINE`, or why nothing is told.
        let told: String
    }

    private static let season = oneTime("1", "season", .nonRenewing, at: 0)
    private static let pro = subscription("1", from: 0, to: 30)

    private static let rows: [Row] = [
        // Of a subscription the store reckons the share by itself, and refuses a number.
        Row(name: "running", statements: [pro], asked: 12, told: "DELIVERED -"),
        Row(name: "preference", statements: [pro], asked: 12, preference: .decline, told: "DELIVERED - DECLINE"),
        Row(
            name: "a part of a subscription", statements: [pro], asked: 12, preference: .grantProrated,
            told: "DELIVERED - GRANT_PRORATED"),
        Row(name: "over", statements: [pro], asked: 50, told: "DELIVERED -"),
        Row(
            name: "an earlier period", statements: [pro, subscription("2", from: 30, to: 60, .renewal)], asked: 40,
            told: "DELIVERED -"),
        // What runs by the catalog's ninety days is used up by time.
        Row(name: "half", statements: [season], told: "DELIVERED 50000"),
        Row(name: "rounded down", statements: [season], asked: 1, told: "DELIVERED 1111"),
        Row(name: "at once", statements: [season], asked: 0, told: "DELIVERED 0"),
        Row(name: "all of it", statements: [season], asked: 90, told: "DELIVERED 100000"),
        Row(name: "long over", statements: [season], asked: 1000, told: "DELIVERED 100000"),
        Row(
            name: "a part is given back of a part", statements: [season], preference: .grantProrated,
            told: "DELIVERED 50000 GRANT_PRORATED"),
        Row(
            name: "nothing is used", statements: [season], asked: 0, preference: .grantProrated, told: "DELIVERED 0"),
        Row(
            name: "all is used", statements: [season], asked: 95, preference: .grantProrated, told: "DELIVERED 100000"),
        Row(
            name: "all of it back", statements: [season], asked: 95, preference: .grantFull,
            told: "DELIVERED 100000 GRANT_FULL"),
        Row(
            name: "for ever", statements: [oneTime("1", "lifetime", .nonConsumable, at: 0)],
            preference: .grantProrated, told: "DELIVERED -"),
        // Whether coins were spent, or somebody was given what the catalog does not know, no fact says.
        Row(name: "coins", statements: [oneTime("1", "coins", .consumable, at: 0)], told: "delivery_unknown"),
        Row(
            name: "coins that the app hands out", statements: [oneTime("1", "coins", .consumable, at: 0)],
            preference: .decline, deliversConsumables: true, told: "DELIVERED - DECLINE"),
        Row(
            name: "a part of coins", statements: [oneTime("1", "coins", .consumable, at: 0)],
            preference: .grantProrated, deliversConsumables: true, told: "DELIVERED -"),
        Row(
            name: "coins of nobody", statements: [oneTime("1", "coins", .consumable, at: 0)], hasOwner: false,
            deliversConsumables: true, told: "delivery_unknown"),
        Row(
            name: "no coins", statements: [subscription("1", "unheard", from: 0, to: 30)], deliversConsumables: true,
            told: "delivery_unknown"),
        Row(
            name: "no entitlement", statements: [subscription("1", "unheard", from: 0, to: 30)],
            told: "delivery_unknown"),
        Row(name: "nobody's", statements: [pro], asked: 12, hasOwner: false, told: "delivery_unknown"),
        Row(
            name: "not begun", statements: [pro, subscription("2", from: 29, to: 60, .renewal)], transaction: "2",
            asked: 29.5, told: "delivery_unknown"),
        Row(name: "unknown", statements: [pro], transaction: "7", told: "unknown_transaction"),
        Row(name: "nothing", statements: [], told: "unknown_transaction"),
        Row(
            name: "refunded", statements: [subscription("1", from: 0, to: 30, signed: 20, revoked: 20)],
            told: "refunded"),
        Row(
            name: "refund taken back",
            statements: [
                subscription("1", from: 0, to: 30, signed: 20, revoked: 20),
                subscription("1", from: 0, to: 30, signed: 22),
            ], asked: 25, told: "DELIVERED -"),
        Row(
            name: "family", statements: [pro.with { $0.ownership = .known(.familyShared) }], asked: 12,
            told: "family_shared"),
        Row(
            name: "assigned", statements: [pro.with { $0.ownership = .unknown("ASSIGNED") }], asked: 12,
            told: "unsupported"),
        Row(name: "ownership not told", statements: [pro.with { $0.ownership = nil }], asked: 12, told: "DELIVERED -"),
        Row(name: "no kind", statements: [pro.with { $0.kind = nil }], asked: 12, told: "unsupported"),
        Row(
            name: "another kind", statements: [pro.with { $0.kind = .unknown("Gift") }], asked: 12, told: "unsupported"),
    ]

    @Test("each fact decides what is told, and what cannot be known is not said", arguments: rows.indices)
    func table(index: Int) {
        let row = Self.rows[index]
        let decision = OriginalState(row.statements).consumption(
            of: row.transaction, askedAt: day(row.asked), catalog: Catalog(products: products), hasOwner: row.hasOwner,
            policy: ConsumptionPolicy(
                sampleContentProvided: true, refundPreference: row.preference,
                deliversConsumables: row.deliversConsumables))
        switch decision {
        case .tell(let told):
            #expect(told.sampleContentProvided)
            let share = told.consumptionPercentage.map { "\($0)" } ?? "-"
            let words = [told.deliveryStatus.rawValue, share, told.refundPreference?.rawValue].compactMap(\.self)
            #expect(words.joined(separator: " ") == row.told, "\(row.name)")
        case .withhold(let reason): #expect(reason.rawValue == row.told, "\(row.name)")
        }
    }

    @Test("the longest and the strangest times give a share, never a trap")
    func extremes() {
        let catalog = Catalog(products: [
            CatalogProduct(
                productID: "season", entitlements: ["premium"], duration: CalendarDuration(iso8601: "P7000Y"))
        ])
        for (from, asked) in [(Timestamp.earliest, Timestamp.latest), (day(0), .latest), (day(0), .earliest)] {
            let bought = oneTime("1", "season", .nonRenewing, at: 0).with { $0.purchaseDate = from }
            let decision = OriginalState([bought]).consumption(
                of: "1", askedAt: asked, catalog: catalog, hasOwner: true,
                policy: ConsumptionPolicy(sampleContentProvided: false))
            if case .tell(let told) = decision, let share = told.consumptionPercentage {
                #expect(ConsumptionInformation.percentageRange.contains(share))
            }
        }
    }
}
