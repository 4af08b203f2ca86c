import PostgresClient
import Synchronization

/// The requests that wait for a writer, and the batches in flight: being written, not yet committed.
///
/// Requests come from any thread; one loop takes them.
final class AppendQueue: Sendable {
    /// A batch in flight: being written, and not committed yet.
    struct Flight: Sendable {
        let number: Int
        let requests: Int
        /// The batch before it, if that was in flight as well.
        let previous: TransactionTurn?
        let turn = TransactionTurn()
    }

    /// How the flight of a batch ended.
    enum Landing: Sendable {
        case committed
        /// It has to be decided under the head's lock; nothing was written.
        case undecided
        /// It was not committed, or nobody knows: then `inDoubt` is what may have been.
        case failed(inDoubt: AppendPlan?)
    }

    /// A batch that has to be written again.
    struct Returned: Sendable {
        let number: Int
        let waiters: [LedgerWriter.Waiter]
        /// Whether writing it failed, so that the assumptions it was decided on may be wrong.
        var hasFailed = false
        var inDoubt: AppendPlan?
    }

    enum Step: Sendable {
        case batch([LedgerWriter.Waiter])
        /// In the order in which they were taken; nothing is in flight.
        case returned([Returned])
        /// Nothing is left to do; the loop ends.
        case done
    }

    enum Admission {
        case waits
        /// There is no loop: the caller starts it.
        case isFirst
        case isTooMany(waiting: Int)
    }

    private struct State {
        var waiting: [LedgerWriter.Waiter] = []
        var isRunning = false
        var flights: [(flight: Flight, isDecided: Bool)] = []
        var returned: [Returned] = []
        var taken = 0
        /// The loop, where it waits for something to do, or for all flights to land.
        var loop: (continuation: CheckedContinuation<Void, Never>, untilLanded: Bool)?
        var drained: [CheckedContinuation<Void, Never>] = []
    }

    /// Two, so that one is written while the one before is committed.
    private static let mostFlights = 2
    /// From how many requests on a batch is worth being written beside another.
    private static let leastBeside = 16

    private let limits: LedgerWriter.Limits
    private let state = Mutex(State())

    init(limits: LedgerWriter.Limits) { self.limits = limits }

    func enqueue(_ waiter: LedgerWriter.Waiter) -> Admission {
        let (admission, loop) = state.withLock { state -> (Admission, CheckedContinuation<Void, Never>?) in
            guard state.waiting.count < limits.waiting else { return (.isTooMany(waiting: state.waiting.count), nil) }
            state.waiting.append(waiter)
            guard state.isRunning else {
                state.isRunning = true
                return (.isFirst, nil)
            }
            return (.waits, awakened(&state))
        }
        loop?.resume()
        return admission
    }

    /// Waits for something to do.
    ///
    /// - Parameter isAhead: whether the next batches are written ahead of the head, two at a time.
    func next(isAhead: Bool) async -> Step {
        while true {
            if let step = state.withLock({ step(&$0, isAhead: isAhead) }) { return step }
            await wait(untilLanded: false)
        }
    }

    /// Waits until nothing is in flight.
    func landing() async {
        while state.withLock({ !$0.flights.isEmpty }) { await wait(untilLanded: true) }
    }

    /// Puts a batch behind those that have to be written again; `false`, and nothing is done, when there are none.
    func give(back batch: [LedgerWriter.Waiter]) -> Bool {
        state.withLock { state in
            guard !state.returned.isEmpty else { return false }
            state.taken += 1
            state.returned.append(Returned(number: state.taken, waiters: batch))
            return true
        }
    }

    func takeOff(_ batch: [LedgerWriter.Waiter]) -> Flight {
        state.withLock { state in
            state.taken += 1
            let flight = Flight(
                number: state.taken, requests: batch.count, previous: state.flights.last?.flight.turn)
            state.flights.append((flight, false))
            return flight
        }
    }

