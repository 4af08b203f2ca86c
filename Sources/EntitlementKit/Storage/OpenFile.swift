import Foundation

/// An open file; closed with its last use.
struct OpenFile: ~Copyable {
    /// What tells one content from another, and its length in bytes.
    struct State {
        let size: Int
        let version: StorageVersion
    }

    private let descriptor: Int32

    /// Opens a file; `nil` where there is none.
    ///
    /// - Throws: where it cannot be opened now, as before a device is first unlocked.
    init?(path: String, flags: Int32) throws {
        let opened = open(path, flags | O_CLOEXEC, 0o600)
        guard opened >= 0 else {
            let error = POSIXError.Code.current
            guard error == .ENOENT || error == .ENOTDIR else { throw POSIXError(error) }
            return nil
        }
        descriptor = opened
    }

    deinit { close(descriptor) }

    func state() throws -> State {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw POSIXError(.current) }
        #if canImport(Darwin)
        let changed = status.st_mtimespec
        #else
        let changed = status.st_mtim
        #endif
        return State(
            size: Int(status.st_size),
            version: StorageVersion(
                rawValue: "\(status.st_ino)-\(status.st_size)-\(changed.tv_sec).\(changed.tv_nsec)"))
    }

    /// The first bytes, as many as told.
    func read(_ count: Int) throws -> Data {
        var data = Data(count: count)
        var done = 0
        while done < count {
            let read = data.withUnsafeMutableBytes { bytes in
                pread(descriptor, bytes.baseAddress?.advanced(by: done), count - done, off_t(done))
            }
            guard read >= 0 else { throw POSIXError(.current) }
            guard read > 0 else { return data.prefix(done) }
            done += read
        }
        return data
    }

    func lastByte(of size: Int) throws -> UInt8 {
        var byte: UInt8 = 0
        guard pread(descriptor, &byte, 1, off_t(size - 1)) == 1 else { throw POSIXError(.current) }
        return byte
    }

    /// Writes all of it.
    func write(_ data: Data) throws {
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
        try handle.write(contentsOf: data)
    }

    /// Takes back what was only written in part.
    func truncate(to size: Int) { _ = ftruncate(descriptor, off_t(size)) }

    /// Returns when everything is on the medium, where the system can tell, else on the device.
    func synchronize() throws {
        #if canImport(Darwin)
        // Apple's fsync leaves it in the device's own cache.
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return }
        #endif
        guard fsync(descriptor) == 0 else { throw POSIXError(.current) }
    }
}

/// A lock that one process at a time holds, and that ends with the process.
struct FileLock: ~Copyable {
    private let descriptor: Int32

    /// Takes it; `nil` where somebody else has it.
    init?(path: String) throws {
        let opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard opened >= 0 else { throw POSIXError(.current) }
        guard flock(opened, LOCK_EX | LOCK_NB) == 0 else {
            let error = POSIXError.Code.current
            close(opened)
            guard error == .EWOULDBLOCK else { throw POSIXError(error) }
            return nil
        }
        descriptor = opened
    }

    deinit { close(descriptor) }
}

extension POSIXError.Code {
    /// What the last call failed with.
    static var current: Self { Self(rawValue: errno) ?? .EIO }
}
