import PostgresClient
import Synchronization

/// Knows what keeps a writer from appending, as far as that can be known.
final class ObstacleWatch: Sendable {
    /// Between looks whom an append waits for.
    private static let interval = Duration.milliseconds(250)

    private struct Known {
        var holder: LogHolder?
        var refused: RefusedAppends
    }

    private let patience: Duration
    private let known: Mutex<Known>

    /// - Parameter patience: for how long everything must have been refused before anybody is told.
    init(patience: Duration) {
        self.patience = patience
        known = Mutex(Known(refused: RefusedAppends(patience: patience)))
    }

    var holder: LogHolder? { known.withLock(\.holder) }

    var obstacle: AppendObstacle? {
        known.withLock { known in
            known.holder.map { .held($0) } ?? known.refused.refusal(at: .now).map { .refused($0) }
        }
    }

    /// A batch was appended; where all of it had been before, it shows no more than that nobody holds the log.
    func note(_ plan: AppendPlan) {
        known.withLock { known in
            known.holder = nil
            if !plan.events.isEmpty { known.refused.clear() }
        }
    }

    /// A batch was not appended.
    func note(_ error: any Error) {
        guard DatabaseRefusal(error) != nil else { return }
        known.withLock { known in
            known.holder = nil
            known.refused.note(at: .now)
        }
    }

    /// Looks whether that is over: whoever held the log holds it no more, or the database lets an event be written again.
    func look(through pool: PostgresPool) async throws -> AppendObstacle? {
        if let holder {
            let isThere = try await pool.run(doing: "looking who holds the log") { try holder.isThere(on: $0) }
            known.withLock { known in
                if !isThere, known.holder == holder { known.holder = nil }
            }
        } else if known.withLock({ $0.refused.beginTrial(at: .now) }) {
            let refusal: DatabaseRefusal?
            do {
                try await pool.withConnection { try AppendTrial.run(on: $0) }
                refusal = nil
            } catch {
                // That it is away now, or that somebody holds the log, says nothing of what it refuses.
                guard let found = DatabaseRefusal(error) else {
                    throw LedgerError(error, doing: "looking whether anything can be appended")
                }
                refusal = found
            }
            known.withLock { $0.refused.end(trial: refusal) }
        }
        return obstacle
    }

    /// Does what has waited for a lock in vain before, and finds out whom it waits for meanwhile.
    ///
    /// - Parameter body: is to say which session it uses.
    func watching<Value: Sendable>(
        through pool: PostgresPool, _ body: (_ session: Session) async throws -> Value
    ) async throws -> Value {
        let session = Session()
        let watch = Task {
            var holder: LogHolder?
            while !Task.isCancelled {
                if let process = session.process,
                    let found = try? await pool.withConnection({ try LogHolder.blocking(process, on: $0) })
                {
                    holder = found
                }
                try? await Task.sleep(for: Self.interval)
            }
            return holder
        }
        defer { watch.cancel() }
        do {
            return try await body(session)
        } catch let error as PostgresError where error.kind == .lockTimeout {
            watch.cancel()
            if let holder = await watch.value { known.withLock { $0.holder = holder } }
            throw error
        }
    }

    /// The session that appends.
    final class Session: Sendable {
        private let number = Mutex<Int?>(nil)

        var process: Int? { number.withLock(\.self) }

        func use(_ connection: isolated PostgresConnection) {
            let process = connection.serverProcessID
            number.withLock { $0 = process }
        }
    }
}

/// Whether the database refuses everything that is to be appended, by how appends and trials ended since something was recorded.
///
/// That it refused one event may be the fault of that event. So nothing is said before it has refused an event that is nobody's
/// (`AppendTrial`), and has done so for a while.
struct RefusedAppends: Sendable {
    typealias Instant = ContinuousClock.Instant

    /// Between the beginnings of trials: each one that fails costs the database a few hundred bytes.
    static let interval = Duration.seconds(2)

    private let patience: Duration
    /// When the first append was refused after which nothing was recorded.
    private var since: Instant?
    private var lastTrial: Instant?
    /// Why the last trial was refused.
    private var reason: DatabaseRefusal?

    /// - Parameter patience: for how long everything must have been refused.
    init(patience: Duration) { self.patience = patience }

    /// An append was refused.
    mutating func note(at now: Instant) { since = since ?? now }

    /// Something was recorded.
    mutating func clear() { self = RefusedAppends(patience: patience) }

    /// Whether it is time to try whether anything can be appended; a trial begins then.
    mutating func beginTrial(at now: Instant) -> Bool {
        guard since != nil, lastTrial.map({ $0.duration(to: now) >= Self.interval }) ?? true else { return false }
        lastTrial = now
        return true
    }

    /// A trial has ended.
    ///
    /// - Parameter refusal: why it was refused; `nil`: it succeeded.
    mutating func end(trial refusal: DatabaseRefusal?) {
        guard let refusal else { return clear() }
        // Something may have been recorded while it went on.
        if since != nil { reason = refusal }
    }

    /// Why nothing can be appended; `nil` as long as that is not sure.
    func refusal(at now: Instant) -> DatabaseRefusal? {
        guard let since, since.duration(to: now) >= patience else { return nil }
        return reason
    }
}
