internal import Glibc

/// Processes that lost their parent, such as those of a PostgreSQL whose first process was killed.
///
/// The system makes them children of process 1, as which a program in a container may run. Nobody else collects their ends
/// then, and each counts towards the processes that the container may have.
package enum Orphans {
    /// Whether they become children of this process.
    package static var areOurs: Bool { getpid() == 1 }

    /// Collects those that have ended.
    package static func collect() { _ = ChildProcess.collectStrangers() }
}
