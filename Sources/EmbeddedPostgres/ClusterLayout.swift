internal import Foundation
internal import Glibc

/// The places of a cluster, and the user who owns and serves it.
struct ClusterLayout: Sendable {
    /// The caller's data directory; everything but the socket lies in it.
    let dataDirectory: String
    /// Where the server's Unix socket lies.
    ///
    /// Paths of sockets end at 107 bytes, so this is a short path of its own, named after the data directory's device
    /// and inode: the same however the directory is spelled, and unlike anybody else's.
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
            throw EmbeddedPostgresError(.directory, "cannot make the data directory \(dataDirectory): \(error)")
        }
        var status = stat()
        guard stat(dataDirectory, &status) == 0 else { throw .system("stat", dataDirectory) }
        guard let resolved = realpath(dataDirectory, nil) else { throw .system("realpath", dataDirectory) }
        defer { free(resolved) }
        self.dataDirectory = String(cString: resolved)
        let identity = String(status.st_dev, radix: 36) + "-" + String(status.st_ino, radix: 36)
        socketDirectory =
            geteuid() == 0 && access("/run", W_OK) == 0
            ? "/run/rightful-\(identity)" : "/tmp/rightful-\(geteuid())-\(identity)"
    }

    /// `host=… user=…` for libpq.
    func conninfo(user: String, database: String) -> String {
        "host=\(socketDirectory) port=\(Self.port) user=\(user) dbname=\(database)"
    }

    /// Who runs the server: the cluster's owner, or for a new one ourselves, or `postgres` when we are root, whom
    /// PostgreSQL refuses.
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

    /// Makes the socket's directory, open to its owner only: whoever reaches the socket is trusted.
    func prepareSocketDirectory(for server: ServerUser) throws(EmbeddedPostgresError) {
        guard mkdir(socketDirectory, 0o700) == 0 || errno == EEXIST else { throw .system("mkdir", socketDirectory) }
        // In a shared directory such as /tmp, anybody may have made this one first, or a link.
        guard let status = fileStatus(socketDirectory), status.isDirectory,
            status.st_uid == server.user || status.st_uid == geteuid(), status.st_mode & 0o077 == 0
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
