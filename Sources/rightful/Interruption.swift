import Dispatch
import Glibc
import Synchronization

/// Turns SIGINT and SIGTERM into an orderly end, and the second of them into an immediate one.
final class Interruption {
    private let sources: [any DispatchSourceSignal]

    init(_ interrupt: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "signals")
        let count = Counter()
        // Whoever starts a process with a signal ignored, as a shell does in the background, means it.
        sources = [SIGINT, SIGTERM].filter { !Self.isIgnored($0) }.map { number in
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

    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        sigaction(number, nil, &action)
        // C functions do not compare; SIG_IGN is the address 1 on every Linux.
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
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

/// Runs work that the cancellation of the current task must not touch: what was begun is brought to its end.
func uninterrupted<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await Task { try await body() }.value
}
