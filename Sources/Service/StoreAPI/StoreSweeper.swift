import AppStoreServer
package import EntitlementCore

/// Sweeps the store's history when the service starts, and from time to time, behind it.
package struct StoreSweeper: Sendable {
    /// When it works.
    package struct Intervals: Sendable {
        /// Between two sweeps.
        package var regular = Duration.seconds(3600)
        /// While another process is at work, which may die.
        package var elsewhere = Duration.seconds(10)
        /// After one that failed; doubled for each further one.
        package var retry = Duration.seconds(60)
        package var longestRetry = Duration.seconds(900)

        package init() {}
    }

    private let sweeps: [(sweep: NotificationSweep, environment: StoreEnvironment)]
    private let logger: Logger
    private let intervals: Intervals

    /// - Parameter sweeps: one for each app and each of its environments.
    package init(
        _ sweeps: [(sweep: NotificationSweep, environment: StoreEnvironment)], logger: Logger,
        intervals: Intervals = Intervals()
    ) {
        self.sweeps = sweeps
        self.logger = logger
        self.intervals = intervals
    }

    /// Works until the current task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            for (sweep, environment) in sweeps {
                group.addTask {
                    var retry = intervals.retry
                    while !Task.isCancelled {
                        switch await run(sweep, environment) {
                        case .done:
                            retry = intervals.retry
                            try? await Task.sleep(for: intervals.regular)
                        case .elsewhere: try? await Task.sleep(for: intervals.elsewhere)
                        case .failed:
                            try? await Task.sleep(for: retry)
                            retry = min(intervals.longestRetry, retry * 2)
                        }
                    }
                }
            }
        }
    }

    private enum Outcome {
        case done, elsewhere, failed
    }

    private func run(_ sweep: NotificationSweep, _ environment: StoreEnvironment) async -> Outcome {
        let name: [(String, LogValue)] = [
            ("app", .string(sweep.client.credentials.bundleID)), ("environment", .string(environment.rawValue)),
        ]
        do {
            let report = try await sweep.run(in: environment)
            guard report.isComplete else { return .elsewhere }
            let unread = report.gap.map { "a part of the store's history could not be read (\($0))" }
            let refused = report.refused > 0 ? "some notifications of the store's history were refused" : nil
            let trouble = [unread, refused].compactMap(\.self).joined(separator: ", and ")
            let cure =
                "\(trouble): when the cause is mended, run `rightful backfill --since "
                + "\(report.from.map(\.description) ?? "")`"
            logger.log(
                report.recorded > 0 || !trouble.isEmpty ? .warning : .info,
                !trouble.isEmpty
                    ? cure
                    : report.recorded > 0
                        ? "notifications were missing, and are recorded now" : "the store's history is read",
                name + [
                    ("read", .integer(Int64(report.read))), ("recorded", .integer(Int64(report.recorded))),
                    ("on_their_way", .integer(Int64(report.early))), ("refused", .integer(Int64(report.refused))),
                ])
            return .done
        } catch is CancellationError {
            return .done
        } catch {
            logger.log(
                .error, "the store's history cannot be read now; it is tried again",
                name + [("error", .string("\(error)"))])
            return .failed
        }
    }
}
