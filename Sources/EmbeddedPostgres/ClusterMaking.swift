internal import Foundation
internal import Glibc

extension ClusterLayout {
    /// The major version of the existing cluster, or `nil` when there is none yet.
    func existingMajor() throws(EmbeddedPostgresError) -> Int? {
        guard fileStatus(cluster) != nil else { return nil }
        let version = try? String(contentsOfFile: "\(cluster)/PG_VERSION", encoding: .utf8)
        guard let major = version.flatMap({ Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) }) else {
            throw EmbeddedPostgresError(.directory, "\(cluster) is not a PostgreSQL cluster; move it away")
        }
        return major
    }

    /// Runs `initdb` beside the final place, then renames; to be called with the start lock held.
    func make(
        with installation: PostgresInstallation, as server: ServerUser, durability: EmbeddedCluster.Durability
    ) throws(EmbeddedPostgresError) {
        try removeUnfinished()
        guard mkdir(unfinished, 0o700) == 0 else { throw .system("mkdir", unfinished) }
        try server.own(unfinished)
        let directory = try Descriptor.open(unfinished, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        var command = [
            installation.program("initdb"), "--pgdata=\(Self.inheritedDirectory)",
            "--username=\(EmbeddedCluster.owner)",
            "--locale=C.UTF-8", "--encoding=UTF8", "--auth=trust", "--no-instructions",
            // A page that the disk has damaged is an error then, and not an answer.
            "--data-checksums",
        ]
        if durability == .throwaway { command.append("--no-sync") }
        let (status, output) = try ChildProcess.run(server.command(command), directory: directory)
        guard status == 0 else {
            let lines = output.split(whereSeparator: \.isNewline).suffix(4).joined(separator: " ")
            throw EmbeddedPostgresError(.startFailed, "initdb failed with status \(status): \(lines)")
        }
        // The directory is the server's, who could put links there; root writes through none.
        for (name, text, isNew) in [
            ("pg_hba.conf", Self.accessRules, true), ("postgresql.conf", Self.settings(durability), false),
        ] {
            let file = try directory.open(name, of: server.user, O_WRONLY | O_APPEND)
            if isNew, ftruncate(file.number, 0) != 0 { throw .system("truncate", name) }
            try write(text, to: file, name)
        }
        guard rename(unfinished, cluster) == 0 else { throw .system("rename", unfinished) }
        if durability == .durable { fsync(try Descriptor.open(dataDirectory, O_RDONLY | O_DIRECTORY).number) }
    }

    /// How `initdb` and the server find their directory: as the open directory that they were started with.
    ///
    /// When we are root, they run as a user who may not be allowed to pass the directories above (a home of mode 0700,
    /// say). A path through `/proc/self/fd` does not pass them. It also means that whoever has the directory open is
    /// part of the server, which `lockForServer` makes use of.
    static let inheritedDirectory = "/proc/self/fd/\(ChildProcess.directoryNumber)"

    /// The socket's directory keeps everybody else out, so there is nothing to ask of those who reach it.
    private static let accessRules = """
        # Written by rightful: reachable through the private socket directory only.
        local all all trust

        """

    /// Defaults for a small machine; `ALTER SYSTEM` overrides any of them.
    private static func settings(_ durability: EmbeddedCluster.Durability) -> String {
        let memory = Int(ProcessInfo.processInfo.physicalMemory / (1024 * 1024))
        // Indexes whose pages are elsewhere cost an append a quarter more; a small machine needs its memory otherwise.
        let buffers = durability == .throwaway ? 32 : max(32, min(1024, memory / 16))
        // All tests of a process share one server, each with pools of its own.
        let connections = durability == .throwaway ? 500 : 100
        let logSize = durability == .throwaway ? "256MB" : "4GB"
        return """

            # Written by rightful. ALTER SYSTEM overrides.
            max_connections = \(connections)
            shared_buffers = \(buffers)MB
            max_wal_size = \(logSize)
            checkpoint_timeout = 15min
            wal_compression = lz4
            fsync = on
            synchronous_commit = on
            jit = off
            timezone = 'UTC'
            log_timezone = 'UTC'
            # Refused statements are told to the client, who logs them; here they would only fill the disk, and could
            # quote what must not be logged.
            log_min_messages = log
            log_min_error_statement = panic
            log_error_verbosity = terse
            log_checkpoints = off

            """
    }

    private func removeUnfinished() throws(EmbeddedPostgresError) {
        guard fileStatus(unfinished) != nil else { return }
        do {
            try FileManager.default.removeItem(atPath: unfinished)
        } catch {
            throw EmbeddedPostgresError(
                .directory, "cannot remove \(unfinished), left by an interrupted start: \(error)")
        }
    }

    private func write(_ text: String, to file: Descriptor, _ path: String) throws(EmbeddedPostgresError) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(file.number, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { throw .system("write", path) }
            bytes = bytes.dropFirst(max(0, count))
        }
        guard fsync(file.number) == 0 else { throw .system("fsync", path) }
    }
}
