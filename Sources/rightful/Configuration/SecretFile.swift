import Foundation
import Glibc
import OpenSSLCrypto

/// A file that only its owner may read.
enum SecretFile {
    /// Makes a file with mode 0600; does nothing when somebody else made it meanwhile.
    ///
    /// It is there as a whole or not at all: it is written under another name and then linked to its own, which fails
    /// for all but the first of those who try at once. In a directory of somebody else's, root leaves it to that owner.
    static func make(_ path: String, holding text: String) throws {
        let directory = directory(of: path)
        let draft = draft(of: path)
        defer { unlink(draft) }
        try write(Array(text.utf8), to: draft, ownerOf: directory)
        guard link(draft, path) == 0 || errno == EEXIST else { throw failure("make", path) }
        try syncDirectory(directory)
    }

    /// Makes a file with mode 0600, in the place of the one that is there; whoever reads meanwhile reads either.
    ///
    /// - Parameter isLeft: whether root leaves it to the directory's owner.
    static func replace(_ path: String, holding bytes: [UInt8], isLeft: Bool = true) throws {
        let directory = directory(of: path)
        let draft = draft(of: path)
        defer { unlink(draft) }
        try write(bytes, to: draft, ownerOf: isLeft ? directory : nil)
        guard rename(draft, path) == 0 else { throw failure("replace", path) }
        try syncDirectory(directory)
    }

    /// Whether others than a file's owner may read or change it; `false` for one that is not there.
    static func isOpenToOthers(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & (S_IRWXG | S_IRWXO) != 0
    }

    private static func directory(of path: String) -> String {
        let directory = (path as NSString).deletingLastPathComponent
        return directory.isEmpty ? "." : directory
    }

    private static func draft(of path: String) -> String {
        "\(path).\(getpid())-\(Base64.encodeURL(SecureRandom.bytes(9)))"
    }

    private static func syncDirectory(_ directory: String) throws {
        let folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { throw failure("open", directory) }
        defer { close(folder) }
        guard fsync(folder) == 0 else { throw failure("write", directory) }
    }

    private static func write(_ bytes: [UInt8], to path: String, ownerOf directory: String?) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw failure("make", path) }
        defer { close(file) }
        var status = stat()
        if geteuid() == 0, let directory, stat(directory, &status) == 0, fchown(file, status.st_uid, status.st_gid) != 0
        {
            throw failure("chown", path)
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { throw failure("write", path) }
            rest = rest.dropFirst(max(0, count))
        }
        guard fsync(file) == 0 else { throw failure("write", path) }
    }

    private static func failure(_ action: String, _ path: String) -> CommandFailure {
        let code = errno
        return CommandFailure(description: "cannot \(action) \(path): \(String(cString: strerror(code)))")
    }
}
