package import Foundation

/// Where tests keep the files of their databases and services.
package enum ScratchSpace {
    /// The directory that `RIGHTFUL_TEST_SCRATCH` names, which test processes then share, else one of this process.
    ///
    /// It lies in memory where there is room for it, unless `TMPDIR` is set. PostgreSQL makes some 300 files for each
    /// database; on a disk, making and removing them costs more processor time than all that a test then does with them.
    ///
    /// A process leaves its directory, with the server's log, for whoever wants to read it; the next process removes it.
    package static let directory: URL = {
        let environment = ProcessInfo.processInfo.environment
        if let shared = environment["RIGHTFUL_TEST_SCRATCH"] { return URL(filePath: shared) }
        let inMemory = URL(filePath: "/dev/shm")
        let hasRoom = environment["TMPDIR"] == nil && freeBytes(in: inMemory) >= 4 << 30
        let parent = hasRoom ? inMemory : FileManager.default.temporaryDirectory
        removeLeftovers(in: parent)
        let directory = parent.appending(path: "\(prefix)\(getpid())")
        // The account that root serves as has to pass it.
        try? FileManager.default.createDirectory(
            at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
        return directory
    }()

    private static let prefix = "rightful-tests-"

    /// Removes the directories of processes that are gone.
    private static func removeLeftovers(in parent: URL) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: parent.path())) ?? []
        for name in names where name.hasPrefix(prefix) {
            guard let pid = pid_t(name.dropFirst(prefix.count)), kill(pid, 0) != 0 else { continue }
            try? FileManager.default.removeItem(at: parent.appending(path: name))
        }
    }

    private static func freeBytes(in directory: URL) -> Int64 {
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: directory.path())
        return (attributes?[.systemFreeSize] as? NSNumber)?.int64Value ?? 0
    }
}
