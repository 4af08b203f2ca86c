import EmbeddedPostgres
import PostgresClient
import Service
import Synchronization

/// Starts the embedded PostgreSQL again when it dies under a running service.
final class EmbeddedKeeper: Sendable {
    private let cluster: EmbeddedCluster
    private let logger: Logger
    private let isAway = Atomic(false)

    /// How often it looks, and how long it waits after an attempt that failed.
    private static let interval = Duration.seconds(1)

    init(_ cluster: EmbeddedCluster, _ logger: Logger) { (self.cluster, self.logger) = (cluster, logger) }

    /// Why no new connection can be made; `nil` where that is not known.
    ///
    /// Those that were made before may last, and answer.
    func refusal() -> String? {
        isAway.load(ordering: .relaxed)
            ? "No connection to the embedded PostgreSQL can be made; it is being started again." : nil
    }

    /// Watches until the task is cancelled.
    func run() async {
        // A connection of its own: a busy service must not look like a dead server.
        let pool = PostgresPool(cluster.serveConninfo, limits: PostgresPool.Limits(connections: 1))
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.interval)
            if Task.isCancelled { break }
            do {
                try await pool.withConnection { try $0.execute(script: "SELECT 1") }
                if !cluster.hasSocket {
                    await restart("its socket is gone")
                } else if isAway.exchange(false, ordering: .relaxed) {
                    logger.log(.info, "the embedded PostgreSQL answers again")
                }
            } catch let error as PostgresError where error.kind == .connection && !Task.isCancelled {
                await restart(error.message)
            } catch {
                // Slow or overloaded, and so alive.
            }
            await tellDeaths()
        }
        await pool.close()
    }

    /// Says which of its processes ended, also where it was back before anybody looked.
    private func tellDeaths() async {
        for line in await cluster.newDeaths() {
            logger.log(
                .warning, "a process of the embedded PostgreSQL ended, so it ended all sessions and recovers",
                [("postgres", .string(line)), ("see", .string(cluster.logPath))])
        }
    }

    private func restart(_ reason: String) async {
        isAway.store(true, ordering: .relaxed)
        logger.log(
            .warning, "the embedded PostgreSQL is away; it is started again where it does not recover by itself",
            [("reason", .string(reason)), ("see", .string(cluster.logPath))])
        await tellDeaths()
        do {
            // To its end even when the service is being stopped: releasing the cluster then stops what was started.
            try await uninterrupted { [cluster] in try await cluster.ensureRunning() }
            isAway.store(false, ordering: .relaxed)
            logger.log(.info, "the embedded PostgreSQL is back")
        } catch {
            logger.log(.error, "the embedded PostgreSQL is not back", [("error", .string("\(error)"))])
        }
    }
}
