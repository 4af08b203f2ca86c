import Foundation
import Glibc
import Synchronization

/// The programs that run for the benchmark, to be ended when somebody interrupts it.
enum LivingChildren {
    private static let pids = Mutex<[pid_t]>([])
    private static let cleanUps = Mutex<[@Sendable () -> Void]>([])
    private static let interrupted = Atomic(false)

    static func add(_ pid: pid_t) { pids.withLock { $0.append(pid) } }

    static func remove(_ pid: pid_t) { pids.withLock { $0.removeAll { $0 == pid } } }

    /// What is to be done once all children are gone.
    static func whenInterrupted(_ cleanUp: @escaping @Sendable () -> Void) {
        cleanUps.withLock { $0.append(cleanUp) }
    }

    /// Whether the benchmark is being stopped from outside; its own errors are then of no interest.
    static var isInterrupted: Bool { interrupted.load(ordering: .acquiring) }

    /// From now on SIGINT, SIGTERM and SIGHUP end all children, the last started first, and then the benchmark.
    ///
    /// To be called on the main thread before there are others, which then leave these signals alone too.
    static func watchSignals() {
        var awaited = sigset_t()
        sigemptyset(&awaited)
        for number in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&awaited, number) }
        pthread_sigmask(SIG_BLOCK, &awaited, nil)
        Thread.detachNewThread { [awaited] in
            var (signals, number) = (awaited, Int32())
            while sigwait(&signals, &number) != 0 {}
            interrupt()
        }
    }

    private static func interrupt() {
        interrupted.store(true, ordering: .releasing)
        // A service lets go of the database before the keeper stops it.
        for pid in pids.withLock({ Array($0.reversed()) }) {
            kill(pid, SIGTERM)
            guard !hasEnded(pid, within: .seconds(20)) else { continue }
            kill(pid, SIGKILL)
            _ = hasEnded(pid, within: .seconds(5))
        }
        for cleanUp in cleanUps.withLock({ $0 }) { cleanUp() }
        exit(130)
    }

    /// Either this thread or the main one collects it.
    private static func hasEnded(_ pid: pid_t, within limit: Duration) -> Bool {
        let end = ContinuousClock.now + limit
        while ContinuousClock.now < end {
            if waitpid(pid, nil, WNOHANG) != 0 { return true }
            usleep(5000)
        }
        return false
    }
}
