import PostgresClient
import Service

/// The connection that appends: there before anybody is served, and made again as soon as it was lost.
///
/// Whoever started first could otherwise hold all that a nearly full server has room for, and others would answer and record
/// nothing.
struct AppendingConnection: Sendable {
    /// Between looks whether it is still there.
    private static let interval = Duration.milliseconds(500)
    /// For how long it may be missing without anybody being told.
    private static let patience = Duration.seconds(3)
    /// How long a start waits for it: other instances close what has lain idle for half a minute.
    private static let longestStart = Duration.seconds(40)

    let pool: PostgresPool
    private let logger: Logger

    init(_ pool: PostgresPool, _ logger: Logger) { (self.pool, self.logger) = (pool, logger) }

    /// Opens it, and one that reads; waits for them where the server has no room for now.
    func open(beside reading: PostgresPool) async throws {
        let start = ContinuousClock.now
        var isTold = false
        while true {
            do {
                try await reading.keepReady()
                return try await pool.keepReady()
            } catch let error as PostgresError where error.lacksRoom {
                let waited = start.duration(to: .now)
                guard waited < Self.longestStart else {
                    throw CommandFailure(
                        description:
                            "no connection that appends could be made within \(Self.longestStart): \(error.message); "
                            + "raise max_connections, or the role's CONNECTION LIMIT")
                }
                if !isTold, waited > Self.patience {
                    isTold = true
                    logger.log(
                        .warning, "waiting for a connection that appends: the start goes on once there is one",
                        [("reason", .string(error.message))])
                }
                try await Task.sleep(for: Self.interval)
            }
        }
    }

    /// Why nothing can be recorded; `nil` where it may be that something can.
    func refusal() async -> String? {
        guard let lack = await pool.lack else { return nil }
        let missing = lack.since.duration(to: .now)
        guard missing > Self.patience else { return nil }
        return "For \(missing.components.seconds) s no connection to the database could be made that appends, "
            + "so nothing can be recorded."
    }

    /// Keeps it until the current task is cancelled.
    func run() async {
        var isTold = false
        while !Task.isCancelled {
            try? await pool.keepReady()
            let lack = await pool.lack
            if let lack, !isTold, lack.since.duration(to: .now) > Self.patience {
                isTold = true
                logger.log(
                    .error, "there is no connection that appends, so nothing is recorded and this service is not ready",
                    [("reason", .string(lack.error.message))])
            } else if lack == nil, isTold {
                isTold = false
                logger.log(.info, "there is a connection that appends again")
            }
            try? await Task.sleep(for: Self.interval)
        }
    }
}

extension PostgresError {
    /// Whether there is no room for a connection, rather than no server, or no right to use it.
    ///
    /// Libpq keeps the code of such a refusal (53300) to itself, so it is told by what servers and poolers say in English.
    var lacksRoom: Bool {
        let refusals = ["too many clients", "too many connections", "slots are reserved", "no more connections"]
        return kind == .unavailable || kind == .connection && refusals.contains { message.contains($0) }
    }
}
