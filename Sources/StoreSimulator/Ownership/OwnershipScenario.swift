/// A short story of several customers with a known end.
///
/// Every scenario begins on 1 January 2026 at midnight UTC, in the standard world.
package struct OwnershipScenario: Sendable {
    /// Its name, in snake case.
    package let name: String
    private let tell: @Sendable (inout OwnershipStoryteller, OwnershipCast) -> Void

    init(_ name: String, tell: @escaping @Sendable (inout OwnershipStoryteller, OwnershipCast) -> Void) {
        self.name = name
        self.tell = tell
    }

    /// Tells the story.
    ///
    /// The seed changes ids and names and nothing else: worlds of different seeds have nothing in common, so that one
    /// ledger can hold them all.
    package func world(seed: UInt64 = 1) -> OwnershipWorld {
        var storyteller = OwnershipStoryteller(world: .standard, seed: seed)
        tell(&storyteller, OwnershipCast(seed: seed))
        return OwnershipWorld(seed: seed, storyteller)
    }

    /// All scenarios; the names are distinct.
    package static let all = claims + links + transfers + grants

    /// The scenario of that name.
    package static func named(_ name: String) -> OwnershipScenario? {
        all.first { $0.name == name }
    }

    /// An instant of 2026 in UTC.
    static func on(_ month: Int, _ day: Int, _ hour: Int = 0) -> Int64 { Scenario.on(month, day, hour) }

    static let news = StoreWorld.ProductID.newsMonthly
    static let newsBundle = StoreWorld.ProductID.newsBundleYearly
    static let lifetime = StoreWorld.ProductID.lifetime
}

/// Who plays in a scenario.
package struct OwnershipCast: Sendable {
    /// A login and an Apple account of her own.
    package let ann: StoreAccount
    /// Another login with another Apple account.
    package let bob: StoreAccount
    /// Somebody whom the app knows by an id of its own.
    package let cleo: CustomerKey
    /// Another of that kind.
    package let dan: CustomerKey

    /// The cast of the worlds of that seed.
    package init(seed: UInt64) {
        let digits = String(seed % 1_000_000)
        let number = String(repeating: "0", count: 6 - digits.count) + digits
        ann = StoreAccount(
            .production, appAccountToken: "aaaaaaaa-0000-4000-8000-000000\(number)",
            appTransactionID: "701\(number)000000001")
        bob = StoreAccount(
            .production, appAccountToken: "bbbbbbbb-0000-4000-8000-000000\(number)",
            appTransactionID: "702\(number)000000002")
        cleo = CustomerKey(.production, "c-cleo-\(number)")
        dan = CustomerKey(.production, "c-dan-\(number)")
    }

    /// An old purchase's account, of which statements say nothing.
    package let nobody = StoreAccount(.production, appAccountToken: nil, appTransactionID: nil)

    /// The login's customer.
    package var annLogin: CustomerKey { login(ann) }
    /// The login's customer.
    package var bobLogin: CustomerKey { login(bob) }
    /// Her Apple account's default customer.
    package var annApple: CustomerKey { CustomerKey(.production, "apple:\(annAppleID)") }
    /// His Apple account's default customer.
    package var bobApple: CustomerKey { CustomerKey(.production, "apple:\(bobAppleID)") }

    var annToken: String { ann.appAccountToken ?? "" }
    var bobToken: String { bob.appAccountToken ?? "" }
    var annAppleID: String { ann.appTransactionID ?? "" }
    var bobAppleID: String { bob.appTransactionID ?? "" }

    /// The same Apple account without a login.
    func guest(_ account: StoreAccount) -> StoreAccount {
        StoreAccount(account.environment, appAccountToken: nil, appTransactionID: account.appTransactionID)
    }

    private func login(_ account: StoreAccount) -> CustomerKey {
        CustomerKey(.production, account.appAccountToken ?? "")
    }
}
