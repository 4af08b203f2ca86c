import Synchronization

// How much the store answers, and what it says of its deliveries.
extension SimulatedStoreAPI {
    /// More was asked than the store answers in an hour.
    struct LimitReached: Error {
        /// When it answers again, in milliseconds since 1970.
        let until: Int64
    }

    /// Requests a second of each kind in production, where it is not 50; the sandbox answers a tenth.
    ///
    /// Source: Apple, "Identifying rate limits".
    private static let perSecond = [
        "extend": 20, "app_account_token": 20, "refunds": 10, "test_notification": 1, "test_notification_status": 1,
    ]

    /// Refuses what is above the store's limits of an hour from now on, as the store does; else it only counts.
    ///
    /// - Parameter hourly: other limits than the store's, by kind of request.
    package func holdLimits(_ hourly: [String: Int] = [:]) {
        state.withLock { ($0.holdsLimits, $0.hourlyLimits) = (true, hourly) }
    }

    /// Counts a request.
    ///
    /// - Throws: `LimitReached` where it is one too many, and those are refused.
    func count(_ kind: String) throws(LimitReached) {
        let now = wallClock()
        let usual = Self.perSecond[kind, default: 50] * 3600 / (environment == .production ? 1 : 10)
        let until = state.withLock { state -> Int64? in
            let asked = state.asked[kind] ?? []
            let limit = state.hourlyLimits[kind] ?? usual
            // The limit's oldest request has to be an hour old.
            if state.holdsLimits, asked.count >= limit, asked[asked.count - limit] > now - Span.hour {
                return asked[asked.count - limit] + Span.hour
            }
            state.asked[kind, default: []].append(now)
            return nil
        }
        if let until { throw LimitReached(until: until) }
    }

    /// The most requests that were answered at the same time.
    package var mostInFlight: Int { state.withLock { $0.mostInFlight } }

    /// Lets the next answers wait until so many requests are there at the same time, for ten seconds at most; then all are
    /// answered as they come.
    package func gather(_ count: Int) { state.withLock { $0.gathered = count } }

    /// Waits until as many requests are there as are to be.
    func waitForOthers() async throws {
        for _ in 0..<2000 {
            let isEnough = state.withLock { state in
                if state.inFlight >= state.gathered { state.gathered = 0 }
                return state.gathered == 0
            }
            if isEnough { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        gather(0)
    }

    /// How many pages of the history were given, and how many of them had been given before.
    package var pagesGiven: (all: Int, again: Int) {
        state.withLock { state in
            (state.pages.values.reduce(0, +), state.pages.values.reduce(0) { $0 + $1 - 1 })
        }
    }

    /// Says of each notification what became of it, from now on; until then test notifications are said to have been
    /// delivered, and nothing of others.
    package func reportAttempts() { state.withLock { $0.reportsAttempts = true } }

    /// Notes what came of an attempt to deliver a payload.
    ///
    /// - Parameter instant: when it was made, in milliseconds since 1970; else now.
    /// - Returns: when the store makes the next attempt; `nil` where it makes none.
    @discardableResult
    package func note(_ answer: DeliveryAnswer, of payload: String, at instant: Int64? = nil) -> Int64? {
        let instant = instant ?? now()
        return state.withLock { state in
            guard state.archives[environment]?.course(of: payload)?.isOver == false else { return nil }
            state.archives[environment]?.note(answer, of: payload, at: instant)
            return state.archives[environment]?.course(of: payload)?.nextAttempt
        }
    }

    /// The attempts to deliver a payload; `nil` where it was never sent.
    package func course(of payload: String) -> DeliveryCourse? {
        state.withLock { $0.archives[environment]?.course(of: payload) }
    }

    /// How many notifications were tried to be delivered, and were not so far.
    package var failedCount: Int { archive.sent.count(where: \.hasFailed) }

    /// What was sent because somebody asked for it, and was not taken yet, to be delivered.
    func takeUndelivered() -> [String] {
        state.withLock { state in
            defer { state.undelivered = [] }
            return state.undelivered
        }
    }

    /// Answers 500 to whoever asks for a page with what was sent at one of these instants.
    package func spoil(_ instants: [Int64]) { state.withLock { $0.badInstants = instants } }

    /// Lists nothing of what it sent, or everything again.
    package func listNothing(_ isSo: Bool) { state.withLock { $0.listsNothing = isSo } }
}
