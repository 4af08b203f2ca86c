import Dispatch
import EmbeddedPostgres
import Foundation
import Glibc
import Ledger
import PostgresClient

/// A private PostgreSQL for the time of the run, as durable as the product's own.
actor DatabaseServer {
    private let cluster: EmbeddedCluster
    private let directory: URL
    private var interruptions: [any DispatchSourceSignal] = []

    static func start() async throws -> DatabaseServer {
        let directory = FileManager.default.temporaryDirectory.appending(path: "rightful-bench-\(getpid())")
        let server = DatabaseServer(try await EmbeddedCluster.acquire(dataDirectory: directory.path()), directory)
        await server.removeWhenInterrupted()
        DatabaseProcessorTime.watch(clusterDirectory: directory.appending(path: "postgres"))
        return server
    }

    private init(_ cluster: EmbeddedCluster, _ directory: URL) {
        self.cluster = cluster
        self.directory = directory
    }

    private func removeWhenInterrupted() {
        interruptions = Self.onInterruption {
            Task {
                await self.stop()
                exit(1)
            }
        }
    }

    /// Outside the actor: a handler made inside it would be held to its executor, and Dispatch calls it elsewhere.
    private static func onInterruption(_ stop: @escaping @Sendable () -> Void) -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { stop() }
            source.activate()
            return source
        }
    }

    /// A migrated database; what is given to libpq to reach it.
    func makeDatabase(_ name: String) async throws -> BenchmarkDatabase {
        let admin = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await admin.execute(script: "CREATE DATABASE \(name)")
        // A later dbname wins over an earlier one.
        let database = BenchmarkDatabase(
            ownerConninfo: cluster.ownerConninfo + " dbname=\(name)",
            serveConninfo: cluster.serveConninfo + " dbname=\(name)")
        let owner = try await PostgresConnection.connect(database.ownerConninfo)
        _ = try await owner.run { try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0) }
        return database
    }

    func stop() async {
        try? await cluster.release()
        try? FileManager.default.removeItem(at: directory)
    }
}

/// One database of the run.
struct BenchmarkDatabase: Sendable {
    let ownerConninfo: String
    let serveConninfo: String

    /// Connections of the role that serves.
    func pool(connections: Int) -> PostgresPool {
        PostgresPool(serveConninfo, limits: PostgresPool.Limits(connections: connections, waiters: 4096))
    }

    /// Gathers the planner's statistics.
    func analyze() async throws {
        try await PostgresConnection.connect(ownerConninfo).execute(script: "VACUUM ANALYZE")
    }
}
