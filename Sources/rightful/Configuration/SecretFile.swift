import EmbeddedPostgres
import Foundation
import Glibc
import OpenSSLCrypto
import Service

/// A file that only its owner may read.
enum SecretFile {
    /// Makes a file with mode 0600; does nothing when somebody else made it meanwhile.
    ///
    /// It is there as a whole or not at all: it is written under another name and then linked to its own, which fails
    /// for all but the first of those who try at once. In a directory of somebody else's, root leaves it to that owner.
    static func make(_ path: String, holding text: String) throws {
        let directory = path.parentDirectory
        let draft = draft(of: path)
        defer { unlink(draft) }
        try write(Array(text.utf8), to: draft, for: owner(.directoryOwner, of: path))
        guard link(draft, path) == 0 || errno == EEXIST else { throw failure("make", path) }
        try syncDirectory(directory)
    }

    /// Makes a file with mode 0600, in the place of the one that is there; whoever reads meanwhile reads either.
    ///
    /// - Parameter heir: to whom root leaves it.
    static func replace(_ path: String, holding bytes: [UInt8], heir: Heir = .directoryOwner) throws {
        let directory = path.parentDirectory
        let draft = draft(of: path)
        defer { unlink(draft) }
        try write(bytes, to: draft, for: owner(heir, of: path))
        guard rename(draft, path) == 0 else { throw failure("replace", path) }
        try syncDirectory(directory)
    }

    /// Whether others than a file's owner may read or change it; `false` for one that is not there.
    static func isOpenToOthers(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & (S_IRWXG | S_IRWXO) != 0
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

    /// To whom root leaves what it writes.
    enum Heir {
        /// Nobody: it stays root's.
        case nobody
        /// Whoever owns the directory.
        case directoryOwner
        /// Whoever owns the file that is replaced; for a new one in a directory of root's own, the account that serves.
        case server
    }

    private static func owner(_ heir: Heir, of path: String) -> (user: uid_t, group: gid_t)? {
        guard geteuid() == 0 else { return nil }
        var status = stat()
        switch heir {
        case .nobody: return nil
        case .directoryOwner: break
        case .server:
            if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG { return (status.st_uid, status.st_gid) }
        }
        guard stat(path.parentDirectory, &status) == 0 else { return nil }
        if case .server = heir, status.st_uid == 0, let account = try? ServiceAccount.own() {
            return (account.user, account.group)
        }
        return (status.st_uid, status.st_gid)
    }

    private static func write(
        _ bytes: [UInt8], to path: String, for owner: (user: uid_t, group: gid_t)?
    ) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw failure("make", path) }
        defer { close(file) }
        if let owner, fchown(file, owner.user, owner.group) != 0 { throw failure("chown", path) }
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
