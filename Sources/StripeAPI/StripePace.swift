package import EntitlementCore
import Synchronization

/// Spreads the requests of one process over time, so that others who use the same account are not shut out, and divides them
/// among those who wait for the answers.
///
/// A turn is given when it is there, to somebody who still wants it. So what is asked in vain takes nothing from anybody, and
/// however much is asked, as much as ever is sent.
///
/// Source: Stripe, "Rate limits": 100 requests a second in live mode and 25 in a sandbox, 25 of one endpoint.
package final class StripePace: Sendable {
    /// Who waits for an answer.
    ///
    /// Of what is sent, each has a share that others cannot take away; what one does not use is the others'.
    package enum Share: Int, Sendable, CaseIterable {
        /// Somebody who wants a page, a price, or to know what Stripe says now.
        case customers
        /// Stripe itself, for the answer to a webhook.
        case webhooks
        /// Nobody.
        case background

        /// Two fifths, two fifths and a fifth.
        fileprivate var weight: Int64 {
            switch self {
            case .customers, .webhooks: 2
            case .background: 1
            }
        }
    }

    private struct Waiter {
        let id: UInt64
        /// When a turn is of no use to it any more, in milliseconds since 1970.
        let until: Int64
        let turn: CheckedContinuation<Bool, any Error>
    }

    private struct State {
        /// When the next turn is; in milliseconds since 1970, as all times here.
        var next = Int64(0)
        /// Until when Stripe wants to be left alone.
        var blockedUntil = Int64.min
        var waiting = [[Waiter]](repeating: [], count: Share.allCases.count)
        /// How much each share has had, in parts that its weight makes smaller: whoever has had least comes first.
        var had = [Int64](repeating: 0, count: Share.allCases.count)
        /// What the share had that was served last: one that was idle until now has saved nothing up.
        var latest = Int64(0)
        var lastID = UInt64(0)
        var isServing = false
    }

    private let interval: Int64
    private let burst: Int64
    private let state = Mutex(State())

    package init(_ environment: StoreEnvironment) {
        switch environment {
        case .production: (interval, burst) = (50, 20)
        case .sandbox: (interval, burst) = (100, 10)
        }
    }

    // MARK: - Turns

    /// Waits for a turn, and takes it.
    ///
    /// - Parameter limit: how long it may wait.
    /// - Returns: `false` where none came in time, or none can come: then at once.
    /// - Throws: `CancellationError`.
    func turn(
        _ share: Share, within limit: Duration, _ surroundings: StripeClient.Surroundings
    ) async throws -> Bool {
        let now = surroundings.now().milliseconds
        let limit = Int64(limit / .milliseconds(1))
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (turn: CheckedContinuation<Bool, any Error>) in
                let (outcome, begins) = state.withLock { state -> (Result<Bool, any Error>?, Bool) in
                    // Under the lock, for whoever is cancelled later is found by the handler.
                    if Task.isCancelled { return (.failure(CancellationError()), false) }
                    heedClock(now, &state)
                    if state.waiting.allSatisfy(\.isEmpty), state.next <= now {
                        take(now, &state)
                        return (.success(true), false)
                    }
                    guard wait(of: share, state) <= limit else { return (.success(false), false) }
                    if state.waiting[share.rawValue].isEmpty {
                        state.had[share.rawValue] = max(state.had[share.rawValue], state.latest)
                    }
                    state.waiting[share.rawValue].append(Waiter(id: id, until: now + limit, turn: turn))
                    defer { state.isServing = true }
                    return (nil, !state.isServing)
                }
                if let outcome { turn.resume(with: outcome) }
                if begins { Task { await serve(surroundings) } }
            }
        } onCancel: {
            let waiter = state.withLock { state -> Waiter? in
                for share in state.waiting.indices {
                    guard let index = state.waiting[share].firstIndex(where: { $0.id == id }) else { continue }
                    return state.waiting[share].remove(at: index)
                }
                return nil
            }
            waiter?.turn.resume(throwing: CancellationError())
        }
    }

    /// Gives turns until nobody waits.
    private func serve(_ surroundings: StripeClient.Surroundings) async {
        while true {
            let pause = state.withLock { state -> Int64? in
                guard state.waiting.contains(where: { !$0.isEmpty }) else {
                    state.isServing = false
                    return nil
                }
                let now = surroundings.now().milliseconds
                heedClock(now, &state)
                return max(0, state.next - now)
            }
            guard let pause else { return }
            // The turn is there when this is over, whatever a clock says that was set meanwhile.
            if pause > 0 { try? await surroundings.sleep(.milliseconds(pause)) }
            let (served, late) = state.withLock { state in
                let now = surroundings.now().milliseconds
                var late: [Waiter] = []
                for share in state.waiting.indices {
                    late += state.waiting[share].filter { $0.until < now }
                    state.waiting[share].removeAll { $0.until < now }
                }
                let busy = Share.allCases.filter { !state.waiting[$0.rawValue].isEmpty }
                guard let share = busy.min(by: { state.had[$0.rawValue] < state.had[$1.rawValue] }) else {
                    return (Waiter?.none, late)
                }
                take(max(now, state.next), &state)
                state.latest = state.had[share.rawValue]
                state.had[share.rawValue] += Self.parts / share.weight
                return (state.waiting[share.rawValue].removeFirst(), late)
            }
            for waiter in late { waiter.turn.resume(returning: false) }
            served?.turn.resume(returning: true)
        }
    }

    /// Divisible by every weight.
    private static let parts: Int64 = 60

    private func take(_ now: Int64, _ state: inout State) {
        state.next = max(state.next, now - (burst - 1) * interval) + interval
    }

    /// A turn is never far ahead, but by a clock that was set back.
    private func heedClock(_ now: Int64, _ state: inout State) {
        if state.next > now + 2 * interval { state.next = now }
    }

    /// How long a newcomer would wait if all who wait now go on waiting, in milliseconds.
    private func wait(of share: Share, _ state: State) -> Int64 {
        let weights = Share.allCases.filter { $0 == share || !state.waiting[$0.rawValue].isEmpty }.map(\.weight)
        let own = Int64(state.waiting[share.rawValue].count + 1)
        return own * interval * weights.reduce(0, +) / share.weight
    }

    // MARK: - Being left alone

    /// Remembers that Stripe wants to be left alone.
    func block(until: Timestamp) {
        state.withLock { $0.blockedUntil = max($0.blockedUntil, until.milliseconds) }
    }

    /// Until when Stripe wants to be left alone; `nil` when it does not.
    func blocked(now: Timestamp) -> Timestamp? {
        state.withLock { state in
            let isAhead = state.blockedUntil > now.milliseconds
            guard isAhead, state.blockedUntil <= now.milliseconds + StripeAPIError.longestRetryAfter * 1000 else {
                state.blockedUntil = .min
                return nil
            }
            return Timestamp(milliseconds: state.blockedUntil)
        }
    }
}
