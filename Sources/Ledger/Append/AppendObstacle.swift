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

    private let known = Mutex<AppendObstacle?>(nil)

    var obstacle: AppendObstacle? { known.withLock(\.self) }

    var holder: LogHolder? {
        switch obstacle {
        case .held(let holder): holder
        case .refused, nil: nil
        }
    }

    /// Something was appended.
    func clear() { known.withLock { $0 = nil } }

    /// The database refused what was to be appended.
    func note(refusal: PostgresError) { known.withLock { $0 = .refused("\(refusal)") } }

    /// Looks whether whoever is known still holds the log.
    func look(through pool: PostgresPool) async throws -> AppendObstacle? {
        guard let holder else { return obstacle }
        let isThere = try await pool.run(doing: "looking who holds the log") { try holder.isThere(on: $0) }
        return known.withLock { known in
            if !isThere, known == .held(holder) { known = nil }
            return known
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
            if let holder = await watch.value { known.withLock { $0 = .held(holder) } }
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
