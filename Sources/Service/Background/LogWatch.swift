package import Ledger

/// Looks again and again whether the log still holds what this instance has seen in it, and says when it does not.
package struct LogWatch: Sendable {
    private static let interval = Duration.seconds(2)

    private let metrics: Metrics
    private let logger: Logger
    private let look: @Sendable () async throws -> LostEnd?

    /// - Parameter look: says what was lost since it was asked last.
    package init(metrics: Metrics, logger: Logger, look: @escaping @Sendable () async throws -> LostEnd?) {
        self.metrics = metrics
        self.logger = logger
        self.look = look
    }

    /// Works until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            // While the database is away nothing is known to be lost, and others say so.
            if let lost = try? await look() { report(lost) }
            try? await Task.sleep(for: Self.interval)
        }
    }

    private func report(_ lost: LostEnd) {
        metrics.count(.lostEnds, [])
        logger.log(
            .error,
            "the log has lost its last events, as after a failover to a server that had not got them, or after a backup was "
                + "restored: make again the grants, links and other commands since then; the store's history and devices bring "
                + "purchases back",
            [("known_position", .integer(lost.known.position)), ("position", .integer(lost.head.position))])
    }
}
