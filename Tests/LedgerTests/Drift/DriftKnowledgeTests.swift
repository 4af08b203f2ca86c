import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("What is known while differences are told apart", .timeLimit(.minutes(1)))
struct DriftKnowledgeTests {
    @Test("a comparison that takes long says something to the server in time, and no more often than it has to")
    func stayAwake() async throws {
        let database = try await TestDatabase.make()
        let comparing = try await PostgresConnection.connect(database.serveConninfo)
        let watching = try await PostgresConnection.connect(database.serveConninfo)
        try await comparing.run { try $0.execute(script: "BEGIN") }
        let pid = try await comparing.run { try $0.query("SELECT pg_backend_pid()").row(0).int(0) }
        /// When the server heard something last, in its own words.
        func heard() async throws -> Int64 {
            try await watching.run { connection in
                try connection.query(
                    "SELECT (extract(epoch FROM query_start) * 1000000)::bigint FROM pg_stat_activity WHERE pid = $1",
                    [.int(pid)]
                ).row(0).int(0)
            }
        }
        var known = DriftKnowledge(from: 0, to: 1)
        let start = ContinuousClock.now
        let silence = DriftKnowledge.longestSilence
        var last = try await heard()
        for (passed, speaks) in [
            (silence / 2, false), (silence + .seconds(1), true), (silence * 3 / 2, false), (silence * 3, true),
        ] {
            known = try await comparing.run { [known] connection in
                var known = known
                try known.stayAwake(on: connection, now: start + passed)
                return known
            }
            let now = try await heard()
            #expect((now > last) == speaks, "after \(passed)")
            last = now
        }
        // The server ends whoever is silent in a transaction for this long; a single comparison may take a while too.
        let options = ConnectionOptions()
        #expect(silence * 3 <= .milliseconds(options.idleInTransactionTimeoutMilliseconds))
        try await comparing.run { try $0.execute(script: "ROLLBACK") }
    }
}
