import EmbeddedPostgres
import Foundation
import Ledger
import PostgresClient

/// The PostgreSQL of this test process; it is removed when the process ends.
///
/// The schema is applied once, to a template; a test's database is a copy of it.
actor TestCluster {
    static let shared = TestCluster()

    /// How many databases may be left of tests that are over.
    ///
    /// A database is dropped once this many younger ones exist and nobody is connected to it. Nothing tells when a test
    /// is over; but no test makes that many databases, and the tests of a process that use one run one after the other.
    private static let databasesKept = 24
    private static let template = "migrated"

    private struct Running {
        let cluster: EmbeddedCluster
        /// Makes and drops databases, one at a time.
        let administrator: PostgresConnection
    }

    private var starting: Task<Running, any Error>?
    /// The names of the databases that exist, the oldest first.
    private var databases: [String] = []
    private var dropping: Task<Void, Never>?

    /// Copies the template.
    func makeDatabase() async throws -> TestDatabase {
        try await makeDatabase(like: Self.template)
    }

    /// Copies the database of a test, which nobody may be connected to.
    func copy(of database: TestDatabase) async throws -> TestDatabase {
        let (name, administrator) = (database.name, try await running().administrator)
        // A connection that was closed just now may take a moment to be gone.
        for _ in 0..<100 {
            let sessions = try await administrator.run {
                try $0.query("SELECT FROM pg_stat_activity WHERE datname = $1", [.text(name)])
            }
            if sessions.isEmpty { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        return try await makeDatabase(like: name)
    }

    private func makeDatabase(like template: String) async throws -> TestDatabase {
        let running = try await running()
        let name = "test_" + UUID().uuidString.replacingOccurrences(of: "-", with: "").lowercased()
        // Copies the files, which costs half as much as to write every block to the log.
        try await running.administrator.execute(
            script: "CREATE DATABASE \(name) TEMPLATE \(template) STRATEGY FILE_COPY")
        databases.append(name)
        if dropping == nil, databases.count > Self.databasesKept {
            dropping = Task { await dropOldest(running.administrator) }
        }
        return Self.database(name, of: running.cluster)
    }

    private func dropOldest(_ administrator: PostgresConnection) async {
        let surplus = databases.prefix(max(0, databases.count - Self.databasesKept))
        databases.removeFirst(surplus.count)
        for name in surplus {
            let isDropped = try? await administrator.run { connection in
                // Asked first, because DROP DATABASE waits five seconds for those who are connected.
                let sessions = try connection.query("SELECT FROM pg_stat_activity WHERE datname = $1", [.text(name)])
                if sessions.isEmpty { try connection.execute(script: "DROP DATABASE \(name)") }
                return sessions.isEmpty
            }
            // Its turn comes again after as many tests.
            if isDropped != true { databases.append(name) }
        }
        dropping = nil
    }

    private func running() async throws -> Running {
        if let starting { return try await starting.value }
        let task = Task {
            let directory = ScratchSpace.directory.appending(path: "cluster-\(getpid())")
            let cluster = try await EmbeddedCluster.acquire(
                dataDirectory: directory.path(), options: EmbeddedCluster.Options(durability: .throwaway))
            let administrator = try await PostgresConnection.connect(cluster.ownerConninfo)
            try await administrator.execute(script: "CREATE DATABASE \(Self.template)")
            // Closed at the end of the scope: nobody may be connected to a template that is being copied.
            let owner = try await PostgresConnection.connect(Self.database(Self.template, of: cluster).ownerConninfo)
            _ = try await owner.run { try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0) }
            // As `migrate` gives it to them in the template, which copies do not inherit.
            for (role, settings) in [
                (EmbeddedCluster.owner, ConnectionOptions.owningSettings),
                (EmbeddedCluster.server, ConnectionOptions.servingSettings),
            ] {
                for (name, value) in settings {
                    try await administrator.execute(script: "ALTER ROLE \(role) SET \(name) = \(value)")
                }
            }
            return Running(cluster: cluster, administrator: administrator)
        }
        starting = task
        return try await task.value
    }

    private static func database(_ name: String, of cluster: EmbeddedCluster) -> TestDatabase {
        // A later dbname wins over an earlier one.
        TestDatabase(
            ownerConninfo: cluster.ownerConninfo + " dbname=\(name)",
            serveConninfo: cluster.serveConninfo + " dbname=\(name)")
    }
}
