import EmbeddedPostgres
import EntitlementAPI
import EntitlementCore
import Foundation
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

/// What an owner of the database may delete beside the log.
@Suite("Views that somebody deletes", .serialized, .timeLimit(.minutes(5)))
struct DeletedViewsTests {
    /// What each projection keeps, without what no event says, and what may not be compared.
    private static let views = [
        "seen": ["seen": "seen"],
        "watch": ["store_watch": "to_jsonb(store_watch) - '{due_at,next_try_at,attempts}'::text[]"],
        "drift": ["drift": "to_jsonb(drift) - 'asked_at'", "drift_key": "drift_key", "drift_count": "drift_count"],
        "charts": ["chart_part": "chart_part"],
    ]

    @Test(
        "verify names them, and keys that were changed; the next start and a rebuild bring the same rows back, and answers stay the same"
    )
    func deleted() async throws {
        let stage = try await StoreAPIStage(hasKey: false)
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        var service = try await ServiceProcess.start(installation)
        try await Self.tell(stage, HTTPClient(service.url, key: key))
        try await Self.awaitHead(owner)
        let rows = try await Self.rows(owner)
        for (table, found) in rows { try #require(!found.isEmpty, "\(table)") }
        let answers = try await Self.answers(HTTPClient(service.url, key: key))
        try #require(answers.contains { $0.contains(#""overdue":1"#) })
        #expect(try await installation.rightful("verify").contains("verified"))
        service.stop()

        for (view, tables) in Self.views.sorted(by: { $0.key < $1.key }) {
            for table in tables.keys.sorted() {
                try await owner.execute(script: "DELETE FROM \(table)")
                let (status, _, errors) = try await installation.run(["verify", "--quick"])
                let (named, cure) = (table.hasPrefix("drift") ? "drift" : table, "`rightful rebuild --only \(view)`")
                #expect(status == 1 && errors.contains("the first difference: \(named), "), "\(table): \(errors)")
                #expect(errors.contains(cure), "\(table): \(errors)")
                try await installation.rightful("rebuild", "--only", view)
                #expect(try await Self.rows(owner) == rows, "\(table)")
            }
        }
        // A key by which no event would find its difference.
        for change in ["environment = 1", "original_transaction_id = 'x'", "identity = identity + 1000"] {
            try await owner.execute(script: "UPDATE drift_key SET \(change) WHERE identity > 0")
            let (status, _, errors) = try await installation.run(["verify", "--quick"])
            #expect(status == 1 && errors.contains("the first difference: drift, "), "\(change): \(errors)")
            try await installation.rightful("rebuild", "--only", "drift")
            #expect(try await Self.rows(owner) == rows, "\(change)")
        }
        let all = Self.views.values.flatMap(\.keys).map { "DELETE FROM \($0);" }.joined()
        try await owner.execute(script: all)
        service = try await ServiceProcess.start(installation)
        try await Self.wait { try await Self.rows(owner) == rows }
        try await Self.awaitHead(owner)
        #expect(try await Self.answers(HTTPClient(service.url, key: key)) == answers)
        // While it serves.
        try await owner.execute(script: all)
        try await installation.rightful("rebuild")
        try await Self.wait { try await Self.rows(owner) == rows }
        #expect(try await Self.answers(HTTPClient(service.url, key: key)) == answers)
        #expect(try await installation.rightful("verify").contains("verified"))
        service.stop()
        try await cluster.release()
        await stage.remove()
    }

    /// A subscription whose renewal never came, and a device that says otherwise.
    private static func tell(_ stage: StoreAPIStage, _ client: HTTPClient) async throws {
        let product = StoreWorld.ProductID.proMonthly
        var storyteller = Storyteller(world: .standard, seed: 5)
        let account = storyteller.account(.production, hasToken: true)
        _ = storyteller.subscribe(account, to: product, at: StoreAPIStage.now - 40 * Span.day)
        for notification in StoreLife(storyteller, seed: 5).notifications {
            #expect(try await client.notify(try stage.send(notification)).status == 200)
        }
        let claim = """
            {"app":"\(stage.installation.world.bundleID)","signed_transactions":[],"claims":[{"product_id":"\(product)",\
            "state":"active","until":"2040-01-01T00:00:00.000Z"}]}
            """
        let customer = try #require(account.appAccountToken?.lowercased())
        let answer = try await client.send("POST", "/v1/customers/\(customer)/reconcile", body: Array(claim.utf8))
        #expect(answer.status == 200 && answer.text.contains(#""drift":[{"#), "\(answer.text)")
    }

    private static func rows(_ owner: PostgresConnection) async throws -> [String: [String]] {
        try await owner.run { connection in
            var rows: [String: [String]] = [:]
            for (table, columns) in views.values.flatMap({ $0 }) {
                rows[table] = try connection.query("SELECT (\(columns))::text FROM \(table) ORDER BY 1").rows
                    .map { try $0.text(0) }
            }
            return rows
        }
    }

    private static func answers(_ client: HTTPClient) async throws -> [String] {
        let chart = ["from": "2026-01-01T00:00:00.000Z", "to": "2027-01-01T00:00:00.000Z", "interval": "month"]
        return [
            try await client.send("GET", "/v1/streams").text, try await client.send("GET", "/v1/drift").text,
            try await client.send("GET", "/v1/charts/active", query: chart).text,
        ]
    }

    /// Waits until each projection has reached the end of the log.
    private static func awaitHead(_ owner: PostgresConnection) async throws {
        let names = views.keys.map { "'\($0)'" }.joined(separator: ", ")
        try await wait {
            try await owner.query(
                """
                SELECT count(*) = \(views.count) FROM projection JOIN ledger_head USING (ledger_id)
                WHERE name IN (\(names)) AND checkpoint = position
                """
            ).row(0).bool(0)
        }
    }

    private static func wait(_ condition: () async throws -> Bool) async throws {
        for _ in 0..<1200 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw CancellationError()
    }
}
