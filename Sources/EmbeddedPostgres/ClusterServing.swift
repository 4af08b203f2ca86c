internal import Glibc

extension ClusterLayout {
    /// Starts the server as a daemon that outlives us, and hands it the locked directory.
    func start(
        _ installation: PostgresInstallation, _ cluster: Cluster, locked directory: Descriptor, log: Descriptor,
        durability: EmbeddedCluster.Durability
    ) throws(EmbeddedPostgresError) -> pid_t {
        try cluster.closeToOthers()
        try cluster.writeAccessRules()
        let disk = cluster.directory.fileSystemMebibytes
        try cluster.writeSettings(ServerSettings(durability, memory: MachineMemory.available(), disk: disk))
        let sockets = try openSocketDirectory(for: cluster.server)
        // Left by a killed server. Nothing of it lives, and PostgreSQL would ask by process id, which may be another's.
        try cluster.directory.unlink(Cluster.processFile)
        for stale in [Self.socketName, "\(Self.socketName).lock"] { try sockets.unlink(stale) }
        var command = [
            installation.program("postgres"), "-D", Self.inheritedDirectory, "-k", socketDirectory,
            "-p", String(Self.port), "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700",
        ]
        if durability == .throwaway {
            for setting in ["fsync=off", "full_page_writes=off"] {
                command += ["-c", setting]
            }
        }
        return try ChildProcess.spawn(
            cluster.server.command(command), ChildProcess.Files(output: log, directory: directory))
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
}
