import EmbeddedPostgres
import PostgresClient
import Service

/// Starts the embedded PostgreSQL again when it dies under a running service.
struct EmbeddedKeeper: Sendable {
    let cluster: EmbeddedCluster
    let logger: Logger

    /// How often it looks, and how long it waits after an attempt that failed.
    private static let interval = Duration.seconds(1)

    /// Watches until the task is cancelled.
    func run() async {
        // A connection of its own: a busy service must not look like a dead server.
        let pool = PostgresPool(cluster.serveConninfo, limits: PostgresPool.Limits(connections: 1))
        // Whether the last that was said of it is that it is not back.
        var isSaidToBeAway = false
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.interval)
            if Task.isCancelled { break }
            do {
                try await pool.withConnection { try $0.execute(script: "SELECT 1") }
                if isSaidToBeAway { logger.log(.info, "the embedded PostgreSQL answers again") }
                isSaidToBeAway = false
            } catch let error as PostgresError where error.kind == .connection && !Task.isCancelled {
                isSaidToBeAway = await !restart()
            } catch {
                // Slow or overloaded, and so alive.
            }
        }
        await pool.close()
    }

    /// Returns whether it is back.
    private func restart() async -> Bool {
        logger.log(.warning, "the embedded PostgreSQL is away; starting it again")
        do {
            // To its end even when the service is being stopped: releasing the cluster then stops what was started.
            try await uninterrupted { try await cluster.ensureRunning() }
            logger.log(.info, "the embedded PostgreSQL is back")
            return true
        } catch {
            logger.log(.error, "the embedded PostgreSQL is not back", [("error", .string("\(error)"))])
            return false
        }
    }
}
