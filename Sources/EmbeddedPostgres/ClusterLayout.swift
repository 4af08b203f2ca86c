internal import Glibc

/// The places of a cluster.
struct ClusterLayout: Sendable {
    /// The caller's data directory; everything but the socket lies in it.
    let dataDirectory: String
    /// Where the server's Unix socket lies.
    ///
    /// Paths of sockets end at 107 bytes, so this is a short path of its own, named after the data directory's device
    /// and inode: the same however the directory is spelled and whoever asks, and unlike anybody else's.
    let socketDirectory: String

    /// The name of the cluster's directory.
    static let clusterName = "postgres"

    var cluster: String { "\(dataDirectory)/\(Self.clusterName)" }
    /// Where `initdb` works; becomes `cluster` by renaming, so that half a cluster is never taken for a whole one.
    var unfinished: String { "\(dataDirectory)/postgres.unfinished" }
    var log: String { "\(dataDirectory)/postgres.log" }
    /// What the server said before that.
    var formerLog: String { "\(log).1" }
    var startLock: String { "\(dataDirectory)/postgres.start.lock" }
    var usersLock: String { "\(dataDirectory)/postgres.users.lock" }

    /// All that belongs to the running cluster: itself, its locks, and what the server says.
    var own: [String] { [cluster, unfinished, log, formerLog, startLock, usersLock] }

    static let port = 5432
    static let socketName = ".s.PGSQL.\(port)"
    var socket: String { "\(socketDirectory)/\(Self.socketName)" }

    init(dataDirectory: String, server: ServiceAccount) throws(EmbeddedPostgresError) {
        try DataDirectory.make(dataDirectory)
        var status = stat()
        guard stat(dataDirectory, &status) == 0 else { throw .system("stat", dataDirectory) }
        guard let resolved = realpath(dataDirectory, nil) else { throw .system("realpath", dataDirectory) }
        defer { free(resolved) }
        self.dataDirectory = String(cString: resolved)
        try Self.checkTrust(in: status, self.dataDirectory)
        socketDirectory = Self.socketDirectory(
            identity: String(status.st_dev, radix: 36) + "-" + String(status.st_ino, radix: 36), server: server.user)
    }

    /// Refuses, as root, a directory in which somebody else could put a link or a file of theirs in the place of ours.
    private static func checkTrust(in status: stat, _ path: String) throws(EmbeddedPostgresError) {
        guard geteuid() == 0 else { return }
        guard status.st_uid == 0 else {
            throw EmbeddedPostgresError(
                .directory,
                "the data directory (data_dir) \(path) belongs to the user \(ServiceAccount.name(of: status.st_uid)), and "
                    + "this is root: run it as that user, or give root a directory of its own")
        }
        guard status.st_mode & 0o022 == 0 else {
            throw EmbeddedPostgresError(
                .directory,
                "others may write to the data directory (data_dir) \(path), and this is root: chmod it to 700")
        }
    }

    /// Where the sockets of what root starts lie.
    ///
    /// It belongs to the server's account, which else could not remove its directory there.
    private static let systemDirectory = "/run/rightful"

    /// The one that is there, else the one to make: root and the server's own user have to meet in the same.
    private static func socketDirectory(identity: String, server: uid_t) -> String {
        let places = ["\(systemDirectory)/\(identity)", "/tmp/rightful-\(server)-\(identity)"]
        let present = places.first { place in
            guard let status = fileStatus(place) else { return false }
            return status.isDirectory && status.st_uid == server && status.st_mode & 0o077 == 0
        }
        let isSystem = geteuid() == 0 ? access("/run", W_OK) == 0 : access(systemDirectory, W_OK) == 0
        return present ?? (isSystem ? places[0] : places[1])
    }

    /// `host=… user=…` for libpq.
    ///
    /// What the owner's sessions are refused is kept out of the server's log by themselves, as only a superuser's can: the
    /// processes that vacuum run as the same role, and theirs is to stand there.
    func conninfo(user: String, database: String) -> String {
        let options = user == EmbeddedCluster.owner ? " options=--log_min_messages=log" : ""
        return "host=\(socketDirectory) port=\(Self.port) user=\(user)\(options) dbname=\(database)"
    }

    /// Opens the socket's directory, which only the server's account may pass; makes it where it is missing.
    func openSocketDirectory(for server: ServiceAccount) throws(EmbeddedPostgresError) -> Descriptor {
        if geteuid() == 0, socketDirectory.hasPrefix(Self.systemDirectory + "/") {
            try Self.makeSystemDirectory(for: server)
        }
        guard mkdir(socketDirectory, 0o700) == 0 || errno == EEXIST else { throw .system("mkdir", socketDirectory) }
        // In a shared directory such as /tmp, anybody may have made this one first, or a link.
        let opened = open(socketDirectory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
        guard opened >= 0, case let directory = Descriptor(owning: opened), let status = directory.status,
            status.st_uid == server.user || status.st_uid == geteuid(), status.st_mode & 0o077 == 0
        else {
            throw EmbeddedPostgresError(
                .directory, "\(socketDirectory) belongs to somebody else or is open to others; remove it")
        }
        if geteuid() == 0, fchown(opened, server.user, server.group) != 0 { throw .system("chown", socketDirectory) }
        return directory
    }

    /// Makes, as root, the directory in which the server's user may make and remove its own.
    private static func makeSystemDirectory(for server: ServiceAccount) throws(EmbeddedPostgresError) {
        guard mkdir(systemDirectory, 0o755) == 0 || errno == EEXIST else { throw .system("mkdir", systemDirectory) }
        let opened = open(systemDirectory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
        guard opened >= 0, case let directory = Descriptor(owning: opened), let status = directory.status,
            status.st_uid == server.user || status.st_uid == 0, status.st_mode & 0o022 == 0
        else {
            throw EmbeddedPostgresError(
                .directory, "\(systemDirectory) belongs to somebody else or others may write to it; remove it")
        }
        if fchown(opened, server.user, server.group) != 0 { throw .system("chown", systemDirectory) }
    }
}
