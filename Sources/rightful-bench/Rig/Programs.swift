import Foundation

/// Where the programs are that the benchmark runs.
struct Programs: Sendable {
    /// `rightful`, built beside this program.
    let rightful: String
    /// This program, to start workers with.
    let bench: String
    private let postgresDirectory: String

    /// Throws unless all of them are there.
    init() throws {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        bench = own
        rightful = URL(filePath: own).deletingLastPathComponent().appending(path: "rightful").path()
        guard FileManager.default.isExecutableFile(atPath: rightful) else {
            throw BenchmarkFailure("there is no \(rightful); build it with `swift build -c release --product rightful`")
        }
        // The newest, as the embedded PostgreSQL takes it.
        let root = "/usr/lib/postgresql"
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).compactMap { Int($0) }
        guard let newest = versions.max() else {
            throw BenchmarkFailure("PostgreSQL is missing; apt-get install postgresql")
        }
        postgresDirectory = "\(root)/\(newest)/bin"
        for name in ["openssl", "setpriv"] { try Self.require(name) }
    }

    /// Throws unless a program can be run by its name.
    static func require(_ name: String) throws {
        let path = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        guard path.contains(where: { FileManager.default.isExecutableFile(atPath: "\($0)/\(name)") }) else {
            throw BenchmarkFailure("\(name) is missing; deploy/bench installs it")
        }
    }

    /// One of PostgreSQL's programs.
    func postgres(_ name: String) -> String { "\(postgresDirectory)/\(name)" }
}
