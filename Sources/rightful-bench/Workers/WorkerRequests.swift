/// What the benchmark asks a worker process to do, and what the worker answers: JSON on the command line and on
/// standard output.
enum WorkerRequest {
    /// Appends the events of a stream through the ledger's writer.
    struct Append: Codable {
        var conninfo: String
        var shape: LifeStream.Shape
        /// How many events of the stream are in the log already.
        var skip = 0
        /// How many events wait for their commit at any time.
        var concurrency: Int
        /// Ends after so many events; 0: no limit.
        var events = 0
        /// Ends after so many seconds; 0: no limit.
        var seconds = 0.0
        /// Where to write the customers that there are at the end, one a line.
        var customersFile: String?
        /// Whether to tell how far it is, on standard error.
        var showsProgress = false
    }

    /// Inserts rows as large into a plain table, a hundred to a transaction.
    struct Insert: Codable {
        var conninfo: String
        /// Whether the rows hold evidence as the ledger stores it, compressed, or as it was before.
        var isCompressed: Bool
        var seconds: Double
    }

    /// Sends prepared requests, each once, on so many connections.
    struct Send: Codable {
        var port: UInt16
        var file: String
        var connections: Int
    }

    /// Sends prepared notifications at a steady rate, and tells a watcher of some of them.
    struct Post: Codable {
        var port: UInt16
        var file: String
        /// The customer of each request, one a line.
        var customersFile: String
        var perSecond: Double
        var seconds: Double
        /// A named pipe to which one in twenty is told as it is sent: the instant and the customer.
        var pipe: String
        /// One of so many is told.
        var everyNth = 20
    }

    /// Asks for each customer that a named pipe tells until an entitlement is there.
    struct Watch: Codable {
        var port: UInt16
        var key: String
        var pipe: String
    }
}

/// What a worker measured.
struct WorkerResult: Codable {
    var operations: Int
    var seconds: Double
    var p50Milliseconds = 0.0
    var p99Milliseconds = 0.0
    /// Processor time of the worker meanwhile, in seconds.
    var processorSeconds: Double?
    /// Events of a transaction, on average.
    var batch: Double?
    /// Bytes that were to be stored, of facts, evidence and keys, of one row on average.
    var rowBytes: Int?

    var perSecond: Double { seconds > 0 ? Double(operations) / seconds : 0 }
}
