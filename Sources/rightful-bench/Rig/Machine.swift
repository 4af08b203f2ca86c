import Foundation
import Glibc

/// What the figures were measured on.
struct Machine: Codable, Sendable {
    let processor: String
    let cores: Int
    let memoryGiB: Double
    let kernel: String
    let system: String
    /// Where the database lay.
    let fileSystem: String

    enum CodingKeys: String, CodingKey {
        case processor, cores, kernel, system
        case memoryGiB = "memory_gib"
        case fileSystem = "file_system"
    }

    /// The processors that this process may use.
    static var cores: Int { ProcessInfo.processInfo.activeProcessorCount }

    /// This machine, with the file system of a directory.
    init(directory: WorkDirectory) {
        func first(_ prefix: String, in path: String) -> String? {
            (try? String(contentsOfFile: path, encoding: .utf8))?.split(separator: "\n").first { $0.hasPrefix(prefix) }
                .map { line in
                    line.dropFirst(prefix.count).drop { " \t:=\"".contains($0) }.trimmingCharacters(in: ["\"", " "])
                }
        }
        processor = first("model name", in: "/proc/cpuinfo") ?? "unknown"
        cores = Self.cores
        memoryGiB = (Double(ProcessInfo.processInfo.physicalMemory) / Double(1 << 30) * 10).rounded() / 10
        kernel =
            (try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8))?
            .trimmingCharacters(in: .whitespacesAndNewlines) ?? "unknown"
        system = first("PRETTY_NAME", in: "/etc/os-release") ?? "unknown"
        fileSystem = Self.fileSystem(of: directory.root.path())
    }

    private static func fileSystem(of path: String) -> String {
        // The longest mount point that the path begins with.
        let mounts = (try? String(contentsOfFile: "/proc/mounts", encoding: .utf8)) ?? ""
        let fields = mounts.split(separator: "\n").map { $0.split(separator: " ") }.filter { $0.count > 2 }
        let mount = fields.filter { $0[1] == "/" || path.hasPrefix($0[1] + "/") }.max { $0[1].count < $1[1].count }
        return mount.map { String($0[2]) } ?? "unknown"
    }
}
