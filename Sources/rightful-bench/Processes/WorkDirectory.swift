import Foundation
import Glibc

/// Where everything of one run lives; removed at its end.
final class WorkDirectory: Sendable {
    let root: URL
    private let numbers = Ticket()

    /// Makes a directory named after this process, and removes what killed runs left behind.
    init(under parent: String?) throws {
        let parent = parent.map { URL(filePath: $0) } ?? FileManager.default.temporaryDirectory
        Self.removeLeftovers(in: parent)
        root = parent.appending(path: "\(Self.prefix)\(getpid())")
        try FileManager.default.createDirectory(
            at: root, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    func path(_ name: String) -> String { root.appending(path: name).path() }

    func nextNumber() -> Int { numbers.take() }

    func remove() { try? FileManager.default.removeItem(at: root) }

    private static let prefix = "rightful-bench-"

    private static func removeLeftovers(in parent: URL) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: parent.path())) ?? [] {
            guard name.hasPrefix(prefix), let pid = pid_t(name.dropFirst(prefix.count)), kill(pid, 0) != 0,
                errno == ESRCH
            else { continue }
            try? FileManager.default.removeItem(at: parent.appending(path: name))
        }
    }
}
