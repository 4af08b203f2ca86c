/// Work that callers share: all who ask for it while a run is under way wait for the next run, which begins after they
/// asked.
actor SharedWork {
    private let work: @Sendable () async throws -> Void
    private var running: Task<Void, any Error>?
    private var next: Task<Void, any Error>?

    init(_ work: @escaping @Sendable () async throws -> Void) { self.work = work }

    /// Waits for a run that began after this call.
    ///
    /// - Throws: what the work threw. It goes on when the current task is cancelled.
    func join() async throws {
        if let next { return try await next.value }
        let before = running
        let task = Task {
            if let before {
                _ = await before.result
                running = next
                next = nil
            }
            try await work()
        }
        if before == nil {
            running = task
        } else {
            next = task
        }
        defer { if running == task { running = nil } }
        try await task.value
    }
}
