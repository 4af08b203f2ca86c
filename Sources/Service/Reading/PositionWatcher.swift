/// Waits for the log to reach positions; one look at the database serves all who wait.
actor PositionWatcher {
    private struct Waiter {
        let position: Int64
        let deadline: ContinuousClock.Instant
        let continuation: CheckedContinuation<Bool, Never>
    }

    /// The most requests that may wait.
    private static let limit = 1024
    private static let interval = Duration.milliseconds(20)

    private let head: @Sendable () async throws -> Int64
    private let clock = ContinuousClock()
    private var waiters: [Waiter] = []
    private var isPolling = false

    /// - Parameter head: asks for the last position of the log.
    init(head: @escaping @Sendable () async throws -> Int64) { self.head = head }

    /// Whether the log reaches a position in time.
    ///
    /// - Throws: `unavailable` when too many wait, or what `head` throws.
    func reaches(_ position: Int64, within wait: Duration) async throws -> Bool {
        let deadline = clock.now + wait
        // What was reached once is looked for again: a replica may take over that had not got everything.
        if try await head() >= position { return true }
        guard waiters.count < Self.limit else {
            throw Problem.unavailable("\(Self.limit) requests already wait for a position.")
        }
        return await withCheckedContinuation { continuation in
            waiters.append(Waiter(position: position, deadline: deadline, continuation: continuation))
            if !isPolling {
                isPolling = true
                Task { await poll() }
            }
        }
    }

    /// Waits for the log to reach a position that a request names.
    ///
    /// - Throws: `position_not_reached` where it does not in time, or what `reaches` throws.
    func wait(for position: Int64, within wait: Duration) async throws {
        guard try await reaches(position, within: wait) else {
            throw Problem(
                .positionNotReached,
                "The ledger did not reach position \(position) within \(wait); ask again.", param: "min_position")
        }
    }

    private func poll() async {
        while !waiters.isEmpty {
            try? await clock.sleep(for: Self.interval)
            // While the database is away the waiters wait on, until their deadlines.
            let reached = (try? await head()) ?? 0
            let now = clock.now
            let settled = waiters.filter { $0.position <= reached || $0.deadline <= now }
            waiters.removeAll { $0.position <= reached || $0.deadline <= now }
            for waiter in settled { waiter.continuation.resume(returning: waiter.position <= reached) }
        }
        isPolling = false
    }
}
