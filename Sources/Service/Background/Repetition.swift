import OutgoingHTTP

/// When work is done that goes on for as long as the service runs.
package struct Repetition: Sendable {
    /// What came of one time.
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
    private let backoff: Backoff

    /// - Parameters:
    ///   - retry: after it failed; doubled for each further time, up to `longestRetry`.
    package init(regular: Duration, elsewhere: Duration, retry: Duration, longestRetry: Duration) {
        self.regular = regular
        self.elsewhere = elsewhere
        backoff = Backoff(first: retry, longest: longestRetry)
    }

    /// Does it again and again until the current task is cancelled.
    func run(_ body: @Sendable () async -> Outcome) async {
        var failures = 0
        while !Task.isCancelled {
            switch await body() {
            case .done:
                failures = 0
                try? await Task.sleep(for: regular)
            case .more: failures = 0
            case .elsewhere: try? await Task.sleep(for: elsewhere)
            case .failed:
                failures += 1
                try? await Task.sleep(for: backoff.pause(after: failures))
            }
        }
    }
}
