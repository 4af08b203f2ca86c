/// What PostgreSQL's own defaults do not suit.
///
/// Any of it is overridden by `ALTER SYSTEM`, and by what stands in `postgresql.conf` after the line that includes it.
struct ServerSettings {
    /// Where they stand, in the cluster's directory; `postgresql.conf` includes it.
    static let file = "rightful.conf"

    private let durability: EmbeddedCluster.Durability
    private let memory: Int
    private let disk: Int?

    /// - Parameters:
    ///   - memory: what the machine has for the server and everything beside it, in MiB.
    ///   - disk: how large the cluster's file system is, in MiB; `nil` where it does not say.
    init(_ durability: EmbeddedCluster.Durability, memory: Int, disk: Int?) {
        self.durability = durability
        self.memory = memory
        self.disk = disk
    }

    /// `shared_buffers`, in MiB: a quarter of the memory beyond the first GiB, which the service and the system need.
    ///
    /// The keys of events are random, so every append touches pages all over its indexes, which take 190 bytes an event.
    /// Where they find no room, PostgreSQL needs more than twice the time for an append with ten million events that it needs with a
    /// hundred thousand.
    var sharedBuffers: Int {
        switch durability {
        case .durable: max(64, min(8192, (memory - 1024) / 4))
        case .throwaway: 32
        }
    }

    /// `max_wal_size`, in MiB: at most a quarter of the file system, which an import could fill with it alone otherwise.
    ///
    /// The more it is, the fewer pages an append writes to it whole, as the first change after a checkpoint does.
    var logSize: Int {
        switch durability {
        case .durable: max(256, min(4096, (disk ?? .max) / 4))
        case .throwaway: 256
        }
    }

    var text: String {
        // All tests of a process share one server, each with pools of its own.
        let connections = durability == .throwaway ? 500 : 100
        return """
            max_connections = \(connections)
            shared_buffers = \(sharedBuffers)MB
            # Those of the machine are reserved for somebody else, and a container may be told of some that it has not.
            huge_pages = off
            max_wal_size = \(logSize)MB
            checkpoint_timeout = 15min
            wal_compression = lz4
            fsync = on
            synchronous_commit = on
            jit = off
            timezone = 'UTC'
            log_timezone = 'UTC'
            # What fails behind the sessions is told to nobody else. What sessions are refused is told to the client, who logs
            # it; here it could quote what must not be logged, so sessions begin with log_min_messages = log.
            log_min_messages = warning
            log_min_error_statement = panic
            log_error_verbosity = terse
            log_checkpoints = off

            """
    }
}
