package import Foundation
import Synchronization

extension Process {
    /// Held while a process is started.
    private static let starting = Mutex(())

    /// Starts the process while no other one is started.
    ///
    /// Of eight that Foundation starts at the same time about one in two hundred inherits the socket by which it notices
    /// another one's end, and that one then seems to run for as long as its heir does.
    package func runAlone() throws { try Self.starting.withLock { _ in try run() } }

    /// Starts the process with no signal blocked.
    ///
    /// A child inherits the mask of the thread that starts it, and those that run Swift tasks block nearly all.
    package func runWithAllSignals() async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            Thread.detachNewThread {
                var none = sigset_t()
                sigemptyset(&none)
                pthread_sigmask(SIG_SETMASK, &none, nil)
                continuation.resume(with: Result { try self.runAlone() })
            }
        }
    }

    /// The status or the signal with which the process ended; `nil` while it runs.
    ///
    /// The kernel says it, and the process is left for Foundation, which may notice its end later, or has before.
    package var endStatus: Int32? {
        var information = siginfo_t()
        let found = waitid(P_PID, id_t(processIdentifier), &information, WEXITED | WNOHANG | WNOWAIT)
        if found == 0 {
            let child = information._sifields._sigchld
            return child.si_pid == processIdentifier ? child.si_status : nil
        }
        return isRunning ? nil : terminationStatus
    }

    /// Waits until the process has ended, and kills it after ten minutes; returns its status, or the signal that ended it.
    @discardableResult
    package func waitForEnd() -> Int32 {
        let end = ContinuousClock.now + .seconds(600)
        while true {
            if let status = endStatus { return status }
            if ContinuousClock.now > end { kill(processIdentifier, SIGKILL) }
            usleep(2000)
        }
    }
}