    /// It is known where a flight is going to leave the log, so that the next can go on from there.
    ///
    /// The flight has its connection by then, so the next one cannot take the pool's last connection from it.
    func isDecided(_ flight: Flight) {
        let loop = state.withLock { state in
            guard let index = state.flights.firstIndex(where: { $0.flight.number == flight.number }) else {
                return nil as CheckedContinuation<Void, Never>?
            }
            state.flights[index].isDecided = true
            return awakened(&state)
        }
        loop?.resume()
    }

    func land(_ flight: Flight, _ batch: [LedgerWriter.Waiter], _ landing: Landing) {
        let loop = state.withLock { state in
            state.flights.removeAll { $0.flight.number == flight.number }
            switch landing {
            case .committed: break
            case .undecided: state.returned.append(Returned(number: flight.number, waiters: batch))
            case .failed(let inDoubt):
                state.returned.append(
                    Returned(number: flight.number, waiters: batch, hasFailed: true, inDoubt: inDoubt))
            }
            return awakened(&state)
        }
        loop?.resume()
    }

    /// Waits until nothing is waiting or under way.
    func drain() async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                guard state.isRunning else { return true }
                state.drained.append(continuation)
                return false
            }
            if isIdle { continuation.resume() }
        }
    }

    // MARK: - The loop

    private func step(_ state: inout State, isAhead: Bool) -> Step? {
        if !state.returned.isEmpty {
            // What is still in flight rests on what failed, and will fail as well.
            guard state.flights.isEmpty else { return nil }
            defer { state.returned = [] }
            return .returned(state.returned.sorted { $0.number < $1.number })
        }
        if canTake(state) { return .batch(take(&state, isAhead: isAhead)) }
        guard state.waiting.isEmpty, state.flights.isEmpty else { return nil }
        state.isRunning = false
        for continuation in state.drained { continuation.resume() }
        state.drained = []
        return .done
    }

    /// Whether the next batch is to be taken now.
    ///
    /// A batch that follows one in flight gathers requests until it is as large as that one, and large enough to be
    /// worth a transaction beside it.
    private func canTake(_ state: State) -> Bool {
        guard !state.waiting.isEmpty else { return false }
        guard let last = state.flights.last else { return true }
        return state.flights.count < Self.mostFlights && last.isDecided
            && state.waiting.count >= max(Self.leastBeside, min(last.flight.requests, limits.batchEvents))
    }

    private func take(_ state: inout State, isAhead: Bool) -> [LedgerWriter.Waiter] {
        // Where many wait and nothing is in flight, half of them are taken and the other half follows at once. So two
        // batches alternate, and neither the database nor this process waits for the other.
        let isHalved = isAhead && state.flights.isEmpty && state.waiting.count >= 2 * Self.leastBeside
        let most = min(limits.batchEvents, isHalved ? state.waiting.count / 2 : state.waiting.count)
        var (bytes, count) = (0, 0)
        for waiter in state.waiting.prefix(most) {
            bytes += waiter.event.evidence?.bytes.count ?? 0
            if count > 0, bytes > limits.batchBytes { break }
            count += 1
        }
        if count == state.waiting.count {
            defer { state.waiting = [] }
            return state.waiting
        }
        defer { state.waiting.removeFirst(count) }
        return Array(state.waiting.prefix(count))
    }

    /// The loop, taken out, if it has something to do now.
    private func awakened(_ state: inout State) -> CheckedContinuation<Void, Never>? {
        guard let loop = state.loop else { return nil }
        let isDue =
            loop.untilLanded
            ? state.flights.isEmpty
            : state.flights.isEmpty || state.returned.isEmpty && canTake(state)
        guard isDue else { return nil }
        state.loop = nil
        return loop.continuation
    }

    private func wait(untilLanded: Bool) async {
        await withCheckedContinuation { continuation in
            let loop = state.withLock { state in
                state.loop = (continuation, untilLanded)
                // What it waits for may have come since it looked.
                return awakened(&state)
            }
            loop?.resume()
        }
    }
}
