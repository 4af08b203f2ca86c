private import Dispatch
private import Synchronization

/// Lets a transaction wait, before its commit, for the one that has to be committed before it.
///
/// One transaction `finish`es, at most one other waits, on its connection's own queue.
package final class TransactionTurn: Sendable {
    /// How long a transaction waits at most; what it waits for is bounded by the server's own limits.
    private static let longest = DispatchTimeInterval.seconds(60)

    private let isCommitted = Mutex<Bool?>(nil)
    /// Blocks the queue of the connection that waits, never one of Swift's own threads.
    private let finished = DispatchSemaphore(value: 0)

    package init() {}

    /// Whether nobody need wait any more.
    package var isFinished: Bool { isCommitted.withLock { $0 != nil } }

    /// Says what became of the transaction; only the first call counts.
    package func finish(committed: Bool) {
        let isFirst = isCommitted.withLock { state in
            guard state == nil else { return false }
            state = committed
            return true
        }
        if isFirst { finished.signal() }
    }

    /// Blocks until the transaction is finished, and returns whether it was committed; `false` when it takes too long.
    package func wait() -> Bool {
        if !isFinished { _ = finished.wait(timeout: .now() + Self.longest) }
        return isCommitted.withLock { $0 } == true
    }
}
