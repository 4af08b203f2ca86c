import Foundation
package import Glibc
import Ledger

/// The directory that checkpoints are written to.
package final class CheckpointDirectory: Sendable {
    package let path: String
    /// The directory as it was at the start, for a program that has given up root's rights since and may not pass the
    /// directories above; -1 where there was none.
    private let kept: Int32

    /// Opens the directory, where there is one.
    package init(_ path: String) {
        self.path = path
        kept = Self.open(path)
    }

    deinit { if kept >= 0 { close(kept) } }

    /// Makes a directory that is missing, and opens it again.
    ///
    /// - Parameter owner: whom root gives it to.
    package static func made(_ path: String, owner: (user: uid_t, group: gid_t)?) -> CheckpointDirectory {
        var status = stat()
        guard let owner, geteuid() == 0, stat(path, &status) != 0, errno == ENOENT else {
            return CheckpointDirectory(path)
        }
        let parent = path.parentDirectory
        try? FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        // Where somebody else could put another directory in its place, root gives none away.
        let isRoots =
            stat(parent, &status) == 0 && status.st_uid == 0
            && (status.st_mode & 0o022 == 0 || status.st_mode & S_ISVTX != 0)
        if isRoots, mkdir(path, 0o755) == 0, case let made = open(path), made >= 0 {
            _ = fchown(made, owner.user, owner.group)
            close(made)
        }
        return CheckpointDirectory(path)
    }

    /// Whether this program may write to it, as far as can be told now.
    package var isWritable: Bool {
        kept >= 0 ? faccessat(kept, ".", W_OK | X_OK, 0) == 0 : access(path, W_OK | X_OK) == 0
    }

    /// Writes the whole file or none of it; one that is there stays as it is.
    func write(_ text: String, name: String) throws {
        try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let (directory, current) = current()
        defer { if current >= 0 { close(current) } }
        guard directory >= 0 else { throw failure() }
        guard faccessat(directory, name, F_OK, 0) != 0 else { return }
        let draft = ".\(name).\(getpid())"
        unlinkat(directory, draft, 0)
        let file = openat(directory, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
        guard file >= 0 else { throw failure() }
        defer {
            close(file)
            unlinkat(directory, draft, 0)
        }
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { throw failure() }
            rest = rest.dropFirst(max(0, count))
        }
        guard fsync(file) == 0, renameat(directory, draft, directory, name) == 0, fsync(directory) == 0 else {
            throw failure()
        }
    }

    /// The longest checkpoint of a log that the directory holds, and its file's name.
    func longest(of origin: String) -> (checkpoint: Checkpoint, name: String)? {
        let (directory, current) = current()
        defer { if current >= 0 { close(current) } }
        guard directory >= 0 else { return nil }
        for name in Self.names(in: directory).filter({ $0.hasPrefix("checkpoint-") }).sorted(by: >) {
            let note = Self.read(name, in: directory).flatMap { SignedNote($0) }
            if let checkpoint = note.flatMap({ Checkpoint(text: $0.text) }), checkpoint.origin == origin {
                return (checkpoint, name)
            }
        }
        return nil
    }

    /// The directory that has the name now, which may be a file system that was mounted since; and what is to be closed.
    private func current() -> (directory: Int32, opened: Int32) {
        let opened = Self.open(path)
        return (opened >= 0 ? opened : kept, opened)
    }

    /// The files of the directory, which may have no path that this program can pass.
    private static func names(in directory: Int32) -> [String] {
        let own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard own >= 0 else { return [] }
        guard let entries = fdopendir(own) else {
            close(own)
            return []
        }
        defer { closedir(entries) }
        var names: [String] = []
        while let entry = readdir(entries) {
            names.append(
                withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) })
        }
        return names
    }

    /// What a file of the directory holds, as far as a checkpoint is long.
    private static func read(_ name: String, in directory: Int32) -> String? {
        let file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = bytes.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress, $0.count) }
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    private struct Failure: Error, CustomStringConvertible { let description: String }

    private func failure() -> Failure {
        let code = errno
        return Failure(description: "no checkpoint could be written to \(path): \(String(cString: strerror(code)))")
    }

    private static func open(_ path: String) -> Int32 { Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
}
