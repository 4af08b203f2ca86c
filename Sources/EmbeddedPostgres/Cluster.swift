internal import Glibc

/// The open directory of a PostgreSQL cluster, `PGDATA`, which belongs to the account that serves it.
///
/// That account may put anything there; so no link in it is followed, and nothing is believed that it says of others.
struct Cluster: Sendable {
    let directory: Descriptor
    let server: ServiceAccount
    /// For messages.
    let path: String

    /// Opens the cluster of a data directory; `nil` where there is none.
    ///
    /// - Throws: where it is not the server's.
    init?(of layout: ClusterLayout, server: ServiceAccount) throws(EmbeddedPostgresError) {
        guard fileStatus(layout.cluster) != nil else { return nil }
        self.server = server
        path = layout.cluster
        directory = try Descriptor.open(layout.cluster, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        guard let owner = directory.status?.st_uid, owner == server.user else {
            let owner = directory.status.map { ServiceAccount.name(of: $0.st_uid) } ?? "somebody else"
            throw EmbeddedPostgresError(
                .directory,
                "the PostgreSQL cluster \(path) belongs to the user \(owner), and \(server.name) is to run it: stop what "
                    + "uses it and give it away (chown -R \(server.name): \(path)), or name another data directory (data_dir)"
            )
        }
    }

    /// Of which major version it is.
    func major() throws(EmbeddedPostgresError) -> Int {
        let version = try? directory.open("PG_VERSION", of: server.user, O_RDONLY).bytes(at: 0, count: 16)
        let text = String(decoding: version ?? [], as: UTF8.self).split(whereSeparator: \.isWhitespace).first
        guard let major = text.flatMap({ Int($0) }) else {
            throw EmbeddedPostgresError(.directory, "\(path) is not a PostgreSQL cluster; move it away")
        }
        return major
    }

    /// A handle that proves that no process of the server lives, or `nil` while one does.
    ///
    /// The server's processes inherit the locked directory, so the lock ends with the last of them, orphans of a killed
    /// postmaster included. Unlike the process id in `postmaster.pid` it cannot be mistaken for somebody else's.
    func lockForServer() throws(EmbeddedPostgresError) -> Descriptor? {
        let directory = try directory.openAgain()
        return directory.tryLock(.exclusive) ? directory : nil
    }

    /// The postmaster's process id, as it wrote it; `nil` for one that is no process of this cluster.
    ///
    /// The file is the server's account's, who could write any number into it. A postmaster works in its cluster's directory.
    func postmaster() -> pid_t? {
        let file = try? directory.open(Self.processFile, of: server.user, O_RDONLY)
        let text = String(decoding: file?.bytes(at: 0, count: 64) ?? [], as: UTF8.self)
        guard let postmaster = text.split(whereSeparator: \.isNewline).first.flatMap({ pid_t($0) }), postmaster > 1
        else { return nil }
        var place = stat()
        guard stat("/proc/\(postmaster)/cwd", &place) == 0, let own = directory.status, place.st_dev == own.st_dev,
            place.st_ino == own.st_ino
        else { return nil }
        return postmaster
    }

    /// The server's processes: those that work in the cluster's directory, as its account, and are PostgreSQL's.
    ///
    /// Like the postmaster they are found by where they are, not by what a file says.
    private func processes() -> [pid_t] {
        guard let own = directory.status, let listing = opendir("/proc") else { return [] }
        defer { closedir(listing) }
        var found: [pid_t] = []
        while let entry = readdir(listing) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard let process = pid_t(name), process > 1 else { continue }
            var (place, status) = (stat(), stat())
            guard stat("/proc/\(process)/cwd", &place) == 0, place.st_dev == own.st_dev, place.st_ino == own.st_ino,
                stat("/proc/\(process)", &status) == 0, status.st_uid == server.user,
                Self.state(of: process)?.name == "postgres"
            else { continue }
            found.append(process)
        }
        return found
    }

    /// Whether one of the server's processes was stopped by a signal, and hears no other until it goes on.
    var isFrozen: Bool { processes().contains { Self.state(of: $0)?.isStopped ?? false } }

    /// Ends the server's processes, frozen ones too, the postmaster first: it would start others.
    func killProcesses() {
        if let postmaster = postmaster() { kill(postmaster, SIGKILL) }
        for process in processes() { kill(process, SIGKILL) }
    }

    /// A process's name and state: `1234 (postgres) T …`.
    private static func state(of process: pid_t) -> (name: String, isStopped: Bool)? {
        guard let file = try? Descriptor.open("/proc/\(process)/stat", O_RDONLY) else { return nil }
        let text = String(decoding: file.bytes(at: 0, count: 256), as: UTF8.self)
        guard let start = text.firstIndex(of: "("), let end = text.lastIndex(of: ")") else { return nil }
        let state = text[text.index(after: end)...].drop { $0 == " " }.first
        return (String(text[text.index(after: start)..<end]), state == "T" || state == "t")
    }

    static let processFile = "postmaster.pid"
    private static let settingsFile = "postgresql.conf"

    /// Writes who may log in, as whom; the server reads it when it starts.
    ///
    /// The socket's directory keeps everybody else out. Should it ever stand open, the server itself asks the system who
    /// has come. A password would not help: it would lie where whoever can act as the server's account can read it.
    func writeAccessRules() throws(EmbeddedPostgresError) {
        let users = Set([server.name, ServiceAccount.name(of: 0)]).sorted()
        let map = users.flatMap { user in
            [EmbeddedCluster.owner, EmbeddedCluster.server].map { "\(Self.map) \"\(user)\" \($0)\n" }
        }
        // `all` databases do not include the connections of `pg_basebackup`.
        let rules = ["all", "replication"].map { "local \($0) all peer map=\(Self.map)\n" }
        for (name, text) in [("pg_hba.conf", rules.joined()), ("pg_ident.conf", map.joined())] {
            let file = try directory.open(name, of: server.user, O_WRONLY)
            try file.empty(name)
            try write(text, to: file, name)
        }
    }

    /// Writes the settings that suit the machine, which may be another than at the last start, and has them included.
    func writeSettings(_ settings: ServerSettings) throws(EmbeddedPostgresError) {
        try directory.unlink(ServerSettings.file)
        try write(settings.text, to: directory.create(ServerSettings.file, for: server), ServerSettings.file)
        // `initdb` does not know them, nor does `pg_upgrade`.
        let file = try directory.open(Self.settingsFile, of: server.user, O_RDWR | O_APPEND)
        let text = String(decoding: file.bytes(at: 0, count: 1 << 20), as: UTF8.self)
        let line = "include '\(ServerSettings.file)'"
        guard !text.split(whereSeparator: \.isNewline).contains(where: { $0 == line }) else { return }
        try file.write(Array("\n\(line)\n".utf8), Self.settingsFile)
        guard fsync(file.number) == 0 else { throw .system("fsync", Self.settingsFile) }
    }

    private func write(_ text: String, to file: Descriptor, _ name: String) throws(EmbeddedPostgresError) {
        try file.write(Array("# Written by rightful at every start.\n\(text)".utf8), name)
        guard fsync(file.number) == 0 else { throw .system("fsync", name) }
    }

    private static let map = "rightful"
}
