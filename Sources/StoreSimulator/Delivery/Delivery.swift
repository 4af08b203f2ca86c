import SeededRandom

/// How the way from the store to the server treats notifications.
package enum DeliveryStyle: String, Sendable, CaseIterable {
    /// Each arrives once, at once, in the order it was signed.
    case inOrder = "in_order"
    /// Each arrives once, in any order.
    case shuffled
    /// In the order it was signed, but about half arrive twice or more.
    case duplicated
    /// About a third of production's fail at first and come again on the store's schedule: after 1, 12, 24, 48 or 72 more
    /// hours. The sandbox tries once, so nothing of it fails.
    case delayed
    /// Shuffled and duplicated at once, whatever the schedule says.
    case chaotic
    /// About one in eight never arrives.
    case lossy
}

/// One arrival of a notification.
package struct Arrival: Sendable, Equatable {
    /// The place of the notification in the list that was planned.
    package let index: Int
    /// The instant at which it arrives.
    package let instant: Int64
    /// How many attempts to deliver it failed before.
    package var failures = 0
}

/// Plans in which order, how often and when notifications arrive; equal seeds give equal plans.
package enum Delivery {
    /// How long after the signing the store makes its first attempt, in milliseconds.
    static let promptness: Int64 = 200

    /// The arrivals of a list of notifications, in the order in which they arrive.
    package static func plan(
        _ notifications: [StoreNotification], _ style: DeliveryStyle, seed: UInt64
    ) -> [Arrival] {
        var random = SplitMix64(seed: seed)
        let prompt = notifications.indices
            .map { Arrival(index: $0, instant: notifications[$0].signedDate + promptness) }
            .sorted(by: isBefore)
        switch style {
        case .inOrder:
            return prompt
        case .shuffled:
            return inNewOrder(random.shuffled(prompt), times: prompt)
        case .duplicated:
            return prompt.flatMap { arrival in
                Array(repeating: arrival, count: random.chance(50) ? Int(random.number(in: 2...3)) : 1)
            }
        case .delayed:
            return prompt.map { arrival in
                let most = Int64(DeliveryCourse.retryHours.count)
                let wanted = random.chance(33) ? Int(random.number(in: 1...most)) : 0
                var course = DeliveryCourse(notifications[arrival.index].environment)
                var instant = arrival.instant
                let failures = min(wanted, course.mostRetries)
                for _ in 0..<failures {
                    course.note(.noResponse, at: instant)
                    instant = course.nextAttempt ?? instant
                }
                return Arrival(index: arrival.index, instant: instant, failures: failures)
            }.sorted(by: isBefore)
        case .chaotic:
            let many = prompt.flatMap { Array(repeating: $0, count: Int(random.number(in: 1...3))) }
            return inNewOrder(random.shuffled(many), times: many)
        case .lossy:
            return prompt.filter { _ in !random.chance(12) }
        }
    }

    private static func isBefore(_ left: Arrival, _ right: Arrival) -> Bool {
        (left.instant, left.index) < (right.instant, right.index)
    }

    /// The arrivals in a new order, at the same instants as the old ones, but never before anything was signed.
    private static func inNewOrder(_ arrivals: [Arrival], times: [Arrival]) -> [Arrival] {
        var latest = Int64.min
        return arrivals.enumerated().map { place, arrival in
            latest = max(latest, arrival.instant, times[place].instant)
            return Arrival(index: arrival.index, instant: latest)
        }
    }
}
