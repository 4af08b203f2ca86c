package import EntitlementCore
package import Ledger

/// Records again which keys sign passes where the log has lost that, as after a failover.
package struct PassKeyWatch: Sendable {
    /// Between two looks; for so long the log may name other keys.
    private static let interval = Duration.seconds(3600)

    private let keys: [PassKeyFact]
    private let register: PassKeyRegister
    private let watch: WorkWatch
    private let logger: Logger

    /// - Parameter keys: those in use, in the order of their ids.
    package init(_ keys: [PassKeyFact], register: PassKeyRegister, watch: WorkWatch, logger: Logger) {
        self.keys = keys
        self.register = register
        self.watch = watch
        self.logger = logger
    }

    /// Works until the current task is cancelled.
    package func run() async {
        var seen: EventMark?
        while !Task.isCancelled {
            let kept = await watch.watch(.passKeys) { [seen] in try await register.keep(keys, since: seen) }
            if let kept {
                if kept.isNew { logger.log(.info, "the log records other keys of passes from here on") }
                seen = kept.seen
            }
            try? await Task.sleep(for: Self.interval)
        }
    }
}
