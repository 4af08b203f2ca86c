import OutgoingHTTP

/// The schedule of work that is repeated for as long as the service runs.
package struct Repetition: Sendable {
    /// The outcome of one run.
    package enum Outcome: Sendable {
        case done
        /// Some of it was done, and the rest is to be done at once.
        case more
        /// Another process is at work, which may die.
        case elsewhere
        case failed
    }

    /// After it was done.
    private let regular: Duration
    /// While another process is at work.
    private let elsewhere: Duration
    /// The pauses after it failed.
    let backoff: Backoff
    /// How often it is asked whether a run is wanted earlier.
    private let look: Duration

    /// - Parameters:
    ///   - retry: after it failed; doubled for each further time, up to `longestRetry`.
    ///   - look: between questions whether it is wanted before its time.
    package init(
        regular: Duration, elsewhere: Duration, retry: Duration, longestRetry: Duration, look: Duration = .seconds(1)
    ) {
        self.regular = regular
        self.elsewhere = elsewhere
        self.look = look
        backoff = Backoff(first: retry, longest: longestRetry)
    }

    /// Does it again and again until the current task is cancelled.
    func run(_ body: @Sendable () async -> Outcome) async { await work(nil, body) }

    /// The same, and before its time where that is wanted, which ends a pause after a failure, too.
    func run(early isWanted: @escaping @Sendable () -> Bool, _ body: @Sendable () async -> Outcome) async {
        await work(isWanted, body)
    }

    private func work(_ isWanted: (@Sendable () -> Bool)?, _ body: @Sendable () async -> Outcome) async {
        var failures = 0
        while !Task.isCancelled {
            switch await body() {
            case .done:
                failures = 0
                await pause(for: regular, isWanted)
            case .more: failures = 0
            case .elsewhere: try? await Task.sleep(for: elsewhere)
            case .failed:
                failures += 1
                await pause(for: backoff.pause(after: failures), isWanted)
            }
        }
    }

    private func pause(for time: Duration, _ isWanted: (@Sendable () -> Bool)?) async {
        guard let isWanted else {
            try? await Task.sleep(for: time)
            return
        }
        let end = ContinuousClock.now + time
        while !Task.isCancelled, case let left = ContinuousClock.now.duration(to: end), left > .zero, !isWanted() {
            try? await Task.sleep(for: min(left, look))
        }
    }
}
