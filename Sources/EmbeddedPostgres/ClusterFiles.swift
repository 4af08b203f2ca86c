internal import Glibc

/// What a user of a cluster holds open in its data directory.
///
/// All of it is opened once, at the start: a program that root started gives up root's rights afterwards, and may not pass
/// root's data directory any more.
struct ClusterFiles: Sendable {
    /// Held exclusively while somebody makes, starts or stops the cluster.
    let startLock: Descriptor
    /// Held shared by everybody who uses the cluster.
    let usersLock: Descriptor
    /// What the server says.
    let log: Descriptor
    /// What it said before.
    let formerLog: Descriptor
    /// Where the server's files are, for messages.
    private let cluster: String

    init(of layout: ClusterLayout) throws(EmbeddedPostgresError) {
        startLock = try Self.open(layout.startLock)
        usersLock = try Self.open(layout.usersLock)
        log = try Self.open(layout.log)
        formerLog = try Self.open(layout.formerLog)
        cluster = layout.cluster
    }

    /// Opens a file of the data directory to read it and add to it, and makes it where it is missing.
    private static func open(_ path: String) throws(EmbeddedPostgresError) -> Descriptor {
        let file = try Descriptor.open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK)
        guard file.status?.isRegular == true else {
            throw EmbeddedPostgresError(.directory, "\(path) is not a file; move it away")
        }
        return file
    }

    private static let logLimit = 16 << 20

    /// Keeps the log and one before it, of at most about 16 MiB each.
    func limitLog() throws(EmbeddedPostgresError) {
        guard case let size = log.size, size > Self.logLimit else { return }
        // The server appends to the open file, so it is emptied rather than replaced.
        try formerLog.empty("the former log")
        // A log that grew while nobody looked loses its beginning.
        var offset = max(0, size - 2 * Self.logLimit)
        while case let piece = log.bytes(at: offset, count: 1 << 20), !piece.isEmpty {
            try formerLog.write(piece, "the former log")
            offset += piece.count
        }
        try log.empty("the log")
    }

    /// What the server last said, for the message about its failure.
    func logTail() -> String {
        let size = log.size
        let text = String(decoding: log.bytes(at: max(0, size - 2048), count: 2048), as: UTF8.self)
        let lines = text.split(whereSeparator: \.isNewline)
        // What it died of and what led to that, not what it said on its way down.
        let cause = lines.lastIndex { $0.contains("FATAL:") || $0.contains("PANIC:") }
        return (cause.map { lines[...$0] } ?? lines[...]).suffix(3).joined(separator: " | ")
            .replacing(ClusterLayout.inheritedDirectory, with: cluster)
    }

    /// Of lines that the server said, those about processes of its own that ended by a signal or a failure.
    ///
    /// Such as `server process (PID 12) was terminated by signal 9: Killed`; what a background worker says of its end at each stop
    /// is none.
    static func deaths(in text: String) -> [String] {
        text.split(whereSeparator: \.isNewline).map(String.init).filter { line in
            line.contains("PANIC:")
                || line.contains(" process (PID ")
                    && (line.contains("was terminated by") || line.contains("exited with exit code"))
        }
    }
}
