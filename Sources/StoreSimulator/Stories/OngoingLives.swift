/// The lives of some customers, told on and on as time passes, and of a tester in the sandbox.
///
/// Equal seeds, customers and instants give equal lives, however they are taken.
package struct OngoingLives: Sendable {
    private var tellers: [Teller]

    private struct Teller: Sendable {
        let seed: UInt64
        var storyteller: Storyteller
        /// What was told and not taken yet; in the order of signing, the earliest last.
        var waiting: [StoreNotification] = []
        var toldCount = 0
        var tester: SandboxTester?

        mutating func tell(until instant: Int64) {
            if tester == nil { storyteller.goOn(until: instant) }
            tester?.test(with: &storyteller, until: instant)
            let news = storyteller.notifications.dropFirst(toldCount)
            toldCount = storyteller.notifications.count
            guard !news.isEmpty else { return }
            waiting = (waiting + news).enumerated()
                .sorted { ($0.element.signedDate, -$0.offset) > ($1.element.signedDate, -$1.offset) }.map(\.element)
        }
    }

    /// - Parameters:
    ///   - seed: of the first life; each further one takes the next.
    ///   - instant: the lives' stories lead up to it, as those of `StoreLife.recent` do; then they go on.
    package init(seed: UInt64, customers: Int, instant: Int64) {
        tellers = StoreLife.recent(seed: seed, customers: customers, until: instant).map { life in
            var storyteller = Storyteller(world: life.world, seed: life.seed)
            storyteller.quirks = .some
            storyteller.latency = 20 * Span.second
            storyteller.inventCustomer()
            return Teller(seed: life.seed, storyteller: storyteller)
        }
        tellers.append(
            Teller(
                seed: SandboxTester.seed, storyteller: SandboxTester.storyteller,
                tester: SandboxTester(from: instant + 10 * Span.minute)))
    }

    /// What was sent before an instant, and was not taken yet; in the order of signing.
    package mutating func take(before instant: Int64) -> [StoreNotification] {
        var taken: [StoreNotification] = []
        for index in tellers.indices {
            tellers[index].tell(until: instant)
            while let next = tellers[index].waiting.last, next.signedDate < instant {
                taken.append(next)
                tellers[index].waiting.removeLast()
            }
        }
        return taken.enumerated().sorted { ($0.element.signedDate, $0.offset) < ($1.element.signedDate, $1.offset) }
            .map(\.element)
    }

    /// The lives of which everything that was told has been taken: whoever heard it knows what their record says.
    package var settled: [StoreLife] {
        tellers.filter(\.waiting.isEmpty).map { StoreLife($0.storyteller, seed: $0.seed) }
    }
}

/// Somebody who tries the app in the sandbox, an hour each day: a subscription that is renewed in no time, and ends.
private struct SandboxTester: Sendable {
    /// None of a customer's: theirs end below it.
    static let seed: UInt64 = 999_999
    /// How often the sandbox renews a subscription before it expires.
    private static let renewals = 12

    private var next: Int64
    private var key: SimulatedOriginalKey?

    /// - Parameter instant: when the first test begins.
    init(from instant: Int64) { next = instant }

    /// The sandbox takes a month for five minutes.
    static var storyteller: Storyteller {
        var world = StoreWorld.standard
        world.products = world.products.map { product in
            product.id == StoreWorld.ProductID.proMonthly
                ? .subscription(
                    product.id, group: product.groupID ?? "", level: 1, period: "PT5M", price: product.price)
                : product
        }
        return Storyteller(world: world, seed: seed)
    }

    mutating func test(with storyteller: inout Storyteller, until instant: Int64) {
        while next < instant {
            if let key {
                storyteller.resubscribe(key, at: next)
            } else {
                key = storyteller.subscribe(
                    storyteller.account(.sandbox), to: StoreWorld.ProductID.proMonthly, at: next)
            }
            next += Span.day
            guard let key else { return }
            for _ in 0..<Self.renewals { storyteller.renew(key) }
            if let end = storyteller.expiry(key) { storyteller.expire(key, "VOLUNTARY", at: end) }
        }
    }
}
