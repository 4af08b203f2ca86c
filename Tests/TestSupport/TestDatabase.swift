import EmbeddedPostgres
import Foundation
package import PostgresClient

/// A migrated database of its own for one test, in a PostgreSQL that all tests of this process share.
///
/// It is dropped some time after the test: see `TestCluster`.
package struct TestDatabase: Sendable {
    /// For libpq, as the role that owns the tables.
    package let ownerConninfo: String
    /// For libpq, as the role that `rightful serve` uses.
    package let serveConninfo: String

    package init(ownerConninfo: String, serveConninfo: String) {
        self.ownerConninfo = ownerConninfo
        self.serveConninfo = serveConninfo
    }

    /// Makes a database; throws `EmbeddedPostgresError` or `PostgresError` where PostgreSQL does not start or refuses.
    package static func make() async throws -> TestDatabase {
        try await TestCluster.shared.makeDatabase()
    }

    /// A copy of it as it is now, as a backup is; nobody may be connected to it.
    package func copy() async throws -> TestDatabase { try await TestCluster.shared.copy(of: self) }

    /// What PostgreSQL calls it: `TestCluster` writes it last.
    var name: String { String(ownerConninfo.split(separator: "=").last ?? "") }

    /// A pool of the serving role.
    package func pool(connections: Int = 4) -> PostgresPool {
        PostgresPool(serveConninfo, limits: PostgresPool.Limits(connections: connections))
    }

    /// A connection of the owning role.
    package func owner() async throws -> PostgresConnection { try await PostgresConnection.connect(ownerConninfo) }

    /// Returns once a session waits for a lock of another; throws `NobodyWaits` after 20 s.
    package func untilASessionWaits() async throws {
        let watcher = try await owner()
        let begun = ContinuousClock.now
        while try await watcher.query(
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).isEmpty {
            guard begun.duration(to: .now) < .seconds(20) else { throw NobodyWaits() }
        }
    }

    /// No session waited for a lock, although the test says that one has to.
    struct NobodyWaits: Error {}
}
