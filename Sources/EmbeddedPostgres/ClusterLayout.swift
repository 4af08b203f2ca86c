internal import Foundation
internal import Glibc

/// The places of a cluster, and the user who owns and serves it.
struct ClusterLayout: Sendable {
    /// The caller's data directory; everything but the socket lies in it.
    let dataDirectory: String
    /// Where the server's Unix socket lies.
    ///
    /// Paths of sockets end at 107 bytes, so this is a short path of its own, named after the data directory's device
    /// and inode: the same however the directory is spelled and whoever asks, and unlike anybody else's.
    let socketDirectory: String

    var cluster: String { "\(dataDirectory)/postgres" }
    /// Where `initdb` works; becomes `cluster` by renaming, so that half a cluster is never taken for a whole one.
    var unfinished: String { "\(dataDirectory)/postgres.unfinished" }
    var log: String { "\(dataDirectory)/postgres.log" }
    /// Held exclusively while somebody makes, starts or stops the cluster.
    var startLock: String { "\(dataDirectory)/postgres.start.lock" }
    /// Held shared by everybody who uses the cluster.
    var usersLock: String { "\(dataDirectory)/postgres.users.lock" }
    var processFile: String { "\(cluster)/postmaster.pid" }

    static let port = 5432

    init(dataDirectory: String) throws(EmbeddedPostgresError) {
        do {
            try FileManager.default.createDirectory(
                atPath: dataDirectory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            // Foundation's error is for programs; the system call says it in words.
            let code = mkdir(dataDirectory, 0o700) == 0 ? 0 : errno
            throw EmbeddedPostgresError(
                .directory,
                "cannot make the data directory (data_dir) \(dataDirectory): \(String(cString: strerror(code)))")
        }
        var status = stat()
        guard stat(dataDirectory, &status) == 0 else { throw .system("stat", dataDirectory) }
        guard let resolved = realpath(dataDirectory, nil) else { throw .system("realpath", dataDirectory) }
        defer { free(resolved) }
        self.dataDirectory = String(cString: resolved)
        try Self.checkTrust(in: status, self.dataDirectory)
        socketDirectory = Self.socketDirectory(
            identity: String(status.st_dev, radix: 36) + "-" + String(status.st_ino, radix: 36),
            server: fileStatus("\(self.dataDirectory)/postgres")?.st_uid ?? geteuid())
    }

    /// Refuses, as root, a directory in which somebody else could put a link or a file of theirs in the place of ours.
    private static func checkTrust(in status: stat, _ path: String) throws(EmbeddedPostgresError) {
        guard geteuid() == 0 else { return }
        guard status.st_uid == 0 else {
            let name = getpwuid(status.st_uid).map { String(cString: $0.pointee.pw_name) } ?? "\(status.st_uid)"
            throw EmbeddedPostgresError(
                .directory,
                "the data directory (data_dir) \(path) belongs to the user \(name), and this is root: run it as that user, "
                    + "or give root a directory of its own")
        }
        guard status.st_mode & 0o022 == 0 else {
            throw EmbeddedPostgresError(
                .directory,
                "others may write to the data directory (data_dir) \(path), and this is root: chmod it to 700")
        }
    }

    /// The one that is there, else the one to make: root and the server's own user, who may not write to `/run`, have
    /// to meet in the same.
    private static func socketDirectory(identity: String, server: uid_t) -> String {
        let places = ["/run/rightful-\(identity)", "/tmp/rightful-\(server)-\(identity)"]
        let present = places.first { place in
            guard let status = fileStatus(place) else { return false }
            return status.isDirectory && status.st_uid == server && status.st_mode & 0o077 == 0
        }
        return present ?? (geteuid() == 0 && access("/run", W_OK) == 0 ? places[0] : places[1])
    }

    /// `host=… user=…` for libpq.
    func conninfo(user: String, database: String) -> String {
        "host=\(socketDirectory) port=\(Self.port) user=\(user) dbname=\(database)"
    }

    /// Who runs the server: the cluster's owner, or for a new one ourselves; when we are root, whom PostgreSQL refuses,
    /// `postgres`.
    func server() throws(EmbeddedPostgresError) -> ServerUser {
        if let status = fileStatus(cluster) {
            guard status.isDirectory, status.st_uid != 0 else {
                throw EmbeddedPostgresError(.directory, "\(cluster) is not a directory of an unprivileged user")
            }
            return ServerUser(user: status.st_uid, group: status.st_gid)
        }
        if geteuid() != 0 { return ServerUser(user: geteuid(), group: getegid()) }
        guard let entry = getpwnam("postgres") else {
            throw EmbeddedPostgresError(
                .notInstalled,
                "started as root, and there is no user 'postgres' to run PostgreSQL as (Debian: apt-get install "
                    + "postgresql)")
        }
        return ServerUser(user: entry.pointee.pw_uid, group: entry.pointee.pw_gid)
    }

    /// Opens a file of the data directory, and makes it where it is missing.
    func openShared(_ path: String, _ flags: Int32) throws(EmbeddedPostgresError) -> Descriptor {
        let file = try Descriptor.open(path, flags | O_CREAT | O_NOFOLLOW)
        guard file.status?.isRegular == true else {
            throw EmbeddedPostgresError(.directory, "\(path) is not a file; move it away")
        }
        return file
    }

    /// Makes the socket's directory, open to its owner only: whoever reaches the socket is trusted.
    func prepareSocketDirectory(for server: ServerUser) throws(EmbeddedPostgresError) {
        guard mkdir(socketDirectory, 0o700) == 0 || errno == EEXIST else { throw .system("mkdir", socketDirectory) }
        // In a shared directory such as /tmp, anybody may have made this one first, or a link. In /run only root makes
        // any: one of another owner was left by a data directory that is gone, whose inode this one has now.
        let isRoots = geteuid() == 0 && socketDirectory.hasPrefix("/run/")
        guard let status = fileStatus(socketDirectory), status.isDirectory,
            isRoots || status.st_uid == server.user || status.st_uid == geteuid(), status.st_mode & 0o077 == 0
        else {
            throw EmbeddedPostgresError(
                .directory, "\(socketDirectory) belongs to somebody else or is open to others; remove it")
        }
        try server.own(socketDirectory)
    }
}

/// An operating system user, other than root.
struct ServerUser {
    let user: uid_t
    let group: gid_t

    func own(_ path: String) throws(EmbeddedPostgresError) {
        guard geteuid() == 0 else { return }
        guard lchown(path, user, group) == 0 else { throw .system("chown", path) }
    }

    /// The command as this user.
    func command(_ arguments: [String]) throws(EmbeddedPostgresError) -> [String] {
        guard geteuid() == 0 else { return arguments }
        guard let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].first(where: isExecutable) else {
            throw EmbeddedPostgresError(
                .notInstalled, "started as root, and setpriv is missing (Debian: apt-get install util-linux)")
        }
        return [setpriv, "--reuid=\(user)", "--regid=\(group)", "--clear-groups", "--"] + arguments
    }
}
