import Foundation
import Glibc

/// What the kernel says of processes.
enum ProcessStatistics {
    /// User and system time of a process; zero once it is gone.
    static func processorTime(of pid: pid_t) -> Duration { ticks(of: pid, fields: 13...14) }

    /// User and system time of this process.
    static func ownProcessorTime() -> Duration { processorTime(of: getpid()) }

    /// What a PostgreSQL server took: its first process, those it has waited for, and those that live.
    static func processorTime(ofServer postmaster: pid_t) -> Duration {
        let children = try? String(
            contentsOfFile: "/proc/\(postmaster)/task/\(postmaster)/children", encoding: .utf8)
        return (children ?? "").split(separator: " ").compactMap { pid_t($0) }
            .reduce(ticks(of: postmaster, fields: 13...16)) { $0 + ticks(of: $1, fields: 13...14) }
    }

    /// The most memory a process has ever held, in bytes; `nil` once it is gone.
    static func peakMemory(of pid: pid_t) -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("VmHWM:") })
        else { return nil }
        return line.split(separator: " ").compactMap { Int($0) }.first.map { $0 * 1024 }
    }

    /// How long all processors together have been busy since the machine started.
    static func machineBusyTime() -> Duration {
        guard let text = try? String(contentsOfFile: "/proc/stat", encoding: .utf8),
            let line = text.split(separator: "\n").first
        else { return .zero }
        let fields = line.split(separator: " ").compactMap { Int($0) }
        guard fields.count >= 8 else { return .zero }
        // user, nice, system, idle, iowait, irq, softirq, steal
        return duration(ticks: fields[0] + fields[1] + fields[2] + fields[5] + fields[6] + fields[7])
    }

    /// Fields of `/proc/…/stat`, counted from 0: user and system time, then those of children waited for.
    private static func ticks(of pid: pid_t, fields: ClosedRange<Int>) -> Duration {
        guard let text = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8) else { return .zero }
        // The second field is a name in parentheses that may hold spaces.
        let rest = text.split(separator: ")").last?.split(separator: " ") ?? []
        return duration(
            ticks: fields.reduce(0) { sum, field in
                rest.indices.contains(field - 2) ? sum + (Int(rest[field - 2]) ?? 0) : sum
            })
    }

    private static func duration(ticks: Int) -> Duration { .seconds(1) * ticks / sysconf(Int32(_SC_CLK_TCK)) }
}
