import EntitlementCore
import EntitlementKit
import Foundation
import StoreSimulator
import Synchronization

/// The time of a simulated world: it passes when the test says so, for the server, the store and every device alike.
final class WorldClock: EntitlementClock {
    private struct Sleeper {
        let number: Int
        let wakesAt: Int64
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var now: Int64
        var count = 0
        var sleepers: [Sleeper] = []
        var cancelled: Set<Int> = []
        var watcher: AsyncStream<Void>.Continuation?
        /// How many requests are with the server.
        var requests = 0
    }

    private let start: Int64
    private let state: Mutex<State>

    /// - Parameter start: in milliseconds since 1970.
    init(_ start: Int64) {
        self.start = start
        state = Mutex(State(now: start))
    }

    /// In milliseconds since 1970.
    var instant: Int64 { state.withLock { $0.now } }

    var timestamp: Timestamp { Timestamp(milliseconds: instant) }

    /// Lets time pass, and wakes whoever slept until then.
    func advance(by milliseconds: Int64) {
        let due = state.withLock { state in
            state.now += milliseconds
            let now = state.now
            let due = state.sleepers.filter { $0.wakesAt <= now }
            state.sleepers.removeAll { $0.wakesAt <= now }
            return due
        }
        for sleeper in due { sleeper.continuation.resume() }
    }

    func now() -> Date { Date(timeIntervalSince1970: Double(instant) / 1000) }

    func uptime() -> Duration { .milliseconds(instant - start) }

    /// Makes a request during which no time passes by itself: a slow machine is no slow server.
    func holding<Answer>(while body: () async throws -> Answer) async rethrows -> Answer {
        state.withLock { $0.requests += 1 }
        defer { state.withLock { $0.requests -= 1 } }
        return try await body()
    }

    /// The longest that time stands still for requests that are with the server, in tenths of a second.
    private static let longestHold = 300

    /// Lets time pass up to whoever sleeps for no longer than told, again and again, until it is cancelled.
    func keepWaking(within limit: Int64) async {
        let (sleeps, watcher) = AsyncStream<Void>.makeStream()
        state.withLock { $0.watcher = watcher }
        watcher.yield()
        for await _ in sleeps {
            // A call has a time limit by this clock, too; it gets a while to be answered in before it runs out.
            try? await Task.sleep(for: .milliseconds(200))
            for _ in 0..<Self.longestHold where state.withLock({ $0.requests > 0 }) && !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(100))
            }
            let pause = state.withLock { state in
                state.sleepers.map { $0.wakesAt - state.now }.filter { $0 <= limit }.min()
            }
            guard let pause else { continue }
            advance(by: max(pause, 0))
            watcher.yield()
        }
        state.withLock { $0.watcher = nil }
    }

    /// Lets time pass while something is waited for that did not come by itself.
    ///
    /// On a slow machine a request can fail, and what was asked of a server before another word reached it is asked again:
    /// both a while later, by a clock that stands still unless the test moves it.
    func passing<Answer: Sendable>(while body: () async -> Answer) async -> Answer {
        let waking = Task {
            guard (try? await Task.sleep(for: .seconds(5))) != nil else { return }
            await keepWaking(within: 5 * Span.minute)
        }
        defer { waking.cancel() }
        return await body()
    }

    func sleep(until uptime: Duration) async throws {
        let number = state.withLock { state in
            state.count += 1
            return state.count
        }
        let (seconds, attoseconds) = uptime.components
        let wakesAt = start + seconds * 1000 + attoseconds / 1_000_000_000_000_000
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let verdict: Result<Void, any Error>? = state.withLock { state in
                    if state.cancelled.remove(number) != nil { return .failure(CancellationError()) }
                    if wakesAt <= state.now { return .success(()) }
                    state.sleepers.append(
                        Sleeper(number: number, wakesAt: wakesAt, continuation: continuation))
                    state.watcher?.yield()
                    return nil
                }
                if let verdict { continuation.resume(with: verdict) }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                guard let index = state.sleepers.firstIndex(where: { $0.number == number }) else {
                    state.cancelled.insert(number)
                    return nil
                }
                return state.sleepers.remove(at: index)
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }
}
