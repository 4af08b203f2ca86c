import CMicroHTTPD
import Glibc
import Synchronization

/// Counts open connections, and wakes the acceptor when there is room again.
final class ConnectionGate: Sendable {
    /// An eventfd, readable when the acceptor should look around; -1 if the system gave none.
    let wakeup = cmhd_eventfd()
    private let limit: Int
    private let open = Atomic(0)

    init(limit: Int) { self.limit = limit }

    deinit { if wakeup >= 0 { close(wakeup) } }

    var hasRoom: Bool { open.load(ordering: .relaxed) < limit }

    func enter() { open.add(1, ordering: .relaxed) }

    func leave() {
        if open.subtract(1, ordering: .relaxed).oldValue >= limit { wake() }
    }

    func wake() {
        var one: UInt64 = 1
        _ = write(wakeup, &one, MemoryLayout<UInt64>.size)
    }

    /// Forgets the wake-ups so far.
    func reset() {
        var count: UInt64 = 0
        _ = read(wakeup, &count, MemoryLayout<UInt64>.size)
    }
}
