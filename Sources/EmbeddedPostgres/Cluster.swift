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
    /// The file is the server's account's, who could write any number into it.
    func postmaster() throws(EmbeddedPostgresError) -> pid_t? {
        let file = try? directory.open(Self.processFile, of: server.user, O_RDONLY)
        let text = String(decoding: file?.bytes(at: 0, count: 64) ?? [], as: UTF8.self)
        guard let written = text.split(whereSeparator: \.isNewline).first.flatMap({ pid_t($0) }) else { return nil }
        return try processes().first { $0.id == written }?.id
    }

    /// The server's processes: those that work in the cluster's directory, as its account, and are PostgreSQL's.
    ///
    /// They are found by where they are, not by what a file says. Where a process works its own account may see; root may
    /// see it in no container that lacks `CAP_SYS_PTRACE`, as Docker's do.
    func processes() throws(EmbeddedPostgresError) -> [ServerProcess] {
        let script = """
            for process in /proc/[0-9]*; do
                [ "$process/cwd" -ef \(ClusterLayout.inheritedDirectory) ] || continue
                read -r status < "$process/stat" && printf '%s\\n' "$status"
            done
            """
        let command = try server.command(["/bin/sh", "-c", script])
        let output = try ChildProcess.run(command, directory: directory).output
        return output.split(whereSeparator: \.isNewline).compactMap { ServerProcess(status: $0) }
            .filter { $0.name == "postgres" && isServers($0.id) }
    }

    /// Whether a process is the server's account's: what runs as that account could be made to name any other.
    private func isServers(_ process: pid_t) -> Bool {
        var status = stat()
        return stat("/proc/\(process)", &status) == 0 && status.st_uid == server.user
    }

    /// Whether one of the server's processes was stopped by a signal, and hears no other until it goes on.
    func isFrozen() throws(EmbeddedPostgresError) -> Bool { try processes().contains { $0.isStopped } }

    static let processFile = "postmaster.pid"
    private static let settingsFile = "postgresql.conf"

    /// Takes the rights of others away that PostgreSQL refuses to start with: Kubernetes gives a volume's group (`fsGroup`)
    /// all of its owner's at each mount.
    func closeToOthers() throws(EmbeddedPostgresError) {
        guard let mode = directory.status?.st_mode, mode & 0o027 != 0 else { return }
        guard fchmod(directory.number, 0o700) == 0 else { throw .system("chmod", path) }
    }

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
        try file.sync(Self.settingsFile)
    }

    private func write(_ text: String, to file: Descriptor, _ name: String) throws(EmbeddedPostgresError) {
        try file.write(Array("# Written by rightful at every start.\n\(text)".utf8), name)
        try file.sync(name)
    }

    private static let map = "rightful"
}
