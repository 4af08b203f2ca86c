internal import Glibc

/// A file descriptor closed with its last reference; every open file here is close-on-exec.
final class Descriptor: Sendable {
    let number: Int32

    init(owning number: Int32) { self.number = number }

    deinit { close(number) }

    static func open(_ path: String, _ flags: Int32, mode: mode_t = 0o600) throws(EmbeddedPostgresError) -> Descriptor {
        let number = Glibc.open(path, flags | O_CLOEXEC, mode)
        guard number >= 0 else { throw .system("open", path) }
        return Descriptor(owning: number)
    }

    /// Opens a file of this directory that `owner` made: no link, and no file that has another name somewhere else.
    func open(_ name: String, of owner: uid_t, _ flags: Int32) throws(EmbeddedPostgresError) -> Descriptor {
        let file = openat(number, name, flags | O_CLOEXEC | O_NOFOLLOW)
        guard file >= 0 else { throw .system("open", name) }
        let descriptor = Descriptor(owning: file)
        guard let status = descriptor.status, status.isRegular, status.st_uid == owner, status.st_nlink == 1 else {
            throw EmbeddedPostgresError(.directory, "\(name) of the new cluster was replaced by something else")
        }
        return descriptor
    }

    /// What `fstat` says.
    var status: stat? {
        var status = stat()
        return fstat(number, &status) == 0 ? status : nil
    }

    static func pipe() throws(EmbeddedPostgresError) -> (reading: Descriptor, writing: Descriptor) {
        var ends: [Int32] = [0, 0]
        guard Glibc.pipe(&ends) == 0 else { throw .system("pipe", "for a child") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (Descriptor(owning: ends[0]), Descriptor(owning: ends[1]))
    }

    enum Lock {
        case shared, exclusive
    }

    /// Takes or changes a lock without waiting.
    ///
    /// The lock belongs to the open file, which children that inherit it share: it is gone when the last of them is,
    /// however they end.
    func tryLock(_ lock: Lock) -> Bool {
        flock(number, (lock == .shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0
    }
}

extension EmbeddedPostgresError {
    /// The last system call's failure.
    static func system(_ call: String, _ path: String) -> EmbeddedPostgresError {
        let code = errno
        return EmbeddedPostgresError(.directory, "\(call) \(path): \(String(cString: strerror(code)))")
    }
}

/// What `lstat` says, or `nil` when there is nothing.
func fileStatus(_ path: String) -> stat? {
    var status = stat()
    return lstat(path, &status) == 0 ? status : nil
}

func isExecutable(_ path: String) -> Bool { access(path, X_OK) == 0 }

extension stat {
    var isDirectory: Bool { st_mode & S_IFMT == S_IFDIR }
    var isRegular: Bool { st_mode & S_IFMT == S_IFREG }
}
