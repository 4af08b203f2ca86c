internal import Foundation
internal import Glibc

/// How much memory the server may count on, in MiB.
enum MachineMemory {
    /// What the machine has, or the least that the control groups of this process allow.
    ///
    /// The server is started by us and stays in our groups; in a container they are the container's.
    static func available() -> Int {
        let machine = Int(ProcessInfo.processInfo.physicalMemory >> 20)
        let limit = groupLimit(memberships: text("/proc/self/cgroup") ?? "", reading: text)
        return min(machine, limit ?? machine)
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
            let (root, file): (String, String)
            if fields[0] == "0", fields[1].isEmpty {
                (root, file) = ("/sys/fs/cgroup", "memory.max")
            } else if fields[1].split(separator: ",").contains("memory") {
                (root, file) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            } else {
                continue
            }
            var path = fields[2].split(separator: "/")
            while true {
                let name = ([root] + path.map(String.init) + [file]).joined(separator: "/")
                // Without a limit it says `max`, or a number beyond any machine's memory.
                if let bytes = reading(name).flatMap({ Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) }) {
                    limits.append(bytes >> 20)
                }
                guard path.popLast() != nil else { break }
            }
        }
        return limits.min()
    }

    private static func text(_ path: String) -> String? {
        guard let file = try? Descriptor.open(path, O_RDONLY) else { return nil }
        return String(decoding: file.bytes(at: 0, count: 16_384), as: UTF8.self)
    }
}
