import CMicroHTTPD
import Glibc
import Synchronization

/// What other threads ask of the event loop.
enum LoopMessage: Sendable {
    /// The handler of an exchange has answered.
    case finished(exchange: UInt64, HTTPResponse)
    /// The gate of an exchange has answered; `nil` lets its body come.
    case gated(exchange: UInt64, HTTPResponse?)
    /// The server is to end; the continuation is resumed when it has.
    case stop(grace: Duration, CheckedContinuation<Void, Never>)
}

/// Carries messages to the event loop, and wakes it: once, however many messages come before it looks.
final class LoopMailbox: Sendable {
    /// An eventfd that is readable when there is something to look at; -1 if the system gave none.
    let descriptor = cmhd_eventfd()
    private let messages = Mutex<[LoopMessage]>([])
    private let isSignalled = Atomic(false)

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Leaves a message.
    ///
    /// As many may wait as there are handlers in flight, which the loop limits.
    func post(_ message: LoopMessage) {
        messages.withLock { $0.append(message) }
        wake()
    }

    /// Makes the loop begin another turn.
    func wake() {
        guard !isSignalled.exchange(true, ordering: .acquiringAndReleasing) else { return }
        var one: UInt64 = 1
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Takes the messages so far; for the loop alone, when the descriptor is readable.
    func take() -> [LoopMessage] {
        var count: UInt64 = 0
        _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
        // Before the messages are taken: whoever comes later signals again.
        isSignalled.store(false, ordering: .sequentiallyConsistent)
        return messages.withLock { messages in
            defer { messages = [] }
            return messages
        }
    }
}

/// Lets other threads begin a turn of the event loop, at the end of which its `ImmediateHandler` is called.
package struct LoopWaker: Sendable {
    let mailbox: LoopMailbox

    /// Wakes the loop; it does no harm after the loop has ended.
    package func wake() { mailbox.wake() }
}
