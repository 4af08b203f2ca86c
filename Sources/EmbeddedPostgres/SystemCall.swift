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
        // What is no file, such as a pipe, must not make us wait.
        let file = openat(number, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else { throw .system("open", name) }
        let descriptor = Descriptor(owning: file)
        guard let status = descriptor.status, status.isRegular, status.st_uid == owner, status.st_nlink == 1 else {
            throw EmbeddedPostgresError(.directory, "\(name) of the cluster was replaced by something else")
        }
        return descriptor
    }

    /// Makes an empty file in this directory, which belongs to the server's account.
    func create(_ name: String, for server: ServiceAccount) throws(EmbeddedPostgresError) -> Descriptor {
        let file = openat(number, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw .system("create", name) }
        let descriptor = Descriptor(owning: file)
        if geteuid() == 0, fchown(file, server.user, server.group) != 0 { throw .system("chown", name) }
        return descriptor
    }

    /// Opens this directory once more, with locks of its own.
    func openAgain() throws(EmbeddedPostgresError) -> Descriptor {
        let directory = openat(number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw .system("open", "a directory again") }
        return Descriptor(owning: directory)
    }

    /// Removes a file of this directory, where there is one.
    func unlink(_ name: String) throws(EmbeddedPostgresError) {
        guard unlinkat(number, name, 0) == 0 || errno == ENOENT else { throw .system("unlink", name) }
    }

    /// Reads the file's bytes from `offset` on, at most `count`; none where that fails.
    func bytes(at offset: Int, count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            while initialized < count {
                let got = pread(
                    number, buffer.baseAddress?.advanced(by: initialized), count - initialized,
                    off_t(offset + initialized))
                if got < 0, errno == EINTR { continue }
                guard got > 0 else { break }
                initialized += got
            }
        }
    }

    /// Writes all of it where the file stands.
    func write(_ bytes: [UInt8], _ name: String) throws(EmbeddedPostgresError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(number, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { throw .system("write", name) }
            rest = rest.dropFirst(max(0, count))
        }
    }

    /// Makes the file empty.
    func empty(_ name: String) throws(EmbeddedPostgresError) {
        guard ftruncate(number, 0) == 0, lseek(number, 0, SEEK_SET) == 0 else { throw .system("truncate", name) }
    }

    /// Brings what was written to the disk.
    func sync(_ name: String) throws(EmbeddedPostgresError) {
        guard fsync(number) == 0 else { throw .system("fsync", name) }
    }

    /// Gives the file a mode, whatever the umask.
    func setMode(_ mode: mode_t, _ name: String) throws(EmbeddedPostgresError) {
        guard fchmod(number, mode) == 0 else { throw .system("chmod", name) }
    }

    /// Brings a directory's entries to the disk.
    static func sync(directory path: String) throws(EmbeddedPostgresError) {
        try open(path, O_RDONLY | O_DIRECTORY).sync(path)
    }

    /// What `fstat` says.
    var status: stat? {
        var status = stat()
        return fstat(number, &status) == 0 ? status : nil
    }

    /// How long the file is, in bytes; 0 where the system does not say.
    var size: Int { status.map { Int($0.st_size) } ?? 0 }

    /// How large the file system is in which the file lies, in MiB; `nil` where it does not say.
    var fileSystemMebibytes: Int? {
        var status = statvfs()
        guard fstatvfs(number, &status) == 0, status.f_blocks > 0, status.f_frsize > 0 else { return nil }
        // Not multiplied: file systems of networks may say sizes that no number of bytes can hold.
        return Int(clamping: status.f_blocks / max(1, (1 << 20) / status.f_frsize))
    }

    static func pipe() throws(EmbeddedPostgresError) -> (reading: Descriptor, writing: Descriptor) {
        var ends: [Int32] = [0, 0]
        guard Glibc.pipe(&ends) == 0 else { throw .system("pipe", "for a child") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (Descriptor(owning: ends[0]), Descriptor(owning: ends[1]))
    }

    /// Reads what a pipe holds at this instant, at most 64 KiB, which is all that fits into one.
    func available() -> [UInt8] {
        _ = fcntl(number, F_SETFL, O_NONBLOCK)
        return [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, initialized in
            initialized = max(0, read(number, buffer.baseAddress, buffer.count))
        }
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

    func unlock() { _ = flock(number, LOCK_UN) }
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
