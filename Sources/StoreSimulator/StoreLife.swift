import SeededRandom

/// A told life: what the store sent, and what is true.
package struct StoreLife: Sendable {
    /// The seed it was made from.
    package let seed: UInt64
    /// The world it took place in.
    package let world: StoreWorld
    /// What the store sent, in the order of signing.
    package let notifications: [StoreNotification]
    /// The truth, told while the life was invented.
    package let record: Record

    /// Closes a story.
    package init(_ storyteller: Storyteller, seed: UInt64) {
        self.seed = seed
        world = storyteller.world
        record = storyteller.record
        notifications = storyteller.notifications.enumerated()
            .sorted { ($0.element.signedDate, $0.offset) < ($1.element.signedDate, $1.offset) }
            .map(\.element)
    }

    /// The lives of some customers, made up at random; equal seeds and worlds give equal lives.
    ///
    /// Transaction ids of seeds that differ modulo a million never meet, so several lives fit into one ledger.
    package static func random(
        seed: UInt64, world: StoreWorld = .standard, customers: Int = 1, quirks: Quirks = .some
    ) -> StoreLife {
        var storyteller = Storyteller(world: world, seed: seed)
        storyteller.quirks = quirks
        storyteller.latency = 20 * Span.second
        for _ in 0..<customers { storyteller.inventCustomer() }
        return StoreLife(storyteller, seed: seed)
    }
}

extension Storyteller {
    /// One Apple account with everything it buys.
    mutating func inventCustomer() {
        let environment: SimulatedStoreEnvironment = random.chance(15) ? .sandbox : .production
        let account = account(environment, hasToken: !random.chance(20))
        let start = world.start + random.number(in: 0...60 * Span.day)
        let first = inventSubscription(account, group: random.pick(Self.groups), at: start)
        if random.chance(40) {
            inventSubscription(
                account, group: random.pick(Self.groups), at: start + random.number(in: 1...200 * Span.day))
        }
        if random.chance(40) { inventOneTimePurchases(account, at: start + random.number(in: 1...300 * Span.day)) }
        if random.chance(20) { inventFamilyMember(at: start + random.number(in: 1...90 * Span.day)) }
        if random.chance(10) { inventNamesake(of: first, account, at: start) }
        inventNoise(account, at: start)
    }

    static let groups: [[String]] = [
        [
            StoreWorld.ProductID.proMonthly, StoreWorld.ProductID.proYearly, StoreWorld.ProductID.studioMonthly,
            StoreWorld.ProductID.plusMonthly,
        ],
        [StoreWorld.ProductID.newsMonthly, StoreWorld.ProductID.newsBundleYearly],
    ]

    /// A subscription from its first payment to wherever its story leads.
    @discardableResult
    mutating func inventSubscription(
        _ account: StoreAccount, group: [String], at start: Int64
    ) -> SimulatedOriginalKey {
        let offer: SimulatedStoreOffer? = random.chance(30) ? random.pick([.freeTrial, .payUpFront, .offerCode]) : nil
        let key = subscribe(
            account, to: random.pick(group), at: start, offer: offer, statesReason: !random.chance(10),
            hasLineItem: !random.chance(10))
        var plot = Plot(key: key, group: group, mayChangeHands: account.appAccountToken != nil)
        for _ in 0..<random.number(in: 1...9) where !plot.isOver {
            liveThroughPeriod(&plot)
            if !plot.isOver { endPeriod(&plot) }
        }
        return key
    }

    mutating func inventOneTimePurchases(_ account: StoreAccount, at start: Int64) {
        var instant = start
        for _ in 0..<random.number(in: 1...4) {
            let key = buy(
                account,
                random.pick([
                    StoreWorld.ProductID.lifetime, StoreWorld.ProductID.coins, StoreWorld.ProductID.dayPass,
                    StoreWorld.ProductID.season, StoreWorld.ProductID.season, StoreWorld.ProductID.term,
                    StoreWorld.ProductID.openSeason, StoreWorld.ProductID.mystery,
                ]), at: instant)
            if random.chance(25) {
                let date = instant + random.number(in: Span.hour...60 * Span.day)
                requestConsumption(key, at: date)
                refund(key, at: date + Span.day, prorated: random.chance(30) ? 40_000 : nil)
                if random.chance(40) { reverseRefund(key, at: date + 9 * Span.day) }
            }
            instant += random.number(in: Span.hour...60 * Span.day)
        }
    }

    private mutating func inventFamilyMember(at start: Int64) {
        let member = account(.production, hasToken: false)
        let key = subscribe(member, to: StoreWorld.ProductID.proMonthly, at: start, familyShared: true)
        for _ in 0..<random.number(in: 0...4) { renew(key) }
        guard random.chance(60), let end = expiry(key) else { return }
        endSharing(key, at: end - random.number(in: Span.day...20 * Span.day))
        if random.chance(40) { resubscribe(key, at: end + random.number(in: Span.day...30 * Span.day)) }
    }

    /// The other environment's purchase that happens to bear the same ids.
    mutating func inventNamesake(of key: SimulatedOriginalKey, _ account: StoreAccount, at start: Int64) {
        var other = account
        other.environment = key.environment == .production ? .sandbox : .production
        let twin = subscribe(
            other, to: StoreWorld.ProductID.plusMonthly, at: start + random.number(in: 1...30 * Span.day),
            originalTransactionID: key.originalTransactionID)
        renew(twin)
    }

    private mutating func inventNoise(_ account: StoreAccount, at start: Int64) {
        if random.chance(15) { sendTest(account.environment, at: start + random.number(in: 1...Span.day)) }
        if random.chance(10) { summariseExtension(account.environment, at: start + Span.day) }
        if random.chance(10) { sendExternalPurchaseToken(account.environment, at: start + 2 * Span.day) }
        if random.chance(10) { rescindConsent(account, at: start + 3 * Span.day) }
    }
}
