import Synchronization

/// What the simulated store sends as its clock goes on, and when each attempt to deliver it is due.
///
/// It knows no time of its own: whoever runs it says how far the store's clock has come, makes the attempts, and notes what
/// came of them.
package final class StoreDispatch: Sendable {
    /// How badly the way to the service treats what is sent.
    package struct Way: Sendable {
        package var style: DeliveryStyle
        package var seed: UInt64
        /// While this lasts nothing gets through, in milliseconds since 1970 at the store's clock.
        package var outage: Range<Int64>?

        package init(_ style: DeliveryStyle = .inOrder, seed: UInt64 = 0, outage: Range<Int64>? = nil) {
            (self.style, self.seed, self.outage) = (style, seed, outage)
        }
    }

    /// An attempt that is due, and gets as far as the service.
    package struct Attempt: Sendable, Equatable {
        package let payload: String
        /// When it is due, in milliseconds since 1970.
        package let instant: Int64
        /// Whether an earlier one failed.
        package let isRetry: Bool
        fileprivate let parcel: Int
    }

    /// One notification on its way.
    private struct Parcel: Sendable {
        let payload: String
        let environment: SimulatedStoreEnvironment
        /// How many more attempts are lost before they get anywhere.
        var losses = 0
    }

    private struct Due: Sendable {
        let instant: Int64
        /// Among those of one instant, in which order.
        let order: Int
        let parcel: Int
        let isRetry: Bool
    }

    /// What will be sent, and how it will arrive; without arrivals it never does.
    private struct Planned: Sendable {
        let notification: StoreNotification
        var arrivals: [Arrival] = []
    }

    private struct State: Sendable {
        var lives: OngoingLives
        /// Up to here what is sent has been planned.
        var plannedUntil: Int64
        /// In the order of signing, the earliest last.
        var planned: [Planned] = []
        var parcels: [Parcel] = []
        /// The earliest last.
        var due: [Due] = []
        var orders = 0
        var told = 0
        var batches: UInt64 = 0

        mutating func add(parcel: Int, at instant: Int64, isRetry: Bool = false) {
            orders += 1
            let new = Due(instant: instant, order: orders, parcel: parcel, isRetry: isRetry)
            var (low, high) = (0, due.count)
            while low < high {
                let middle = (low + high) / 2
                if (due[middle].instant, due[middle].order) > (new.instant, new.order) {
                    low = middle + 1
                } else {
                    high = middle
                }
            }
            due.insert(new, at: low)
        }
    }

    /// What is sent within so many milliseconds is shuffled, duplicated and dropped together.
    private static let batch = 7 * Span.day

    private let way: Way
    private let apis: [SimulatedStoreEnvironment: SimulatedStoreAPI]
    private let sign: @Sendable (StoreNotification) throws -> String
    private let state: Mutex<State>

    /// - Parameters:
    ///   - start: what was sent up to here is planned as a whole.
    ///   - apis: what is sent is remembered there, and what they send is delivered.
    ///   - sign: what the store signed for a notification; the same bytes each time.
    package init(
        _ lives: OngoingLives, from start: Int64, way: Way, apis: [SimulatedStoreEnvironment: SimulatedStoreAPI],
        sign: @escaping @Sendable (StoreNotification) throws -> String
    ) {
        self.way = way
        self.apis = apis
        self.sign = sign
        var first = State(lives: lives, plannedUntil: .min)
        Self.plan(&first, until: start + 1, way)
        state = Mutex(first)
    }

    private static func plan(_ state: inout State, until end: Int64, _ way: Way) {
        let notifications = state.lives.take(before: end)
        var planned = notifications.map { Planned(notification: $0) }
        for arrival in Delivery.plan(notifications, way.style, seed: way.seed &+ state.batches) {
            planned[arrival.index].arrivals.append(arrival)
        }
        state.planned = planned.reversed() + state.planned
        state.plannedUntil = end
        state.batches += 1
    }

    /// How many notifications of the lives were sent so far.
    package var sentCount: Int { state.withLock { $0.told } }

    /// Sends what the store sends up to an instant of its clock: the APIs know it from then on, and it is delivered.
    package func send(until instant: Int64) throws {
        try state.withLock { state in
            while true {
                while let next = state.planned.last, next.notification.signedDate <= instant {
                    try send(next, &state)
                    state.planned.removeLast()
                }
                guard state.plannedUntil <= instant else { break }
                Self.plan(&state, until: state.plannedUntil + Self.batch, way)
            }
            for (environment, api) in apis {
                for payload in api.takeUndelivered() {
                    state.parcels.append(Parcel(payload: payload, environment: environment))
                    state.add(parcel: state.parcels.count - 1, at: instant)
                }
            }
        }
    }

    private func send(_ planned: Planned, _ state: inout State) throws {
        let notification = planned.notification
        let payload = try sign(notification)
        apis[notification.environment]?.resend(notification, payload: payload)
        let prompt = notification.signedDate + Delivery.promptness
        let parcel = state.parcels.count
        // What never arrives is attempted as often as everything.
        let losses = planned.arrivals.first?.failures ?? .max
        state.parcels.append(Parcel(payload: payload, environment: notification.environment, losses: losses))
        state.told += 1
        // What fails at first comes again on the store's schedule.
        if losses > 0 { return state.add(parcel: parcel, at: prompt) }
        for arrival in planned.arrivals { state.add(parcel: parcel, at: arrival.instant) }
    }

    /// The next attempt that is due and reaches the service; those that get nowhere are noted on the way.
    ///
    /// - Parameter instant: how far the store's clock has come.
    package func nextAttempt(until instant: Int64) -> Attempt? {
        while true {
            let next = state.withLock {
                state -> (due: Due, payload: String, environment: SimulatedStoreEnvironment, isLost: Bool)? in
                guard let due = state.due.last, due.instant <= instant else { return nil }
                state.due.removeLast()
                let isLost = state.parcels[due.parcel].losses > 0
                if isLost, state.parcels[due.parcel].losses < .max { state.parcels[due.parcel].losses -= 1 }
                let isCutOff = way.outage?.contains(due.instant) ?? false
                let parcel = state.parcels[due.parcel]
                return (due, parcel.payload, parcel.environment, isLost || isCutOff)
            }
            guard let (due, payload, environment, isLost) = next else { return nil }
            // A copy may have come through meanwhile, or have been tried.
            if due.isRetry, apis[environment]?.course(of: payload)?.nextAttempt != due.instant { continue }
            let attempt = Attempt(
                payload: payload, instant: due.instant, isRetry: due.isRetry, parcel: due.parcel)
            guard isLost else { return attempt }
            note(.noResponse, of: attempt)
        }
    }

    /// Notes what came of an attempt: the store tries again later, or never.
    package func note(_ answer: DeliveryAnswer, of attempt: Attempt) {
        state.withLock { state in
            let environment = state.parcels[attempt.parcel].environment
            guard let next = apis[environment]?.note(answer, of: attempt.payload, at: attempt.instant) else { return }
            state.add(parcel: attempt.parcel, at: next, isRetry: true)
        }
    }
}
