internal import Glibc
internal import Synchronization

/// Starts other programs with exactly the open files they need, which Foundation's `Process` cannot pass on.
enum ChildProcess {
    /// The number under which a child finds the directory it was given.
    static let directoryNumber: Int32 = 3

    struct Files {
        /// Standard input; `/dev/null` without one.
        var input: Descriptor?
        /// Standard output and error; `/dev/null` without one.
        var output: Descriptor?
        /// Open in the child as number 3.
        var directory: Descriptor?
    }

    /// Starts `arguments[0]`, an absolute path, in `/` and in a session of its own, so that no terminal's signal and
    /// no end of ours reaches it.
    static func spawn(_ arguments: [String], _ files: Files = Files()) throws(EmbeddedPostgresError) -> pid_t {
        let null = try Descriptor.open("/dev/null", O_RDWR)
        // Out of the way of 0…3, so that setting one of these cannot overwrite another that is still to be copied.
        let input = try high(files.input ?? null)
        let output = try high(files.output ?? null)
        let directory = try files.directory.map { file throws(EmbeddedPostgresError) in try high(file) }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input.number, 0)
        posix_spawn_file_actions_adddup2(&actions, output.number, 1)
        posix_spawn_file_actions_adddup2(&actions, output.number, 2)
        if let directory { posix_spawn_file_actions_adddup2(&actions, directory.number, directoryNumber) }
        let firstUnwanted = directory == nil ? directoryNumber : directoryNumber + 1
        for number in openNumbers() where number >= firstUnwanted {
            posix_spawn_file_actions_addclose(&actions, number)
        }

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var (all, none) = (sigset_t(), sigset_t())
        sigfillset(&all)
        sigemptyset(&none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(
            &attributes, newSession | Int16(POSIX_SPAWN_SETSIGDEF) | Int16(POSIX_SPAWN_SETSIGMASK))

        // Nothing of our environment: PGOPTIONS, PGPORT and the like would change what the server does.
        let environment = ["PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"]
        // The working directory may be one that the server's user cannot read, which initdb refuses.
        let command = ["/bin/sh", "-c", "cd / && exec \"$@\"", "sh"] + arguments
        var pid = pid_t()
        let code = own.withLock { own in
            let code = withCStrings(command) { argv in
                withCStrings(environment) { envp in posix_spawn(&pid, command[0], &actions, &attributes, argv, envp) }
            }
            if code == 0 { own.insert(pid) }
            return code
        }
        guard code == 0 else {
            let reason = String(cString: strerror(code))
            throw EmbeddedPostgresError(.startFailed, "cannot start \(arguments[0]): \(reason)")
        }
        return pid
    }

    /// `POSIX_SPAWN_SETSID`, which Swift's overlay of glibc leaves out.
    private static let newSession: Int16 = 0x80

    /// The open files of this process.
    ///
    /// Nearly all close by themselves in a child; this catches what a library opened otherwise.
    private static func openNumbers() -> [Int32] {
        guard let directory = opendir("/proc/self/fd") else { return [] }
        defer { closedir(directory) }
        var numbers: [Int32] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if let number = Int32(name) { numbers.append(number) }
        }
        return numbers
    }

    /// Runs a program to its end; returns its exit status (or 128 + signal) and what it printed, at most 64 KiB.
    static func run(
        _ arguments: [String], directory: Descriptor? = nil
    ) throws(EmbeddedPostgresError) -> (status: Int32, output: String) {
        let pid: pid_t
        let reading: Descriptor
        do {
            let pipe = try Descriptor.pipe()
            reading = pipe.reading
            pid = try spawn(arguments, Files(output: pipe.writing, directory: directory))
        }
        var output: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(reading.number, &chunk, chunk.count)
            if count > 0 {
                if output.count < 65_536 { output += chunk[..<count] }
            } else if count == 0 || errno != EINTR {
                break
            }
        }
        guard let status = try end(of: pid, waiting: true) else {
            throw EmbeddedPostgresError(.startFailed, "process \(pid) ended, and did not say how")
        }
        return (status, String(decoding: output, as: UTF8.self))
    }

    /// The exit status (or 128 + signal) of a child of ours that has ended, which collects it; `nil` while it runs.
    ///
    /// - Throws: where the system does not tell: a child of which nothing is known may have failed.
    static func end(of pid: pid_t, waiting: Bool = false) throws(EmbeddedPostgresError) -> Int32? {
        var status: Int32 = 0
        while true {
            let ended = waitpid(pid, &status, waiting ? 0 : WNOHANG)
            if ended == 0 { return nil }
            if ended > 0 {
                own.withLock { _ = $0.remove(pid) }
                return exitStatus(status)
            }
            guard errno == EINTR else { throw .system("waitpid", "process \(pid)") }
        }
    }

    private static func exitStatus(_ status: Int32) -> Int32 {
        status & 0x7f == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f)
    }

    /// Whether a process is a child of ours and still runs; collects it if it has ended.
    static func isRunning(_ pid: pid_t) -> Bool {
        let ended = waitpid(pid, nil, WNOHANG)
        if ended > 0 { own.withLock { _ = $0.remove(pid) } }
        return ended == 0
    }

    /// Children that were started here and whose end nobody has collected: whoever started one does.
    private static let own = Mutex<Set<pid_t>>([])

    /// Collects children that have ended and were not started here.
    ///
    /// - Returns: how many.
    static func collectStrangers() -> Int {
        own.withLock { own in
            var count = 0
            while true {
                var ended = siginfo_t()
                // First without collecting it: its status is for whoever started it.
                guard waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 else { return count }
                let pid = ended._sifields._sigchld.si_pid
                guard pid > 0, !own.contains(pid), waitpid(pid, nil, WNOHANG) == pid else { return count }
                count += 1
            }
        }
    }

    private static func high(_ file: Descriptor) throws(EmbeddedPostgresError) -> Descriptor {
        let number = fcntl(file.number, F_DUPFD_CLOEXEC, 10)
        guard number >= 0 else { throw .system("dup", "descriptor \(file.number)") }
        return Descriptor(owning: number)
    }

    private static func withCStrings<Result>(
        _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        let copies = strings.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        return body(copies + [nil])
    }
}
