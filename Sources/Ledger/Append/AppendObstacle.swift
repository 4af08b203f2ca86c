import PostgresClient
import Synchronization

/// What keeps a writer from appending.
package enum AppendObstacle: Error, Sendable, Hashable, CustomStringConvertible {
    /// Somebody else's transaction.
    case held(LogHolder)
    /// The database refused what was to be appended last, for this reason, as one does whose disk is full.
    case refused(String)

    /// For people: what it is, and what to do.
    package var description: String {
        switch self {
        case .held(let holder): holder.description
        case .refused(let reason):
            "what was to be recorded last was refused, and whether that is over shows what is recorded next: \(reason)"
        }
    }
}

/// Knows what keeps a writer from appending, as far as that can be known.
final class ObstacleWatch: Sendable {
    /// Between looks whom an append waits for.
    private static let interval = Duration.milliseconds(250)

    private struct Known {
        var obstacle: AppendObstacle?
        /// Where the log ended when it was first looked at after a refusal.
        var head: Int64?
    }

    private let known = Mutex(Known())

    var holder: LogHolder? {
        switch known.withLock(\.obstacle) {
        case .held(let holder): holder
        case .refused, nil: nil
        }
    }

    /// Something was appended.
    func clear() { known.withLock { $0 = Known() } }

    /// The database refused what was to be appended.
    func note(refusal: PostgresError) { known.withLock { $0 = Known(obstacle: .refused("\(refusal)")) } }

    /// Looks whether that is over: whoever held the log holds it no more, or somebody has appended since.
    func look(through pool: PostgresPool) async throws -> AppendObstacle? {
        let seen = known.withLock(\.self)
        switch seen.obstacle {
        case nil: return nil
        case .held(let holder):
            let isThere = try await pool.run(doing: "looking who holds the log") { try holder.isThere(on: $0) }
            return known.withLock { known in
                if !isThere, known.obstacle == seen.obstacle { known = Known() }
                return known.obstacle
            }
        case .refused:
            let head = try await pool.run(doing: "looking whether the log goes on") {
                try Statements.headPosition(on: $0)
            }
            return known.withLock { known in
                guard known.obstacle == seen.obstacle else { return known.obstacle }
                if let before = known.head, before < head { known = Known() } else { known.head = known.head ?? head }
                return known.obstacle
            }
        }
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
            if let holder = await watch.value { known.withLock { $0 = Known(obstacle: .held(holder)) } }
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
