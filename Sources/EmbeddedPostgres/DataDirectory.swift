internal import Glibc

/// The directory in which a service keeps what is its own.
package enum DataDirectory {
    /// Makes it where it is missing, and those above it, for nobody but its owner.
    package static func make(_ path: String) throws(EmbeddedPostgresError) {
        guard let failure = makeAll(path) else { return }
        throw EmbeddedPostgresError(
            .directory, "cannot make the data directory (data_dir) \(path): \(String(cString: strerror(failure)))")
    }

    /// Returns why that fails, where it does.
    private static func makeAll(_ path: String) -> Int32? {
        func make() -> Int32? {
            guard mkdir(path, 0o700) != 0 else { return nil }
            let failure = errno
            var status = stat()
            return failure == EEXIST && stat(path, &status) == 0 && status.isDirectory ? nil : failure
        }
        guard let failure = make() else { return nil }
        guard failure == ENOENT, let end = path.lastIndex(of: "/"), end > path.startIndex else { return failure }
        return makeAll(String(path[..<end])) ?? make()
    }
}
