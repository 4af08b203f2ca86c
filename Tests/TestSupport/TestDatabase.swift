import EmbeddedPostgres
import Foundation
import Ledger
package import PostgresClient

/// A migrated database of its own for one test, in a PostgreSQL that all tests of this process share.
package struct TestDatabase: Sendable {
    package let ownerConninfo: String
    package let serveConninfo: String

    package static func make() async throws -> TestDatabase {
        let cluster = try await SharedCluster.shared.cluster()
        let name = "test_" + UUID().uuidString.replacingOccurrences(of: "-", with: "").lowercased()
        let admin = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await admin.execute(script: "CREATE DATABASE \(name)")
        // A later dbname wins over an earlier one.
        let database = TestDatabase(
            ownerConninfo: cluster.ownerConninfo + " dbname=\(name)",
            serveConninfo: cluster.serveConninfo + " dbname=\(name)")
        let owner = try await PostgresConnection.connect(database.ownerConninfo)
        _ = try await owner.run { try Migrator().migrate(servingRole: EmbeddedCluster.server, on: $0) }
        return database
    }

    /// A pool of the serving role.
    package func pool(connections: Int = 4) -> PostgresPool {
        PostgresPool(serveConninfo, limits: PostgresPool.Limits(connections: connections))
    }

    package func owner() async throws -> PostgresConnection { try await PostgresConnection.connect(ownerConninfo) }
}

/// The PostgreSQL of this test process; it is removed when the process ends.
private actor SharedCluster {
    static let shared = SharedCluster()
    private var starting: Task<EmbeddedCluster, any Error>?

    func cluster() async throws -> EmbeddedCluster {
        if let starting { return try await starting.value }
        let task = Task {
            let directory = FileManager.default.temporaryDirectory.appending(path: "rightful-tests-\(getpid())")
            return try await EmbeddedCluster.acquire(
                dataDirectory: directory.path(), options: EmbeddedCluster.Options(durability: .throwaway))
        }
        starting = task
        return try await task.value
    }
}
