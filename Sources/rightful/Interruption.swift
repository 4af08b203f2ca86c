import Dispatch
import Glibc
import Synchronization

/// Turns SIGINT, SIGTERM and the SIGHUP of a terminal that is closed into an orderly end, and a SIGINT or SIGTERM that comes later
/// into an immediate one.
final class Interruption {
    private let sources: [any DispatchSourceSignal]

    init(_ interrupt: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "signals")
        let first = FirstSignal()
        // Under `nohup`, a terminal's end ends nothing.
        let numbers = Self.isIgnored(SIGHUP) ? [SIGINT, SIGTERM] : [SIGINT, SIGTERM, SIGHUP]
        sources = numbers.map { number in
            // Or the default action, to end the process, would be taken before anybody is told.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler {
                if number != SIGHUP, first.isLongAgo(at: .now) { _exit(1) }
                interrupt()
            }
            source.resume()
            return source
        }
    }

    /// Whether whoever started this process has it ignore a signal.
    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        sigaction(number, nil, &action)
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
            == unsafeBitCast(SIG_IGN, to: Int.self)
    }

    /// Returns when the current task is cancelled.
    static func wait() async {
        for await _ in AsyncStream<Never>.makeStream().stream {}
    }
}

/// When somebody first asked for the end.
///
/// What comes right after is the same wish: `timeout` signals its child and then the group that the child is in.
final class FirstSignal: Sendable {
    static let leastDistance = Duration.milliseconds(500)

    private let instant = Mutex<ContinuousClock.Instant?>(nil)

    /// Notes a signal; returns whether the first came so long before that this one is another wish.
    func isLongAgo(at now: ContinuousClock.Instant) -> Bool {
        instant.withLock { instant in
            guard let first = instant else {
                instant = now
                return false
            }
            return now - first >= Self.leastDistance
        }
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
