internal import Foundation
internal import Glibc

/// How much memory this process and what it starts may count on, in MiB.
package enum MachineMemory {
    /// What the machine has, or the least that the control groups of this process allow.
    ///
    /// Whoever starts the server decides this: it stays in the groups of its starter, in a container those of the container.
    package static func available() -> Int {
        let machine =
            text("/proc/meminfo").flatMap(total(inMeminfo:))
            ?? Int(ProcessInfo.processInfo.physicalMemory >> 20)
        return min(machine, groupLimit(memberships: text("/proc/self/cgroup") ?? "", reading: text) ?? machine)
    }

    /// What `/proc/meminfo` says, in MiB; a container of LXC is told its own limit there, and nowhere else.
    static func total(inMeminfo text: String) -> Int? {
        guard let line = text.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix("MemTotal:") }) else {
            return nil
        }
        return line.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 >> 10 }
    }

    /// The least limit, in MiB, of a process's control groups and of those above them; `nil` where none sets any.
    ///
    /// - Parameters:
    ///   - memberships: `/proc/self/cgroup`: lines `id:controllers:path`, of the second version `0::path`.
    ///   - reading: the text of a file, `nil` where there is none.
    /// - Source: the Linux kernel's documentation, "Control Group v2" and "Memory Resource Controller".
    static func groupLimit(memberships: String, reading: (String) -> String?) -> Int? {
        var limits: [Int] = []
        for line in memberships.split(whereSeparator: \.isNewline) {
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let (root, files): (String, [String])
            if fields[0] == "0", fields[1].isEmpty {
                // Above `memory.high` a group is slowed down until it is of no use.
                (root, files) = ("/sys/fs/cgroup", ["memory.max", "memory.high"])
            } else if fields[1].split(separator: ",").contains("memory") {
                (root, files) = ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes"])
            } else {
                continue
            }
            let names = fields[2].split(separator: "/").map(String.init)
            let groups = (0...names.count).map { ([root] + names.prefix($0)).joined(separator: "/") }
            for file in groups.flatMap({ group in files.map { "\(group)/\($0)" } }) {
                // Without a limit it says `max`, or a number beyond any machine's memory.
                if let bytes = reading(file).flatMap({ Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) }) {
                    limits.append(bytes >> 20)
                }
            }
        }
        return limits.min()
    }

    private static func text(_ path: String) -> String? {
        guard let file = try? Descriptor.open(path, O_RDONLY) else { return nil }
        return String(decoding: file.bytes(at: 0, count: 16_384), as: UTF8.self)
    }
}
