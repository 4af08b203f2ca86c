import Foundation

/// The descriptors of this process, for its sockets and files.
enum Descriptors {
    /// More than a service ever needs.
    private static let most: rlim_t = 65_536

    /// Lets there be a standard input, output and error.
    ///
    /// Where whoever started the program has closed one, the next file or socket that is opened would be in its place, and be
    /// printed to.
    ///
    /// - Returns: whether there was a standard output.
    static func fillStandard() -> Bool {
        let hasOutput = fcntl(STDOUT_FILENO, F_GETFD) >= 0
        // What is opened gets the lowest number that is free.
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            _ = open("/dev/null", O_RDWR)
        }
        return hasOutput
    }

    /// Lets there be as many as the system allows this user, whose shell or unit often begins with 1024.
    ///
    /// - Returns: how many there may be.
    static func raise() -> Int {
        #if canImport(Glibc)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let resource = RLIMIT_NOFILE
        #endif
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 1024 }
        let wished = min(limit.rlim_max, most)
        if limit.rlim_cur < wished {
            var raised = rlimit(rlim_cur: wished, rlim_max: limit.rlim_max)
            if setrlimit(resource, &raised) == 0 { limit = raised }
        }
        return Int(min(limit.rlim_cur, most))
    }
}
