package import EntitlementCore
package import Ledger

/// Compares this machine's clock with the database's again and again, and says when they do not agree, or when the log is
/// ahead of both.
package struct ClockWatch: Sendable {
    /// Between comparisons; appends compare the clocks besides.
    private static let interval = Duration.seconds(10)
    /// Between looks whether this machine's clock was set, which is a reason to compare at once.
    private static let lookInterval = Duration.milliseconds(500)
    /// Between lines of the log while they differ.
    private static let reportInterval = Duration.seconds(60)

    private let clock: LedgerClock
    private let compare: @Sendable () async throws -> Void
    private let lastDate: @Sendable () async throws -> Timestamp
    private let metrics: Metrics
    private let logger: Logger

    /// - Parameters:
    ///   - lastDate: the date of the log's last event.
    ///   - compare: compares the clock with the database's.
    package init(
        _ clock: LedgerClock, metrics: Metrics, logger: Logger,
        lastDate: @escaping @Sendable () async throws -> Timestamp,
        compare: @escaping @Sendable () async throws -> Void
    ) {
        self.clock = clock
        self.lastDate = lastDate
        self.compare = compare
        self.metrics = metrics
        self.logger = logger
    }

    /// Works until the current task is cancelled.
    package func run() async {
        var reported: ContinuousClock.Instant?
        let future = Throttle(Self.reportInterval, beginsOpen: true)
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
            if let ahead = try? await millisecondsAhead() {
                metrics.noteLogAhead(milliseconds: ahead)
                if ahead > 0, future.passes() {
                    logger.log(
                        .error,
                        "the last event is dated after the clock, and so is whatever is appended: grants and transfers begin then",
                        [("ahead_seconds", .number(Double(ahead) / 1000))])
                }
            }
            await pause()
        }
    }

    /// Until the clocks are to be compared again.
    ///
    /// A machine whose clock was set may have stood still and not have counted that, so that its count is what is wrong.
    private func pause() async {
        let start = ContinuousClock.now
        repeat {
            try? await Task.sleep(for: Self.lookInterval)
        } while !Task.isCancelled && !clock.wasSet() && start.duration(to: .now) < Self.interval
    }

    /// How far the log's last event is dated after the present, as it is for ever after where a clock was ahead; 0 up to
    /// what the clocks of instances may be apart.
    private func millisecondsAhead() async throws -> Int64 {
        let ahead = try await lastDate().milliseconds - clock.now().milliseconds
        return ahead > LedgerClock.spreadMilliseconds ? ahead : 0
    }
}
