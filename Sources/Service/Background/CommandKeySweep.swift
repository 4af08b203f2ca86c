package import EntitlementCore
package import Ledger

/// Deletes idempotency keys that no longer count, behind a running service.
package struct CommandKeySweep: Sendable {
    /// Between two sweeps; a key kept longer than it counts does no harm.
    package static let interval = Duration.seconds(1800)

    private let keys: CommandKeys
    private let logger: Logger
    private let now: @Sendable () -> Timestamp

    package init(keys: CommandKeys, logger: Logger, now: @escaping @Sendable () -> Timestamp) {
        self.keys = keys
        self.logger = logger
        self.now = now
    }

    /// Works until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            do {
                let deleted = try await keys.deleteExpired(now: now())
                if deleted > 0 {
                    logger.log(.debug, "expired idempotency keys deleted", [("keys", .integer(Int64(deleted)))])
                }
            } catch is CancellationError {
                return
            } catch {
                // The next time will do.
                logger.log(
                    .warning, "expired idempotency keys could not be deleted", [("error", .string("\(error)"))])
            }
            try? await Task.sleep(for: Self.interval)
        }
    }
}
