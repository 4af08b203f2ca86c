import Dispatch
import PostgresClient

extension PostgresPool {
    /// Occupies a connection until the gate is signalled.
    func hold() async throws -> (Task<Void, any Error>, DispatchSemaphore) {
        let gate = DispatchSemaphore(value: 0)
        let (held, holding) = AsyncStream.makeStream(of: Void.self)
        let holder = Task {
            try await withConnection { _ in
                holding.yield()
                gate.wait()
            }
        }
        for await _ in held { break }
        return (holder, gate)
    }
}
