import EmbeddedPostgres
import EntitlementCore
import Foundation
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

/// Rebuilds by the program itself: by hand and killed, and in the background of a service.
@Suite("Rebuilding the views", .serialized)
struct RebuildTests {
    @Test("a rebuild killed without warning is finished by the next, while events are recorded")
    func killed() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        try await installation.rightful("status")
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let pool = PostgresPool(cluster.serveConninfo)
        let writer = LedgerWriter(pool: pool, now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) })
        try await append(RandomDrafts(seed: 1, originals: 400).drafts(12_000)[...], to: writer)
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await owner.execute(script: "UPDATE original_view SET state = 'garbled', last_position = last_position + 0")

        // Else a rebuild of so few events would be over before anybody could kill it.
        try await owner.execute(
            script: """
                CREATE FUNCTION slow_down() RETURNS trigger LANGUAGE plpgsql AS
                    'BEGIN PERFORM pg_sleep(0.1); RETURN new; END';
                CREATE TRIGGER slow_down BEFORE UPDATE ON rebuild FOR EACH ROW EXECUTE FUNCTION slow_down();
                """)
        let later = RandomDrafts(seed: 2, originals: 500).drafts(200)
        for (round, phase) in ["folding", "proving"].enumerated() {
            let process = Process()
            process.executableURL = try Products.url("rightful")
            process.arguments = ["rebuild", "--config", installation.configurationFile.path()]
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.runAlone()
            // By then it has fixed the position up to which it folds.
            try await wait { try await Self.rebuild(owner).isHeld }
            async let longest = longestAppend(of: later[(100 * round)..<(100 * round + 100)], to: writer)
            try await wait {
                let state = try await Self.rebuild(owner)
                return state.phase == phase && state.events > 0
            }
            kill(process.processIdentifier, SIGKILL)
            process.waitForEnd()
            let left = try await Self.rebuild(owner)
            #expect(left.isHeld, "it said goodbye: it was not killed at work")
            #expect(try await longest < .seconds(3), "an append waited for the rebuild")
        }
        try await owner.execute(script: "DROP TRIGGER slow_down ON rebuild")
        let (status, output, errors) = try await installation.run(["rebuild"])
        #expect(status == 0, "\(errors)")
        #expect(errors.isEmpty, "nobody watches a terminal, and yet: \(errors)")
        #expect(output.contains("live since position 12000") && output.contains("resumed"), "\(output)")
        try await Self.expectTrueViews(pool, owner, upTo: 12_000)
        let others = try await installation.run(["rebuild", "--only", "charts,seen"])
        #expect(others.0 == 0 && others.1 == "rebuilt from the log\n", "\(others)")
        let unknown = try await installation.run(["rebuild", "--only", "charts,sheen"])
        #expect(unknown.0 == 2 && unknown.2.contains("sheen is none of them"), "\(unknown)")
        // What came meanwhile is for the projector.
        // Its log is made by the test, and signed by nobody.
        try await installation.rightful("verify", "--quick")
        try await ViewProjector(pool: pool).catchUp()
        try await installation.rightful("verify", "--quick")
        try await cluster.release()
    }

    @Test("views of another fold version, or deleted, are rebuilt behind a service whose answers stay the same")
    func background() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        var catalog = try #require(
            JSONSerialization.jsonObject(with: Data(contentsOf: installation.catalogFile)) as? [String: Any])
        let products = try #require(catalog["products"] as? [[String: Any]])
        catalog["products"] = products + [["product_id": "com.example.pro", "entitlements": ["pro"]]]
        try JSONSerialization.data(withJSONObject: catalog).write(to: installation.catalogFile)
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let life = StoreLife.random(seed: 5, world: installation.world, customers: 4)
        // Lives long enough for snapshots, of which the random ones have few.
        let long = RandomDrafts(seed: 5, originals: 3)
        let writer = LedgerWriter(
            pool: PostgresPool(cluster.serveConninfo), now: { Timestamp(milliseconds: Int64(1_760_000_000_000)) })
        try await append(long.drafts(150)[...], to: writer)
        let first = try await ServiceProcess.start(installation)
        let given = try await Self.live(life, installation, HTTPClient(first.url, key: key))
        let current = try await Self.current(
            (0..<3).map { long.customer(of: "2000\($0)") }, HTTPClient(first.url, key: key))
        #expect(!first.logText.contains("rebuil"), "\(first.logText)")
        #expect(first.stop() == 0)

        for damage in [
            "UPDATE original_view SET fold_version = 0; UPDATE projection SET version = 0 WHERE name = 'originals'",
            "DELETE FROM original_view",
            "UPDATE original_view SET state = ''; UPDATE projection SET checkpoint = 1000000 WHERE name = 'originals'",
        ] {
            try await owner.execute(script: damage)
            let service = try await ServiceProcess.start(installation)
            let client = HTTPClient(service.url, key: key)
            for answer in given + current { try await answer.expectAgain(client, damage) }
            try await wait { service.logText.contains("the views are rebuilt") }
            for answer in given + current { try await answer.expectAgain(client, damage) }
            #expect(service.stop() == 0)
            try await Self.expectTrueViews(PostgresPool(cluster.serveConninfo), owner)
        }
        // A catalog that maps nothing rewrites what is known now, and nothing of what was known then.
        let empty = installation.directory.appending(path: "empty.json")
        try Data("{\"products\":[]}".utf8).write(to: empty)
        try await installation.rightful("catalog", "apply", empty.path())
        let service = try await ServiceProcess.start(installation)
        for answer in given {
            try await answer.expectAgain(HTTPClient(service.url, key: key), "another catalog")
        }
        #expect(service.stop() == 0)
        try await cluster.release()
    }

    @Test("the status says how the ledger stands, to people and to machines")
    func status() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let empty = try await installation.rightful("status")
        #expect(empty.contains("nothing is recorded yet"), "\(empty)")
        try await installation.rightful("rebuild", "--only", "seen")
        #expect(try await installation.rightful("status").contains("\nrebuild of originals  never\n"))
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let pool = PostgresPool(cluster.serveConninfo)
        let writer = LedgerWriter(pool: pool, now: { Timestamp(milliseconds: Int64(1_800_000_000_000)) })
        var drafts = RandomDrafts(seed: 3, originals: 4).drafts(20)
        if case .notification(var fact) = drafts[7].fact {
            fact.remarks = ["unknown_type:NEW_THING"]
            drafts[7].fact = .notification(fact)
        }
        for draft in drafts { _ = try await writer.append(draft) }
        try await installation.rightful("rebuild")

        let json = try await installation.rightful("status", "--json")
        let status = try #require(JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        func number(_ path: String...) -> Int? {
            var value: Any? = status
            for name in path { value = (value as? [String: Any])?[name] }
            return (value as? NSNumber)?.intValue
        }
        #expect(json.split(separator: "\n").count == 1)
        #expect((status["schema"] as? [String: Any])?["standing"] as? String == "current")
        #expect(number("ledger", "position") == 20 && number("counts", "events") == 20)
        #expect(number("counts", "identities") == 4 && number("counts", "keys") == 0)
        #expect(status["partitions"] == nil)
        let projections = try #require(status["projections"] as? [[String: Any]])
        #expect(projections.map { $0["name"] as? String } == ["charts", "drift", "originals", "seen", "tree", "watch"])
        #expect(projections.allSatisfy { ($0["lag"] as? NSNumber)?.intValue == 0 })
        #expect((status["rebuild"] as? [String: Any])?["phase"] as? String == "done")
        let roles = try #require(status["roles"] as? [String: Any])
        #expect(roles["can_alter_log"] as? Bool == false && roles["serving"] as? String == "rightful_serve")
        #expect(try #require(number("sizes", "database")) > 1_000_000)
        let attention = try #require(status["attention"] as? [String: Any])
        let remark = try #require((attention["remarks"] as? [[String: Any]])?.first)
        #expect(remark["name"] as? String == "unknown_type" && remark["last_position"] as? Int == 8)
        let product = try #require((attention["unmapped_products"] as? [[String: Any]])?.first)
        #expect(product["name"] as? String == "com.example.pro" && product["events"] as? Int == 20)

        let text = try await installation.rightful("status")
        for line in ["position 20", "unknown_type: 1 event, the last at position 8", "can only read and append"] {
            #expect(text.contains(line), "\(text)")
        }

        // Somebody asks because something is wrong, so what cannot be done is a line of the answer.
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await owner.execute(
            script: "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE projection IN EXCLUSIVE MODE")
        for draft in RandomDrafts(seed: 4, originals: 1).drafts(1) { _ = try await writer.append(draft) }
        let hindered = try await installation.rightful("status")
        #expect(hindered.contains("position 21"), "\(hindered)")
        #expect(hindered.contains("counting what the log speaks of on") && hindered.contains("55P03"), "\(hindered)")
        try await owner.execute(script: "ROLLBACK")
        try await cluster.release()
    }

    // MARK: - What the tests share

    /// An answer, and how it was asked for.
    private struct Given: Sendable {
        let path: String
        let query: [String: String]
        let body: Data

        func expectAgain(_ client: HTTPClient, _ comment: String) async throws {
            let answer = try await client.send("GET", path, query: query)
            #expect(answer.body == body, "\(comment): \(path) \(query) \(answer.text)")
        }
    }

    /// Delivers a life, and asks after each delivery what is known now.
    private static func live(
        _ life: StoreLife, _ installation: Installation, _ client: HTTPClient
    ) async throws -> [Given] {
        let customers = life.record.customers.sorted { $0.customerID < $1.customerID }
        var given: [Given] = []
        for (index, notification) in life.notifications.enumerated() {
            #expect(try await client.notify(installation.authority.sign(notification)).status == 200)
            let position = try await client.head()
            let customer = customers[index % customers.count]
            let environment = customer.environment.rawValue
            for (view, query) in [("entitlements", ["at": "2026-06-01T00:00:00.000Z"]), ("timeline", [:])] {
                let path = "/v1/customers/\(customer.customerID)/\(view)"
                let query = query.merging(["environment": environment]) { $1 }
                let answer = try await client.send("GET", path, query: query)
                #expect(answer.status == 200)
                given.append(
                    Given(path: path, query: query.merging(["known_at": "\(position)"]) { $1 }, body: answer.body))
            }
        }
        return given
    }

    /// Asks what is known of customers now, by way of the views.
    private static func current(_ customers: [String], _ client: HTTPClient) async throws -> [Given] {
        var given: [Given] = []
        for customer in customers {
            let path = "/v1/customers/\(customer)/timeline"
            let answer = try await client.send("GET", path)
            #expect(answer.status == 200 && answer.text.contains("intervals"), "\(answer.text)")
            given.append(Given(path: path, query: [:], body: answer.body))
        }
        return given
    }

    private func append(_ drafts: ArraySlice<EventDraft>, to writer: LedgerWriter) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (started, draft) in drafts.enumerated() {
                if started >= 256 { try await group.next() }
                group.addTask { _ = try await writer.append(draft) }
            }
            try await group.waitForAll()
        }
    }

    /// Appends one after the other; returns how long the slowest took.
    private func longestAppend(of drafts: ArraySlice<EventDraft>, to writer: LedgerWriter) async throws -> Duration {
        var longest = Duration.zero
        for draft in drafts {
            let start = ContinuousClock.now
            _ = try await writer.append(draft)
            longest = max(longest, start.duration(to: .now))
        }
        return longest
    }

    private static func rebuild(
        _ owner: PostgresConnection
    ) async throws -> (phase: String, events: Int64, isHeld: Bool) {
        try await owner.run { connection in
            let row = try connection.query("SELECT phase, events, holder IS NOT NULL FROM rebuild").first
            return try row.map { (try $0.text(0), try $0.int(1), try $0.bool(2)) } ?? ("", 0, false)
        }
    }

    /// Looks again and again, for at most a minute.
    private func wait(_ condition: () async throws -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while try await !condition() {
            try #require(ContinuousClock.now < end, "it did not come to that within a minute")
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// The views that count are the folds of every original that is long enough, made here from the events, and no more.
    private static func expectTrueViews(
        _ pool: PostgresPool, _ owner: PostgresConnection, upTo position: Int64 = .max
    ) async throws {
        var folded: [String: OriginalState] = [:]
        var lengths: [String: Int] = [:]
        var after: Int64 = 0
        let reader = LedgerReader(pool: pool, now: { .latest })
        while true {
            let page = try await reader.events(after: after, limit: 1000)
            for event in page.events where event.record.position <= position {
                let record = event.record
                guard let environment = record.environment, let original = record.originalTransactionID else {
                    continue
                }
                lengths["\(environment) \(original)", default: 0] += 1
                folded["\(environment) \(original)", default: OriginalState()].join(
                    event.fact, originalTransactionID: original, source: .notification, position: record.position)
            }
            after = page.nextAfter
            if !page.hasMore { break }
        }
        let views = try await owner.run { connection in
            // A rebuild's views reach to where the log ended when it began.
            let rows = try connection.query(
                """
                SELECT CASE environment WHEN 1 THEN 'production' WHEN 2 THEN 'sandbox' END, original_transaction_id, state
                FROM original_view WHERE generation = (SELECT view_generation FROM ledger_head)
                """
            ).rows
            return try rows.map { ("\(try $0.text(0)) \(try $0.text(1))", try $0.bytes(2)) }
        }
        let long = lengths.filter { $0.value >= 16 }
        #expect(!long.isEmpty && Set(views.map(\.0)) == Set(long.keys))
        for (key, state) in views { #expect(state == folded[key]?.encoded(), "\(key)") }
    }
}
