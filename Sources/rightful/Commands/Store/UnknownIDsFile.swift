import EntitlementCore
import Foundation
import Glibc
import Synchronization

/// Where the ids go that the store does not know: one a line, each written once its page is done, for its owner's eyes alone.
final class UnknownIDsFile: Sendable {
    private let path: String
    private let descriptor: Int32
    private let written = Mutex(0)

    /// Makes the file, or empties it.
    ///
    /// - Parameter lists: the files that are imported, which it must not be.
    /// - Throws: `CommandFailure` where it cannot be written.
    init(_ path: String, besides lists: [String]) throws {
        self.path = path
        guard !lists.contains(where: { Self.isSame($0, path) }) else {
            throw CommandFailure(
                description: "\(path) is the list that is imported; nothing was imported")
        }
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0, fchmod(descriptor, 0o600) == 0 else { throw Self.failure(path) }
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Writes those that were not written yet.
    func write(_ ids: [String]) throws {
        try written.withLock { written in
            guard ids.count > written else { return }
            let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
            do {
                try handle.write(contentsOf: Data(ids[written...].map { "\($0)\n" }.joined().utf8))
            } catch {
                throw Self.failure(path)
            }
            written = ids.count
        }
    }

    private static func failure(_ path: String) -> CommandFailure {
        CommandFailure(description: "\(path) cannot be written: \(String(cString: strerror(errno)))")
    }

    private static func isSame(_ one: String, _ other: String) -> Bool {
        var (first, second) = (stat(), stat())
        guard stat(one, &first) == 0, stat(other, &second) == 0 else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }
}
