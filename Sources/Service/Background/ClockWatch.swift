package import Ledger

/// Compares this machine's clock with the database's again and again, and says when they do not agree.
package struct ClockWatch: Sendable {
    /// Between comparisons; appends compare the clocks besides.
    private static let interval = Duration.seconds(10)
    /// Between lines of the log while they differ.
    private static let reportInterval = Duration.seconds(60)

    private let clock: LedgerClock
    private let compare: @Sendable () async throws -> Void
    private let metrics: Metrics
    private let logger: Logger

    /// - Parameter compare: compares the clock with the database's.
    package init(
        _ clock: LedgerClock, metrics: Metrics, logger: Logger, compare: @escaping @Sendable () async throws -> Void
    ) {
        self.clock = clock
        self.compare = compare
        self.metrics = metrics
        self.logger = logger
    }

    /// Works until the current task is cancelled.
    package func run() async {
        var reported: ContinuousClock.Instant?
        while !Task.isCancelled {
            // While the database is away there is nothing to compare with, and others say so.
            try? await compare()
            let skew = clock.skewMilliseconds
            metrics.noteClockSkew(milliseconds: skew)
            if skew == 0 {
                if reported != nil { logger.log(.info, "this machine's clock agrees with the database's again") }
                reported = nil
            } else if reported.map({ $0.duration(to: .now) >= Self.reportInterval }) ?? true {
                reported = .now
                logger.log(
                    .warning,
                    "this machine's clock is wrong, or the database's is: events are dated by the database's; set the clock",
                    [("ahead_seconds", .number(Double(skew) / 1000))])
            }
            try? await Task.sleep(for: Self.interval)
        }
    }
}
