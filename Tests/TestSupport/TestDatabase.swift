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
    private static let prefix = "rightful-tests-"
    private var starting: Task<EmbeddedCluster, any Error>?

    /// The server goes with its process; the directory with its log is left for whoever wants to read it, until the
    /// next run.
    private static func removeLeftovers(in parent: URL) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: parent.path())) ?? []
        for name in names where name.hasPrefix(prefix) {
            guard let pid = pid_t(name.dropFirst(prefix.count)), kill(pid, 0) != 0 else { continue }
            try? FileManager.default.removeItem(at: parent.appending(path: name))
        }
    }

    func cluster() async throws -> EmbeddedCluster {
        if let starting { return try await starting.value }
        let task = Task {
            let parent = FileManager.default.temporaryDirectory
            Self.removeLeftovers(in: parent)
            let directory = parent.appending(path: "\(Self.prefix)\(getpid())")
            return try await EmbeddedCluster.acquire(
                dataDirectory: directory.path(), options: EmbeddedCluster.Options(durability: .throwaway))
        }
        starting = task
        return try await task.value
    }
}
