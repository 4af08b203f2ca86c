import AppStoreServer
package import EntitlementCore
import Ledger

/// Sweeps the store's history when the service starts, and from time to time, behind it; and where notifications were refused
/// because the ledger could not take them.
package struct StoreSweeper: Sendable {
    /// When it works.
    package static let intervals = Repetition(
        regular: .seconds(3600), elsewhere: .seconds(10), retry: .seconds(60), longestRetry: .seconds(900))

    private let sweeps: [(sweep: NotificationSweep, environment: StoreEnvironment)]
    private let missed: MissedDeliveries
    private let logger: Logger
    private let intervals: Repetition

    /// - Parameters:
    ///   - sweeps: one for each app and each of its environments.
    ///   - missed: says when notifications were refused.
    package init(
        _ sweeps: [(sweep: NotificationSweep, environment: StoreEnvironment)], missed: MissedDeliveries,
        logger: Logger, intervals: Repetition = StoreSweeper.intervals
    ) {
        self.sweeps = sweeps
        self.missed = missed
        self.logger = logger
        self.intervals = intervals
    }

    /// Works until the current task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            for (sweep, environment) in sweeps {
                let stream = StoreStream(app: sweep.client.credentials.bundleID, environment: environment)
                group.addTask {
                    await intervals.run(early: { [missed] in missed.isDue(stream) }) { await run(sweep, environment) }
                }
            }
        }
    }

    private func run(_ sweep: NotificationSweep, _ environment: StoreEnvironment) async -> Repetition.Outcome {
        let name = StoreStream(app: sweep.client.credentials.bundleID, environment: environment).logged
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
