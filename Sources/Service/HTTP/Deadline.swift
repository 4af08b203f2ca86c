/// Waits no longer than `limit` for work, even if it does not react to cancellation; `nil` when the time is up.
///
/// The work is then cancelled and left to itself; its result is lost.
func within<Value: Sendable>(
    _ limit: Duration, _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
    let (values, continuation) = AsyncThrowingStream<Value, any Error>.makeStream()
    let worker = Task {
        do {
            continuation.yield(try await work())
            continuation.finish()
        } catch {
            continuation.finish(throwing: error)
        }
    }
    let timer = Task {
        try await Task.sleep(for: limit)
        continuation.finish()
    }
    defer {
        worker.cancel()
        timer.cancel()
    }
    for try await value in values { return value }
    // Whoever is cancelled hears no more, too, and that says nothing of the time.
    try Task.checkCancellation()
    return nil
}
