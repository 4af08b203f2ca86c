import Foundation
import Glibc
import Synchronization

/// How much processor time the run's PostgreSQL has taken, as the kernel counts it.
enum DatabaseProcessorTime {
    /// The server's first process; 0 while there is none.
    private static let postmaster = Mutex<pid_t>(0)

    /// Finds the server of a cluster.
    static func watch(clusterDirectory: URL) {
        let file = try? String(contentsOf: clusterDirectory.appending(path: "postmaster.pid"), encoding: .utf8)
        let line = file?.split(separator: "\n").first
        postmaster.withLock { $0 = line.flatMap { pid_t($0) } ?? 0 }
    }

    /// Of all its processes, those that have ended included.
    static func total() -> Duration {
        let postmaster = postmaster.withLock { $0 }
        guard postmaster > 0 else { return .zero }
        let children = try? String(
            contentsOfFile: "/proc/\(postmaster)/task/\(postmaster)/children", encoding: .utf8)
        let living = (children ?? "").split(separator: " ").compactMap { pid_t($0) }
        let all = ticks(of: postmaster, fields: 13...16) + living.reduce(0) { $0 + ticks(of: $1, fields: 13...14) }
        return .seconds(1) * all / sysconf(Int32(_SC_CLK_TCK))
    }

    /// Fields of `/proc/…/stat`, counted from 0: user and system time, then those of ended children.
    private static func ticks(of process: pid_t, fields: ClosedRange<Int>) -> Int {
        guard let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return 0 }
        // The second field is a name in parentheses that may hold spaces.
        let rest = text.split(separator: ")").last?.split(separator: " ") ?? []
        return fields.reduce(0) { sum, field in
            let index = field - 2
            return sum + (rest.indices.contains(index) ? Int(rest[index]) ?? 0 : 0)
        }
    }
}
