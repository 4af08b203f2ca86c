import Dispatch
import Glibc
import Synchronization

/// Turns SIGINT and SIGTERM into an orderly end, and the second of them into an immediate one.
final class Interruption {
    private let sources: [any DispatchSourceSignal]

    init(_ interrupt: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "signals")
        let count = Counter()
        sources = [SIGINT, SIGTERM].map { number in
            // Or the default action, to end the process, would be taken before anybody is told.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler {
                if count.next() > 1 { _exit(1) }
                interrupt()
            }
            source.resume()
            return source
        }
    }

    private final class Counter: Sendable {
        private let value = Atomic(0)
        func next() -> Int { value.add(1, ordering: .relaxed).newValue }
    }

    /// Returns when the current task is cancelled.
    static func wait() async {
        for await _ in AsyncStream<Never>.makeStream().stream {}
    }
}

/// That a task was cancelled, for work of it that runs uninterrupted and may end early at some points alone.
final class HeardCancellation: Sendable {
    private let value = Atomic(false)

    var isHeard: Bool { value.load(ordering: .relaxed) }

    func hear() { value.store(true, ordering: .relaxed) }
}

/// Runs work that the cancellation of the current task must not touch: what was begun is brought to its end.
func uninterrupted<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await Task { try await body() }.value
}
