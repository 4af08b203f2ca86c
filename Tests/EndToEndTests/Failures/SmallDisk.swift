import Foundation

/// A file system in memory that is small enough to be filled, mounted over a data directory.
struct SmallDisk {
    private static let megabytes = 384

    let directory: URL
    private var filler: URL { directory.appending(path: "filler") }

    /// Mounts one over an empty directory; `nil` where this process may not mount.
    init?(mountedOver directory: URL) {
        let options = "size=\(Self.megabytes)m,mode=0700"
        guard geteuid() == 0, mount("tmpfs", directory.path(), "tmpfs", 0, options) == 0 else { return nil }
        self.directory = directory
    }

    /// Writes until nothing more fits.
    func fill() {
        let descriptor = open(filler.path(), O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        // Half as much each time that so much does not fit, down to the last page.
        var size = 8 << 20
        let zeros = [UInt8](repeating: 0, count: size)
        while size >= 512 {
            if write(descriptor, zeros, size) <= 0 { size /= 2 }
        }
    }

    /// Gives back what `fill` took.
    func free() { unlink(filler.path()) }

    /// Takes the file system away, whoever still has files open in it.
    func unmount() { umount2(directory.path(), Int32(MNT_DETACH)) }
}
