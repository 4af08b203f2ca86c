import SeededRandom

/// One arrival of an event.
package struct WebArrival: Sendable, Equatable {
    /// The place of the event in the list that was planned.
    package let index: Int
    /// When it arrives, in milliseconds since 1970.
    package let instant: Int64
    /// The version of the endpoint that it comes to.
    package let shape: StripeShape
    /// How many endpoints have not taken it yet.
    package let pending: Int64
    package let isThin: Bool
}

/// Plans in which order, how often, when and in which shape events arrive; equal seeds give equal plans.
package enum WebDelivery {
    /// The hours after a failed attempt at which Stripe tries again, in live mode.
    static let retryHours: [Int64] = [1, 2, 4, 8, 16, 24]

    /// What a plan may do beside putting events into another order.
    package struct Habits: Sendable {
        /// Both versions come, one endpoint having each.
        package var mixesShapes = true
        /// Which events may come without their object.
        package var mayBeThin: @Sendable (StripeEventEntry) -> Bool = { _ in false }

        package init() {}
    }

    package static func plan(
        _ events: [StripeEventEntry], _ style: DeliveryStyle, habits: Habits = Habits(), seed: UInt64
    ) -> [WebArrival] {
        var random = SplitMix64(seed: seed ^ 0x5742)
        let only = random.pick(StripeShape.allCases)
        func arrival(_ random: inout SplitMix64, _ index: Int, at instant: Int64) -> WebArrival {
            WebArrival(
                index: index, instant: instant, shape: habits.mixesShapes ? random.pick(StripeShape.allCases) : only,
                pending: random.number(in: 0...3), isThin: habits.mayBeThin(events[index]) && random.chance(30))
        }
        let prompt = events.indices.map { index in
            (index: index, instant: events[index].created + random.number(in: 300...4000))
        }
        var planned: [(index: Int, instant: Int64)]
        switch style {
        case .inOrder: planned = prompt
        case .shuffled: planned = inNewOrder(random.shuffled(prompt), times: prompt)
        case .duplicated:
            planned = prompt.flatMap {
                Array(repeating: $0, count: random.chance(50) ? Int(random.number(in: 2...3)) : 1)
            }
        case .delayed:
            planned = prompt.map { one in
                let failures = random.chance(33) ? Int(random.number(in: 1...Int64(retryHours.count))) : 0
                return (one.index, one.instant + retryHours.prefix(failures).reduce(0, +) * Span.hour)
            }.sorted { ($0.instant, $0.index) < ($1.instant, $1.index) }
        case .chaotic:
            let many = prompt.flatMap { Array(repeating: $0, count: Int(random.number(in: 1...3))) }
            planned = inNewOrder(random.shuffled(many), times: many)
        case .lossy: planned = prompt.filter { _ in !random.chance(12) }
        }
        return planned.map { arrival(&random, $0.index, at: $0.instant) }
    }

    /// The arrivals in a new order, at the same instants as the old ones, but none before its event.
    private static func inNewOrder(
        _ arrivals: [(index: Int, instant: Int64)], times: [(index: Int, instant: Int64)]
    ) -> [(index: Int, instant: Int64)] {
        var latest = Int64.min
        return arrivals.enumerated().map { place, arrival in
            latest = max(latest, arrival.instant, times[place].instant)
            return (arrival.index, latest)
        }
    }
}
