import EntitlementCore
import Ledger
import Synchronization

/// What came of an attempt.
struct AttemptResult: Sendable {
    var outcome: DeliveryOutcome
    /// Why nothing is to be sent to the endpoint from now on; `nil` where it goes on.
    var pause: EndpointFact.Pause?
    /// Where the endpoint had last been resumed when it was tried.
    var resumedPosition: Int64?
}

/// What this process has under way, and what came of it.
final class DeliveriesUnderWay: Sendable {
    private struct State {
        var underWay: [String: Int] = [:]
        var count = 0
        var paces: DeliveryPaces
        var results: [AttemptResult] = []
        var left: [(endpoint: String, number: Int64, messageID: String)] = []
    }

    private let state: Mutex<State>
    /// Rung when there is a result to take.
    private let bell = Doorbell()

    /// - Parameter limit: the most that may be under way.
    init(limit: Int) { state = Mutex(State(paces: DeliveryPaces(limit: limit))) }

    /// The endpoints of which nothing more may be taken.
    func full() -> [String] { state.withLock { $0.paces.full(beside: $0.underWay) } }

    /// How many more may be taken of one that is not full.
    func room(of endpoint: String) -> Int {
        state.withLock { max(1, $0.paces.window(of: endpoint) - ($0.underWay[endpoint] ?? 0)) }
    }

    var count: Int { state.withLock { $0.count } }

    /// What was begun and not brought to its end.
    func takeLeft() -> [(endpoint: String, number: Int64, messageID: String)] {
        state.withLock { state in
            defer { state.left = [] }
            return state.left
        }
    }

    func begin(_ deliveries: [DueDelivery]) {
        state.withLock { state in
            for delivery in deliveries { state.underWay[delivery.endpoint, default: 0] += 1 }
            state.count += deliveries.count
        }
    }

    /// - Parameters:
    ///   - result: `nil` where it was not brought to its end.
    ///   - duration: of the attempt.
    func end(_ delivery: DueDelivery, _ result: AttemptResult?, after duration: Duration = .zero) {
        state.withLock { state in
            if let result { state.paces.note(delivery.endpoint, result.outcome.result, after: duration) }
            let others = (state.underWay[delivery.endpoint] ?? 1) - 1
            state.underWay[delivery.endpoint] = others > 0 ? others : nil
            state.count -= 1
            if let result {
                state.results.append(result)
            } else {
                state.left.append((delivery.endpoint, delivery.number, delivery.id))
            }
        }
        if result != nil { bell.ring() }
    }

    /// Returns when something came of an attempt since the last time, or when the task is cancelled; it is one task's.
    func waitForResults() async { await bell.wait() }

    func takeResults() -> [AttemptResult] {
        state.withLock { state in
            defer { state.results = [] }
            return state.results
        }
    }

    func giveBack(_ results: [AttemptResult]) {
        state.withLock { $0.results = results + $0.results }
        bell.ring()
    }
}
