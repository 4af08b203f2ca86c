/// A short story with a known end: one path through the rules, told without chance.
///
/// Every scenario begins on 1 January 2026 at midnight UTC, in the standard world unless it is about the policy.
package struct Scenario: Sendable {
    /// Its name, in snake case.
    package let name: String
    /// The world it takes place in.
    package let world: StoreWorld
    private let tell: @Sendable (inout Storyteller) -> Void

    init(
        _ name: String, policy: (inout SimulatedAccessPolicy) -> Void = { _ in },
        tell: @escaping @Sendable (inout Storyteller) -> Void
    ) {
        self.name = name
        world = StoreWorld.standard.with(policy: policy)
        self.tell = tell
    }

    /// Tells the story.
    ///
    /// The seed changes ids and nothing else, so that one ledger can hold a scenario many times.
    package func life(seed: UInt64 = 1) -> StoreLife {
        var storyteller = Storyteller(world: world, seed: seed)
        tell(&storyteller)
        return StoreLife(storyteller, seed: seed)
    }

    /// All scenarios; the names are distinct.
    package static let all = subscriptions + billing + refunds + ownership + oneTime + statements

    /// The scenario of that name.
    package static func named(_ name: String) -> Scenario? {
        all.first { $0.name == name }
    }

    /// The usual customer.
    package static let ann = StoreAccount(
        .production, appAccountToken: "aaaaaaaa-0000-4000-8000-000000000001", appTransactionID: "700000000000000001")
    /// A second customer.
    package static let bob = StoreAccount(
        .production, appAccountToken: "bbbbbbbb-0000-4000-8000-000000000002", appTransactionID: "700000000000000002")

    /// An instant of 2026 in UTC.
    static func on(_ month: Int, _ day: Int, _ hour: Int = 0, _ minute: Int = 0, _ second: Int = 0) -> Int64 {
        SimulatedCalendar.instant(2026, month, day, hour, minute, second)
    }

    static let news = StoreWorld.ProductID.newsMonthly
}
