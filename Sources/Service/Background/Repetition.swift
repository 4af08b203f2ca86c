/// When work is done that goes on for as long as the service runs.
package struct Repetition: Sendable {
    /// What came of one time.
    package enum Outcome: Sendable {
        case done
        /// Another process is at work, which may die.
        case elsewhere
        case failed
    }

    /// After it was done.
    package var regular: Duration
    /// While another process is at work.
    package var elsewhere: Duration
    /// After it failed; doubled for each further time.
    package var retry: Duration
    package var longestRetry: Duration

    package init(regular: Duration, elsewhere: Duration, retry: Duration, longestRetry: Duration) {
        self.regular = regular
        self.elsewhere = elsewhere
        self.retry = retry
        self.longestRetry = longestRetry
    }

    /// Does it again and again until the current task is cancelled.
    func run(_ body: @Sendable () async -> Outcome) async {
        var retry = retry
        while !Task.isCancelled {
            switch await body() {
            case .done:
                retry = self.retry
                try? await Task.sleep(for: regular)
            case .elsewhere:
                try? await Task.sleep(for: elsewhere)
            case .failed:
                try? await Task.sleep(for: retry)
                retry = min(longestRetry, retry * 2)
            }
        }
    }
}
