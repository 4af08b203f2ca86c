internal import Foundation
internal import Glibc

extension ClusterLayout {
    /// Runs `initdb` beside the final place, then renames; to be called with the start lock held.
    func make(
        with installation: PostgresInstallation, as server: ServiceAccount, durability: EmbeddedCluster.Durability
    ) throws(EmbeddedPostgresError) {
        try removeUnfinished(as: server)
        guard mkdir(unfinished, 0o700) == 0 else { throw .system("mkdir", unfinished) }
        let directory = try Descriptor.open(unfinished, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        // `initdb` and its children inherit it: see `removeUnfinished`.
        guard directory.tryLock(.exclusive) else { throw .system("flock", unfinished) }
        if geteuid() == 0, fchown(directory.number, server.user, server.group) != 0 {
            throw .system("chown", unfinished)
        }
        var command = [
            installation.program("initdb"), "--pgdata=\(Self.inheritedDirectory)",
            "--username=\(EmbeddedCluster.owner)",
            "--locale=C.UTF-8", "--encoding=UTF8", "--auth=peer", "--no-instructions",
            // A page that the disk has damaged is an error then, and not an answer.
            "--data-checksums",
        ]
        if durability == .throwaway { command.append("--no-sync") }
        let (status, output) = try ChildProcess.run(server.command(command), directory: directory)
        guard status == 0 else {
            let lines = output.split(whereSeparator: \.isNewline).suffix(4).joined(separator: " ")
                .replacing(Self.inheritedDirectory, with: unfinished)
            throw EmbeddedPostgresError(.startFailed, "initdb failed with status \(status): \(lines)")
        }
        guard rename(unfinished, cluster) == 0 else { throw .system("rename", unfinished) }
        if durability == .durable { try Descriptor.sync(directory: dataDirectory) }
    }

    /// How `initdb` and the server find their directory: as the open directory that they were started with.
    ///
    /// When we are root, they run as a user who may not be allowed to pass the directories above (a home of mode 0700,
    /// say). A path through `/proc/self/fd` does not pass them. It also means that whoever has the directory open is
    /// part of the server, which `lockForServer` makes use of.
    static let inheritedDirectory = "/proc/self/fd/\(ChildProcess.directoryNumber)"

    /// How long the `initdb` of an interrupted start is waited for; it takes some seconds.
    private static let patienceForInitdb = Duration.seconds(60)

    private func removeUnfinished(as server: ServiceAccount) throws(EmbeddedPostgresError) {
        guard let status = fileStatus(unfinished) else { return }
        let failure = "cannot remove \(unfinished), left by an interrupted start: "
        if status.isDirectory {
            let directory = try Descriptor.open(unfinished, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            // The `initdb` of a service that was killed goes on writing for a while, and holds the lock until it ends.
            let deadline = ContinuousClock.now + Self.patienceForInitdb
            while !directory.tryLock(.exclusive) {
                guard ContinuousClock.now < deadline else {
                    let reason = "its initdb still runs after \(Self.patienceForInitdb.components.seconds) s; end it"
                    throw EmbeddedPostgresError(.directory, failure + reason)
                }
                usleep(50_000)
            }
            if status.st_uid == server.user, let reason = try Self.empty(directory, as: server) {
                throw EmbeddedPostgresError(.directory, failure + reason)
            }
        }
        do {
            try FileManager.default.removeItem(atPath: unfinished)
        } catch {
            throw EmbeddedPostgresError(.directory, failure + "\(error)")
        }
    }

    /// Removes all that lies in a directory of the server's account; returns why that fails, where it does.
    ///
    /// Not as root, whom a link put there meanwhile could lead elsewhere.
    static func empty(_ directory: Descriptor, as server: ServiceAccount) throws(EmbeddedPostgresError) -> String? {
        let find = ["/usr/bin/find", "\(inheritedDirectory)/.", "-mindepth", "1", "-delete"]
        let (status, output) = try ChildProcess.run(server.command(find), directory: directory)
        return status == 0 ? nil : output
    }
}
