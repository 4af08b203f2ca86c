import Dispatch
import Synchronization

/// Runs what keeps a core busy for long on one thread of its own, so that Swift's few threads stay free for everybody else.
///
/// One piece of work runs at a time and few wait. Work asks now and then whether it is still wanted: it is given up when its
/// caller is cancelled, or when it has taken too long.
final class LongWork: Sendable {
    /// Says whether a piece of work is still wanted.
    final class Wish: Sendable {
        private let isCancelled = Atomic(false)
        private let limit: Duration
        private let deadline = Mutex<ContinuousClock.Instant?>(nil)

        fileprivate init(limit: Duration) { self.limit = limit }

        /// - Throws: `CancellationError` when nobody waits any more, `unavailable` when it has taken too long.
        func check() throws {
            if isCancelled.load(ordering: .relaxed) { throw CancellationError() }
            if let deadline = deadline.withLock({ $0 }), deadline <= .now {
                throw Problem.unavailable("This would take longer than \(limit); ask for less at once.")
            }
        }

        fileprivate func cancel() { isCancelled.store(true, ordering: .relaxed) }

        fileprivate func begin() throws {
            deadline.withLock { $0 = .now + limit }
            try check()
        }
    }

    private let queue = DispatchQueue(label: "long work")
    private let limit: Duration
    private let mostWaiting: Int
    /// How many wait or run.
    let waiting = Mutex(0)

    /// - Parameters:
    ///   - limit: how long one piece of work may take, once it runs.
    ///   - mostWaiting: how many may wait or run; further ones are refused.
    init(limit: Duration, mostWaiting: Int) {
        self.limit = limit
        self.mostWaiting = mostWaiting
    }

    /// Runs work that calls `check` at least every tenth of a second or so.
    ///
    /// - Throws: what the work throws, `CancellationError`, or `unavailable` when too many wait.
    func run<Value: Sendable>(_ work: @escaping @Sendable (Wish) throws -> Value) async throws -> Value {
        let isTaken = waiting.withLock { waiting in
            guard waiting < mostWaiting else { return false }
            waiting += 1
            return true
        }
        guard isTaken else { throw Problem.unavailable("Too many long explanations are being made; try again later.") }
        let wish = Wish(limit: limit)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                queue.async { [self] in
                    let result = Result {
                        try wish.begin()
                        return try work(wish)
                    }
                    waiting.withLock { $0 -= 1 }
                    continuation.resume(with: result)
                }
            }
        } onCancel: {
            wish.cancel()
        }
    }
}
