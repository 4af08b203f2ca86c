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
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.interval)
            if Task.isCancelled { break }
            do {
                try await pool.withConnection { try $0.execute(script: "SELECT 1") }
            } catch let error as PostgresError where error.kind == .connection && !Task.isCancelled {
                await restart()
            } catch {
                // Slow or overloaded, and so alive.
            }
        }
        await pool.close()
    }

    private func restart() async {
        logger.log(.warning, "the embedded PostgreSQL is away; starting it again")
        do {
            // To its end even when the service is being stopped: releasing the cluster then stops what was started.
            try await uninterrupted { try await cluster.ensureRunning() }
            logger.log(.info, "the embedded PostgreSQL is back")
        } catch {
            logger.log(.error, "the embedded PostgreSQL is not back", [("error", .string("\(error)"))])
        }
    }
}
