internal import Foundation
internal import Glibc
internal import PostgresClient

/// A copy of a data directory that is being made while its server runs.
///
/// It is made beside its final place and renamed at the end: on half of one, or on a directory without a cluster, a service
/// would start an empty ledger.
struct ClusterBackup {
    /// The data directory that it becomes.
    private let destination: String
    private var unfinished: String { destination + ".unfinished" }
    /// Where `pg_basebackup` writes, as the server's account.
    private let cluster: Descriptor
    private let server: ServiceAccount
    /// What `pg_basebackup` says.
    ///
    /// It is some lines, which fit into a pipe; for a file a full disk may have no room.
    private let messages: (reading: Descriptor, writing: Descriptor)

    /// The largest file beside the cluster that is copied: keys are small.
    private static let fileLimit = 16 << 20

    /// Makes the directories of a copy.
    ///
    /// - Throws: where there is something at the destination already, or beside it from a copy that was interrupted.
    init(of layout: ClusterLayout, to destination: String, as server: ServiceAccount) throws(EmbeddedPostgresError) {
        let path = URL(fileURLWithPath: destination).standardizedFileURL.path(percentEncoded: false)
        self.destination = path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
        self.server = server
        let unfinished = self.destination + ".unfinished"
        guard fileStatus(self.destination) == nil else {
            throw EmbeddedPostgresError(
                .directory, "\(self.destination) is there already; name a directory that the copy is to make")
        }
        guard let parent = realpath(Self.parent(of: self.destination), nil) else {
            throw .system("find the directory of", self.destination)
        }
        defer { free(parent) }
        guard !(String(cString: parent) + "/").hasPrefix(layout.cluster + "/") else {
            throw EmbeddedPostgresError(.directory, "\(self.destination) lies in the cluster that is to be copied")
        }
        guard mkdir(unfinished, 0o700) == 0 else {
            guard errno == EEXIST else { throw .system("mkdir", unfinished) }
            throw EmbeddedPostgresError(
                .directory,
                "\(unfinished) is being written by another backup, or left of one that was killed; remove it then")
        }
        do throws(EmbeddedPostgresError) {
            let inner = "\(unfinished)/\(ClusterLayout.clusterName)"
            guard mkdir(inner, 0o700) == 0 else { throw .system("mkdir", inner) }
            cluster = try Descriptor.open(inner, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            if geteuid() == 0, fchown(cluster.number, server.user, server.group) != 0 { throw .system("chown", inner) }
            messages = try Descriptor.pipe()
        } catch {
            try? FileManager.default.removeItem(atPath: unfinished)
            throw error
        }
    }

    /// Copies all of it.
    ///
    /// - Parameters:
    ///   - conninfo: leads to the running server, as its owner.
    ///   - progress: called as it goes on.
    func run(
        _ installation: PostgresInstallation, of layout: ClusterLayout, from conninfo: String,
        _ progress: @Sendable (BackupProgress) -> Void, on queue: isolated EmbeddedCluster
    ) async throws -> BackupOutcome {
        do {
            let observer = try await PostgresConnection.connect(conninfo)
            let isArchived = try await observer.run { try Self.isArchived(on: $0) }
            let process = try start(installation, from: conninfo)
            var (copied, since) = (Int64(-1), ContinuousClock.now)
            while true {
                let isStuck = .now - since > Self.patience
                if let status = try ChildProcess.end(of: process) {
                    try Task.checkCancellation()
                    guard !isStuck else { throw stuck }
                    guard status == 0 else { throw failure(status) }
                    if isArchived { try stopArchiving() }
                    return BackupOutcome(leftOut: try finish(layout), isArchivingStopped: isArchived)
                }
                guard !isStuck, !Task.isCancelled else {
                    stop(process)
                    // It ends at once; whoever was cancelled cannot sleep.
                    usleep(Self.stopPause)
                    continue
                }
                if let known = try? await observer.run({ try Self.progress(on: $0) }), known.copied != copied {
                    (copied, since) = (known.copied, .now)
                    progress(known)
                }
                try? await Task.sleep(for: Self.pollInterval)
            }
        } catch {
            discard()
            throw error
        }
    }

    /// How long nothing may come: before it begins, the server writes all that has changed since the last checkpoint, and at
    /// its end all is brought to the disk.
    private static let patience = Duration.seconds(900)
    private static let pollInterval = Duration.milliseconds(200)
    /// In microseconds.
    private static let stopPause: UInt32 = 20_000

    /// Starts `pg_basebackup`; returns its process id.
    ///
    /// It has the sums of all pages checked, brings the log along that makes the copy whole, and syncs what it writes.
    private func start(
        _ installation: PostgresInstallation, from conninfo: String
    ) throws(EmbeddedPostgresError) -> pid_t {
        let command = [
            installation.program("pg_basebackup"), "--pgdata=\(ClusterLayout.inheritedDirectory)",
            "--dbname=\(conninfo)", "--wal-method=stream", "--checkpoint=fast", "--no-password",
        ]
        return try ChildProcess.spawn(
            server.command(command), ChildProcess.Files(output: messages.writing, directory: cluster))
    }

    /// Ends what `start` began, also where it is frozen, with the process that it has for the log.
    private func stop(_ process: pid_t) { kill(-process, SIGKILL) }

    private static func progress(on connection: isolated PostgresConnection) throws(PostgresError) -> BackupProgress? {
        let rows = try connection.query(
            "SELECT backup_streamed, backup_total FROM pg_stat_progress_basebackup WHERE backup_streamed IS NOT NULL")
        guard !rows.isEmpty else { return nil }
        return BackupProgress(copied: try rows.row(0).int(0), total: try rows.row(0).optionalInt(1))
    }

    /// Whether the server archives its log, or will after its next start.
    private static func isArchived(on connection: isolated PostgresConnection) throws(PostgresError) -> Bool {
        try connection.query(
            """
            SELECT current_setting('archive_mode') <> 'off' OR coalesce((
                SELECT setting <> 'off' FROM pg_file_settings WHERE name = 'archive_mode' ORDER BY seqno DESC LIMIT 1), false)
            """
        ).row(0).bool(0)
    }

    /// Has the copy archive nothing: it would write a log of its own among the original's, under the same names.
    private func stopArchiving() throws(EmbeddedPostgresError) {
        let name = "postgresql.auto.conf"
        let file = try cluster.open(name, of: server.user, O_WRONLY | O_APPEND)
        // The last line about a setting counts.
        try file.write(Array("archive_mode = 'off'\n".utf8), name)
        try file.sync(name)
    }

    private var stuck: EmbeddedPostgresError {
        EmbeddedPostgresError(
            .timedOut, "the server has sent nothing to copy for \(Self.patience); the copy was given up")
    }

    /// Says why `pg_basebackup` failed.
    private func failure(_ status: Int32) -> EmbeddedPostgresError {
        let lines = String(decoding: messages.reading.available(), as: UTF8.self).split(whereSeparator: \.isNewline)
        let reason = lines.first { $0.contains("error:") } ?? lines.last ?? "it said nothing"
        return EmbeddedPostgresError(.backupFailed, "pg_basebackup failed with status \(status): \(reason)")
    }

    /// Copies the files that lie beside the cluster, such as keys, and puts the copy into its place.
    ///
    /// Returns the names of what was left out: directories, links, and what is too large for a key.
    private func finish(_ layout: ClusterLayout) throws(EmbeddedPostgresError) -> [String] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: layout.dataDirectory)
        } catch {
            throw EmbeddedPostgresError(.backupFailed, "cannot list \(layout.dataDirectory): \(error)")
        }
        var leftOut: [String] = []
        for name in names.sorted() where !layout.own.contains("\(layout.dataDirectory)/\(name)") {
            if !isSelf(name, in: layout.dataDirectory), try !copy(name, from: layout.dataDirectory) {
                leftOut.append(name)
            }
        }
        try Descriptor.sync(directory: unfinished)
        guard rename(unfinished, destination) == 0 else { throw .system("rename", unfinished) }
        try Descriptor.sync(directory: Self.parent(of: destination))
        return leftOut
    }

    /// Whether a name of the data directory is the copy's own.
    private func isSelf(_ name: String, in directory: String) -> Bool {
        guard let other = fileStatus("\(directory)/\(name)"), let own = fileStatus(unfinished) else { return false }
        return other.st_dev == own.st_dev && other.st_ino == own.st_ino
    }

    /// Copies a file with its mode and owner; returns `false` where it is none that is copied.
    private func copy(_ name: String, from directory: String) throws(EmbeddedPostgresError) -> Bool {
        guard let kind = fileStatus("\(directory)/\(name)"), kind.isRegular else { return false }
        let source = try Descriptor.open("\(directory)/\(name)", O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        guard let status = source.status, status.isRegular, status.st_size <= Self.fileLimit else { return false }
        let target = try Descriptor.open(
            "\(unfinished)/\(name)", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: status.st_mode & 0o777)
        if geteuid() == 0, fchown(target.number, status.st_uid, status.st_gid) != 0 { throw .system("chown", name) }
        try target.setMode(status.st_mode & 0o777, name)
        try target.write(source.bytes(at: 0, count: Int(status.st_size)), name)
        try target.sync(name)
        return true
    }

    private static func parent(of path: String) -> String {
        URL(fileURLWithPath: path).deletingLastPathComponent().path(percentEncoded: false)
    }

    /// Removes what was made of a copy that is not finished.
    private func discard() {
        _ = try? ClusterLayout.empty(cluster, as: server)
        try? FileManager.default.removeItem(atPath: unfinished)
    }
}

/// What a backup did not take over.
package struct BackupOutcome: Sendable {
    /// The names of what lies beside the cluster and was left out.
    package let leftOut: [String]
    /// Whether the original archives its log; the copy does not.
    package let isArchivingStopped: Bool
}

/// How far a backup is, in bytes.
package struct BackupProgress: Sendable {
    package let copied: Int64
    /// About how many there are; `nil` before that is known.
    package let total: Int64?
}
