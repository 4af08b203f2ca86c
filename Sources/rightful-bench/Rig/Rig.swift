import Foundation
import OpenSSLCrypto
import StoreSimulator

/// A data directory of `rightful` with its embedded PostgreSQL, kept up by a process of its own.
///
/// To be used on the main thread.
final class Rig {
    let directory: WorkDirectory
    let programs: Programs
    let dataDirectory: String
    /// Reaches the ledger's database as its owner.
    let ownerConninfo: String
    /// Reaches the ledger's database as the role that serves.
    let serveConninfo: String
    /// The first process of PostgreSQL.
    let postmaster: pid_t
    private let keeper: ChildProgram
    private let configuration: String
    private var service: Service?

    /// Makes a new ledger whose app is the simulated store's, and whose catalog is applied.
    ///
    /// - Parameter asks: the store's own API, where the service is to ask it.
    init(
        _ name: String, _ directory: WorkDirectory, _ programs: Programs, _ workload: Workload,
        asks store: AskedStore? = nil
    ) throws {
        self.directory = directory
        self.programs = programs
        dataDirectory = directory.path(name)
        keeper = try ChildProgram([programs.bench, "worker", "keep", dataDirectory], in: directory, keepsInput: true)
        let kept: Kept
        do {
            kept = try Self.answer(of: keeper)
            configuration = try Self.writeConfiguration(to: directory.path("\(name).json"), workload, store)
        } catch {
            keeper.terminate()
            throw error
        }
        (ownerConninfo, serveConninfo, postmaster) = (kept.owner, kept.serve, kept.postmaster)
        do {
            let catalog = directory.path("catalog.json")
            try Data(try workload.world.catalogFile.encoded()).write(to: URL(filePath: catalog))
            try run(["catalog", "apply", catalog])
        } catch {
            keeper.terminate()
            throw error
        }
    }

    /// What the keeper prints once PostgreSQL is up.
    struct Kept: Codable {
        let owner: String
        let serve: String
        let postmaster: Int32
    }

    private static func answer(of keeper: ChildProgram) throws -> Kept {
        let end = ContinuousClock.now + .seconds(200)
        while ContinuousClock.now < end {
            if let line = keeper.output.split(separator: "\n").first {
                return try JSONDecoder().decode(Kept.self, from: Data(line.utf8))
            }
            guard keeper.isRunning else { throw BenchmarkFailure("PostgreSQL did not start: \(keeper.errors)") }
            usleep(10_000)
        }
        throw BenchmarkFailure("PostgreSQL did not start within 200 s")
    }

