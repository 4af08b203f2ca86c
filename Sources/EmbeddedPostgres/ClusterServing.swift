internal import Foundation
internal import Glibc

extension ClusterLayout {
    /// A handle that proves that no process of the server lives, or `nil` while one does.
    ///
    /// The server's processes inherit the locked directory, so the lock ends with the last of them, orphans of a killed
    /// postmaster included. Unlike the process id in `postmaster.pid` it cannot be mistaken for somebody else's.
    func lockForServer() throws(EmbeddedPostgresError) -> Descriptor? {
        let directory = try Descriptor.open(cluster, O_RDONLY | O_DIRECTORY)
        return directory.tryLock(.exclusive) ? directory : nil
    }

    /// Starts the server as a daemon that outlives us, and hands it the locked directory.
    func start(
        _ installation: PostgresInstallation, as server: ServerUser, directory: Descriptor,
        durability: EmbeddedCluster.Durability
    ) throws(EmbeddedPostgresError) -> pid_t {
        try prepareSocketDirectory(for: server)
        // Left by a killed server. Nothing of it lives, and PostgreSQL would ask by process id, which may be another's.
        for stale in [processFile, "\(socketDirectory)/\(socketName)", "\(socketDirectory)/\(socketName).lock"] {
            guard unlink(stale) == 0 || errno == ENOENT else { throw .system("unlink", stale) }
        }
        try limitLog()
        var command = [
            installation.program("postgres"), "-D", Self.inheritedDirectory, "-k", socketDirectory,
            "-p", String(Self.port), "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700",
        ]
        if durability == .throwaway {
            for setting in ["fsync=off", "full_page_writes=off"] {
                command += ["-c", setting]
            }
        }
        let log = try openShared(log, O_WRONLY | O_APPEND)
        return try ChildProcess.spawn(
            server.command(command), ChildProcess.Files(output: log, directory: directory))
    }

    /// The postmaster's process id, as it wrote it; `nil` for one that is no process of this cluster.
    ///
    /// The file is the server's user's, who could write any number into it. A postmaster works in its cluster's directory.
    func postmaster() -> pid_t? {
        guard let text = try? String(contentsOfFile: processFile, encoding: .utf8),
            let postmaster = text.split(whereSeparator: \.isNewline).first.flatMap({ pid_t($0) }), postmaster > 1
        else { return nil }
        var place = stat()
        guard stat("/proc/\(postmaster)/cwd", &place) == 0, let cluster = fileStatus(cluster),
            place.st_dev == cluster.st_dev, place.st_ino == cluster.st_ino
        else { return nil }
        return postmaster
    }

    /// Keeps the log and one before it, of at most about 16 MiB each.
    func limitLog() throws(EmbeddedPostgresError) {
        guard let status = fileStatus(log), status.st_size > 16 << 20 else { return }
        // The server appends to the open file, so it is emptied rather than replaced.
        do {
            try? FileManager.default.removeItem(atPath: "\(log).1")
            try FileManager.default.copyItem(atPath: log, toPath: "\(log).1")
        } catch {
            throw EmbeddedPostgresError(.directory, "cannot rotate \(log): \(error)")
        }
        guard truncate(log, 0) == 0 else { throw .system("truncate", log) }
    }

    /// What the server last said, for the message about its failure.
    func logTail() -> String {
        guard let file = FileHandle(forReadingAtPath: log), let end = try? file.seekToEnd() else { return "" }
        try? file.seek(toOffset: end > 2048 ? end - 2048 : 0)
        let text = String(decoding: (try? file.readToEnd()) ?? Data(), as: UTF8.self)
        return text.split(whereSeparator: \.isNewline).suffix(3).joined(separator: " | ")
    }

    /// Stops the server and removes the cluster when this process is gone, however it ends.
    ///
    /// A shell waits for the end of a pipe whose other end stays open, in nobody but us, as long as we live. The
    /// server's command line tells it from a later process of the same id.
    func removeAfterThisProcess(_ postmaster: pid_t) throws(EmbeddedPostgresError) {
        let pipe = try Descriptor.pipe()
        let script = """
            read -r _
            lives() { grep -qs -- "$2" "/proc/$3/cmdline"; }
            lives "$@" && kill -QUIT "$3"
            while lives "$@"; do sleep 0.1; done
            rm -rf "$1" "$2"
            """
        _ = try ChildProcess.spawn(
            ["/bin/sh", "-c", script, "sh", cluster, socketDirectory, String(postmaster)],
            ChildProcess.Files(input: pipe.reading))
        // Never closed: only the end of this process ends it.
        _ = Unmanaged.passRetained(pipe.writing)
    }

    private var socketName: String { ".s.PGSQL.\(Self.port)" }
}
