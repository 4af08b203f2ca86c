package import Foundation

/// Where tests keep the files of their databases and services.
package enum ScratchSpace {
    /// A directory in memory where there is room for it, else the system's temporary directory; the one that `TMPDIR`
    /// names, if it does.
    ///
    /// PostgreSQL makes some 300 files for each database. On a disk, making and removing them costs more processor time
    /// than all that a test then does with them.
    package static let directory: URL = {
        let inMemory = URL(filePath: "/dev/shm")
        guard ProcessInfo.processInfo.environment["TMPDIR"] == nil, freeBytes(in: inMemory) >= 4 << 30 else {
            return FileManager.default.temporaryDirectory
        }
        return inMemory
    }()

    private static func freeBytes(in directory: URL) -> Int64 {
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: directory.path())
        return (attributes?[.systemFreeSize] as? NSNumber)?.int64Value ?? 0
    }
}
