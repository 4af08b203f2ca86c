import EmbeddedPostgres
import Foundation
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

/// A service whose database refuses everything that is to be recorded, while reads go on.
@Suite("A database that records nothing", .serialized, .timeLimit(.minutes(3)))
struct FullDiskTests {
    @Test("a full disk is told by answers, metrics, status and log until there is room, and nothing is lost")
    func fullDisk() async throws {
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        try FileManager.default.createDirectory(at: installation.dataDirectory, withIntermediateDirectories: true)
        guard let disk = SmallDisk(mountedOver: installation.dataDirectory) else {
            return print("skipped: this process may not mount a small disk")
        }
        defer { disk.unmount() }
        try await InstalledCluster.shared.copy(into: installation.dataDirectory)
        try await Self.stop(
            installation, words: "The disk of the database is full", detail: "(SQLSTATE 53100)",
            begin: disk.fill, end: disk.free)
    }

    @Test("so is a trigger that refuses every event")
    func trigger() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        try await Self.stop(
            installation, words: "The database refuses whatever is to be written",
            detail: "nothing for now (SQLSTATE P0001)",
            begin: {
                try await Self.sql(
                    """
                    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'nothing for now'; END $$;
                    CREATE TRIGGER refuse BEFORE INSERT ON event EXECUTE FUNCTION refuse();
                    """, installation)
            }, end: { try await Self.sql("DROP TRIGGER refuse ON event", installation) })
    }

    /// Lets a service record something, stops that for a while, and looks at all that is said of it.
    ///
    /// - Parameters:
    ///   - words: what the matter is, in plain words.
    ///   - detail: the same in the words of the database.
    private static func stop(
        _ installation: Installation, words: String, detail: String, begin: () async throws -> Void,
        end: () async throws -> Void
    ) async throws {
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: key, attempts: 1)
        let life = StoreLife.random(seed: 3, world: installation.world, customers: 40)
        var notifications = try life.notifications.map { try installation.authority.sign($0) }
        var positions: [String: Int64] = [:]
        func deliver(_ payload: String) async throws -> HTTPClient.Answer {
            let answer = try await client.notify(payload)
            if answer.status == 200 { positions[payload] = (answer.json["position"] as? NSNumber)?.int64Value }
            return answer
        }
        for _ in 0..<5 { #expect(try await deliver(notifications.removeLast()).status == 200) }

        try await begin()
        // Some fit into pages that are there.
        var refused: String?
        while refused == nil, let payload = notifications.popLast() {
            if try await deliver(payload).status != 200 { refused = payload }
        }
        let payload = try #require(refused, "everything found room")
        try await wait(client, areFailing: true)

        let grant = Array(#"{"entitlement":"premium","reason":"a test"}"#.utf8)
        let world = installation.world
        let product = try #require(world.products.first { $0.kind == .nonConsumable })
        let purchase = try installation.authority.sign(ReconcilePassTests.purchase("1", product, world, ends: nil))
        let report = try PayloadValue.object([
            "app": .string(world.bundleID), "signed_transactions": .array([.string(purchase)]),
        ]).encoded()
        let known = try await client.head()
        var answers = [try await client.send("POST", "/v1/customers/ann/actions/grant", body: grant)]
        answers.append(try await client.send("PUT", "/v1/catalog", body: Array(#"{"products":[]}"#.utf8)))
        answers.append(try await client.send("POST", "/v1/customers/ann/reconcile", body: report))
        answers.append(try await deliver(payload))
        for answer in answers {
            #expect(answer.status == 503 && answer.code == "unavailable", "\(answer.text)")
            #expect(answer.json["retryable"] as? Bool == true && answer.headers["retry-after"] != nil)
        }
        // What needs nothing recorded goes on.
        #expect(try await client.send("GET", "/v1/customers/ann/entitlements").status == 200)
        #expect(try await client.send("GET", "/healthz").status == 200)
        #expect(try await client.send("GET", "/readyz").status == 200)
        try await wait(service, for: #""message":"work behind the service fails","work":"appends""#)
        #expect(service.logText.contains("\(words), so nothing can be recorded"), "\(service.logText)")
        let status = try await installation.rightful("status")
        let line = /failing +appends on/
        #expect(status.contains(line) && status.contains(detail), "\(status)")
        #expect(try await client.head() == known, "trying adds nothing")
        #expect(try await installation.rightful("verify").hasPrefix("verified: "))

        try await end()
        // By itself: nobody sends anything to be recorded.
        try await wait(client, areFailing: false)
        try await wait(service, for: #""message":"work behind the service succeeds again","work":"appends""#)
        #expect(try await client.head() == known)
        #expect(try await !installation.rightful("status").contains(line))
        for word in ["fails", "succeeds again"] {
            let lines = service.logText.split(separator: "\n").count {
                $0.contains("work behind the service \(word)") && $0.contains(#""work":"appends""#)
            }
            #expect(lines == 1, "\(word)")
        }
        #expect(try await deliver(payload).status == 200)
        #expect(try await client.send("POST", "/v1/customers/ann/reconcile", body: report).status == 200)
        let recorded = Set(try await client.events().compactMap { ($0["position"] as? NSNumber)?.int64Value })
        #expect(positions.count > 5 && recorded.isSuperset(of: positions.values), "what was acknowledged is there")
        #expect(service.stop() == 0)
        #expect(try await installation.rightful("verify").hasPrefix("verified: "))
    }

    /// Waits until the metrics say whether nothing can be recorded, which they are to say within seconds.
    private static func wait(_ client: HTTPClient, areFailing: Bool) async throws {
        let line = "rightful_appends_failing \(areFailing ? 1 : 0)\n"
        while try await !client.send("GET", "/metrics").text.contains(line) {
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    private static func wait(_ service: ServiceProcess, for text: String) async throws {
        while !service.logText.contains(text) { try await Task.sleep(for: .milliseconds(20)) }
    }

    /// Runs SQL as the owner of the tables in the installation's own PostgreSQL.
    private static func sql(_ text: String, _ installation: Installation) async throws {
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await owner.execute(script: text)
        try await cluster.release()
    }
}
