package import EntitlementCore
package import Ledger

/// Deletes idempotency keys that no longer count, behind a running service.
package struct CommandKeySweep: Sendable {
    /// Between two sweeps; a key kept longer than it counts does no harm.
    package static let interval = Duration.seconds(1800)

    private let keys: CommandKeys
    private let watch: WorkWatch
    private let logger: Logger
    private let now: @Sendable () -> Timestamp

    package init(keys: CommandKeys, watch: WorkWatch, logger: Logger, now: @escaping @Sendable () -> Timestamp) {
        self.keys = keys
        self.watch = watch
        self.logger = logger
        self.now = now
    }

    /// Works until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await watch.watch(.idempotencyKeys) {
                let deleted = try await keys.deleteExpired(now: now())
                if deleted > 0 {
                    logger.log(.debug, "expired idempotency keys deleted", [("keys", .integer(Int64(deleted)))])
                }
            }
            try? await Task.sleep(for: Self.interval)
        }
    }
}
