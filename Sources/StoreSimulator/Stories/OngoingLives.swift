/// The lives of some customers, told on and on as time passes.
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

        mutating func tell(until instant: Int64) {
            storyteller.goOn(until: instant)
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