    private static func writeConfiguration(
        to path: String, _ workload: Workload, _ store: AskedStore?
    ) throws -> String {
        let root = path + ".root.der"
        try Data(workload.store.root.certificate.der).write(to: URL(filePath: root))
        let text = """
            {"apps": [{"bundle_id": "\(workload.world.bundleID)", "app_apple_id": \(workload.world.appAppleID),
              "environments": ["production"]\(store.map { ", \"app_store_api\": \($0.setting)" } ?? "")}], "root_certificates": ["\(root)"],
             "rate_limits": {"address_per_second": 1000000, "address_burst": 1000000, "key_per_second": 1000000,
              "key_burst": 1000000}, "webhooks": {"allow_private_addresses": true}}
            """
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    /// One of PostgreSQL's programs.
    func postgres(_ name: String) -> String { programs.postgres(name) }

    /// The arguments that every command of `rightful` on this ledger takes.
    var common: [String] { ["--config", configuration, "--data-dir", dataDirectory] }

    /// Runs a command of `rightful` on this ledger; returns what it printed.
    @discardableResult
    func run(_ command: [String], limit: Duration = .seconds(120)) throws -> String {
        try ChildProgram([programs.rightful] + command + common, in: directory).finish(limit: limit).output
    }

    /// Starts `rightful serve`, or returns the one that runs.
    func serve() throws -> Service {
        if let service { return service }
        let started = try Service(self)
        service = started
        return started
    }

    /// Stops the service; the next `serve` starts another, which remembers nothing.
    func stopService() {
        service?.stop()
        service = nil
    }

    /// Runs a statement through `psql` and returns its rows, fields separated by `|`.
    @discardableResult
    func query(_ sql: String, _ conninfo: String? = nil, limit: Duration = .seconds(120)) throws -> String {
        try ChildProgram(
            [
                postgres("psql"), "--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--set", "ON_ERROR_STOP=1",
                "--dbname", conninfo ?? ownerConninfo, "--command", sql,
            ], in: directory
        ).finish(limit: limit).output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// A number that a statement gives.
    func number(_ sql: String, limit: Duration = .seconds(120)) throws -> Int {
        let text = try query(sql, limit: limit)
        guard let number = Int(text) else { throw BenchmarkFailure("'\(text)' is not a number: \(sql)") }
        return number
    }

    /// A further, empty database of the same PostgreSQL; what reaches it.
    func makeDatabase(_ name: String) throws -> String {
        try query("CREATE DATABASE bench_\(name)")
        // A later dbname wins over an earlier one.
        return ownerConninfo + " dbname=bench_\(name)"
    }

    /// What a real service's database has after its first minutes: views at the log's end, statistics, visibility, nothing
    /// left to flush.
    func settle() throws {
        try followLog()
        try query("VACUUM ANALYZE", limit: .seconds(1800))
        try query("CHECKPOINT", limit: .seconds(600))
    }

    /// Lets a service bring everything that follows the log to its end, which else it would do while it is measured.
    ///
    /// For charts a service takes at most half of one processor, so that those who ask are served first. Here nobody asks, and
    /// after millions of events it would take half an hour.
    private func followLog() throws {
        let uncounted = """
            SELECT position - coalesce((SELECT checkpoint FROM projection WHERE name = 'charts'), 0) FROM ledger_head
            """
        if try number(uncounted) > 50_000 { try run(["rebuild", "--only", "charts"], limit: .seconds(1800)) }
        _ = try serve()
        let end = ContinuousClock.now + .seconds(1800)
        let behind = """
            SELECT count(*) FROM projection JOIN ledger_head AS head USING (ledger_id)
            WHERE checkpoint < head.position
            """
        while try number(behind) > 0 {
            guard ContinuousClock.now < end else { throw BenchmarkFailure("the views did not reach the log's end") }
            usleep(200_000)
        }
    }

    /// Has the database read every table and index once, but for evidence, which no answer is made of; indexes last, so that they
    /// stay where not all fits into its memory.
    ///
    /// A server that has run for a day has read them. After a large log was loaded and vacuumed, the memory holds what came
    /// last, most of which is evidence; each answer would then wait for the disk a dozen times.
    func warmUp() throws {
        try query("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        try query(
            """
            SELECT sum(pg_prewarm(oid)) FROM (
                SELECT oid FROM pg_class
                WHERE relkind IN ('r', 'i', 'm') AND relnamespace = 'public'::regnamespace
                    AND relname NOT LIKE 'evidence%'
                ORDER BY relkind = 'i' OFFSET 0
            ) AS relation
            """, limit: .seconds(600))
    }

    /// The log's last position.
    func position() throws -> Int { try number("SELECT max(position) FROM event") }

    /// All tables of the ledger with their indexes, in bytes.
    func bytesOnDisk() throws -> Int {
        try query("CHECKPOINT", limit: .seconds(600))
        return try number(
            """
            SELECT sum(pg_total_relation_size(oid)) FROM pg_class
            WHERE relkind IN ('r', 'm') AND relnamespace = 'public'::regnamespace
            """)
    }

    /// Starts a worker of this program.
    ///
    /// - Parameter keepsInput: it runs until its standard input is closed.
    func worker<Request: Encodable>(
        _ name: String, _ request: Request, keepsInput: Bool = false, showsErrors: Bool = false
    ) throws -> ChildProgram {
        let text = String(decoding: try JSONEncoder().encode(request), as: UTF8.self)
        return try ChildProgram(
            [programs.bench, "worker", name, text], in: directory, keepsInput: keepsInput, showsErrors: showsErrors)
    }

    /// Stops everything and removes it.
    func tearDown() {
        stopService()
        keeper.closeInput()
        _ = try? keeper.wait(limit: .seconds(90))
        try? FileManager.default.removeItem(atPath: dataDirectory)
    }
}

extension ChildProgram {
    /// Waits for a worker and reads its result.
    func result<Result: Decodable>(_ type: Result.Type, limit: Duration) throws -> (result: Result, ending: Ending) {
        let (output, ending) = try finish(limit: limit)
        return (try JSONDecoder().decode(type, from: Data(output.utf8)), ending)
    }
}
