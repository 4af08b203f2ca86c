internal import Glibc

/// A process of a server.
struct ServerProcess: Equatable {
    let id: pid_t
    let name: String
    /// Whether it was stopped by a signal.
    let isStopped: Bool

    /// Reads a line of `/proc/PID/stat`, such as `1234 (postgres) T …`.
    init?(status: some StringProtocol) {
        // A name may hold anything, parentheses too.
        guard let start = status.firstIndex(of: "("), let end = status.lastIndex(of: ")"), start < end,
            let id = status[..<start].split(whereSeparator: \.isWhitespace).first.flatMap({ pid_t($0) })
        else { return nil }
        let state = status[status.index(after: end)...].first { !$0.isWhitespace }
        self.id = id
        name = String(status[status.index(after: start)..<end])
        isStopped = state == "T" || state == "t"
    }

    /// Sends it a signal, unless it has ended.
    static func signal(_ signal: Int32, to process: pid_t) throws(EmbeddedPostgresError) {
        guard kill(process, signal) == 0 || errno == ESRCH else {
            throw .system("kill", "\(process), a process of PostgreSQL")
        }
    }
}
