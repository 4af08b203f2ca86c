import EmbeddedPostgres
import Foundation
import PostgresClient
import SeededRandom
import StoreSimulator
import Synchronization
import TestSupport
import Testing

/// Several services on one database, and everything that can happen to them.
@Suite("Several instances", .serialized)
struct InstancesTests {
    @Test(
        "instances stopped, killed and cut off, with their database, leave one exact log",
        arguments: 1...UInt64(Campaign.factor))
    func chaos(seed: UInt64) async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let life = StoreLife.random(seed: seed, world: installation.world, customers: 25)
        let signed = try life.notifications.map { try installation.authority.sign($0) }
        var random = SplitMix64(seed: seed)
        let fleet = Fleet(try await Self.start(3, installation))
        defer { for index in 0..<3 { fleet.service(index).signal(SIGKILL) } }
        let chaos = Task { [random] in try await Self.disturb(fleet, installation, random) }
        // Each comes three times, in an order of its own.
        let indices = random.shuffled((0..<3).flatMap { _ in Array(signed.indices) })
        let acknowledged = await Self.deliver(indices, signed, to: fleet, seed: seed)
        chaos.cancel()
        let disturbances = try await chaos.value
        #expect(disturbances > 5, "seed \(seed): nothing was tested")

        for (index, positions) in acknowledged { #expect(positions.count == 1, "seed \(seed): \(index) moved") }
        #expect(acknowledged.count == signed.count, "seed \(seed)")
        let client = HTTPClient(fleet.service(0).url, key: key)
        // The database or its sessions may just have been killed once more.
        var settled = 0
        while settled < 5 {
            settled = try await client.send("GET", "/v1/ledger").status == 200 ? settled + 1 : 0
            try await Task.sleep(for: .milliseconds(50))
        }
        let events = try await client.events()
        #expect(events.map { ($0["position"] as? NSNumber)?.intValue } == Array(1...events.count), "seed \(seed)")
        #expect(events.count { $0["notification"] is [String: Any] } == signed.count, "seed \(seed)")
        let hashes = events.map { $0["hash"] as? String }
        let previous = events.map { $0["previous_hash"] as? String }
        #expect(Array(previous.dropFirst()) == Array(hashes.dropLast()), "seed \(seed)")
        let recorded = events.compactMap { $0["recorded_at"] as? String }
        #expect(recorded == recorded.sorted(), "seed \(seed)")
        for (index, positions) in acknowledged {
            let notification = events[Int(positions.first ?? 1) - 1]["notification"] as? [String: Any]
            #expect(notification?["uuid"] as? String == life.notifications[index].uuid.lowercased(), "seed \(seed)")
        }
        try await Self.expectDisposableViews(life, installation, client, seed: seed)
        for index in 0..<3 { #expect(fleet.service(index).stop() == 0) }
        #expect(installation.postmaster == nil, "the last to leave stops the database")
    }

    private static func start(_ count: Int, _ installation: Installation) async throws -> [ServiceProcess] {
        try await withThrowingTaskGroup(of: ServiceProcess.self) { group in
            for _ in 0..<count { group.addTask { try await ServiceProcess.start(installation) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// The services as they are now; one that was killed is replaced.
    private final class Fleet: Sendable {
        private let services: Mutex<[ServiceProcess]>

        init(_ services: [ServiceProcess]) { self.services = Mutex(services) }

        func service(_ index: Int) -> ServiceProcess { services.withLock { $0[index] } }
        func replace(_ index: Int, with service: ServiceProcess) { services.withLock { $0[index] = service } }
    }

    /// Goes on until cancelled, leaves everything running, and returns how often it did something.
    private static func disturb(
        _ fleet: Fleet, _ installation: Installation, _ random: SplitMix64
    ) async throws -> Int {
        var random = random
        var count = 0
        // Not for ever: a database that is killed every second gets nothing done.
        while !Task.isCancelled, count < 12 {
            try? await Task.sleep(for: .milliseconds(50 + random.next() % 300))
            let index = Int(random.next() % 3)
            let service = fleet.service(index)
            switch random.next() % 8 {
            case 0:
                service.killWithoutWarning()
                // As whoever watches over services would; the wait is not cut short by the end of the test.
                fleet.replace(index, with: try await Task { try await ServiceProcess.start(installation) }.value)
            case 1, 2, 3:
                service.signal(SIGSTOP)
                try? await Task.sleep(for: .milliseconds(100 + random.next() % 1200))
                service.signal(SIGCONT)
            case 4:
                if let postmaster = installation.postmaster { kill(postmaster, SIGKILL) }
            case 5:
                if let postmaster = installation.postmaster { kill(postmaster, SIGQUIT) }
            default:
                try? await Task { try await endSessions(installation) }.value
            }
            count += 1
        }
        return count
    }

    private static func endSessions(_ installation: Installation) async throws {
        try await withOwner(installation) { connection in
            try connection.query(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE usename = 'rightful_serve' AND random() < 0.6
                """)
        }
    }

    private static func withOwner(
        _ installation: Installation, _ body: @Sendable (isolated PostgresConnection) throws -> Void
    ) async throws {
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        do {
            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            try await owner.run(body)
            try await cluster.release()
        } catch {
            try await cluster.release()
            throw error
        }
    }

    /// Delivers each until some instance takes it, as a store would; returns the positions said for each.
    private static func deliver(
        _ indices: [Int], _ signed: [String], to fleet: Fleet, seed: UInt64
    ) async -> [Int: Set<Int64>] {
        await withTaskGroup(of: (Int, Int64).self) { group in
            var acknowledged: [Int: Set<Int64>] = [:]
            for (started, index) in indices.enumerated() {
                if started >= 12, let (index, position) = await group.next() {
                    acknowledged[index, default: []].insert(position)
                }
                group.addTask {
                    var attempt = 0
                    while true {
                        let client = HTTPClient(fleet.service((started + attempt) % 3).url, attempts: 1)
                        if let answer = try? await client.notify(signed[index]) {
                            if answer.status == 200, let position = (answer.json["position"] as? NSNumber)?.int64Value {
                                return (index, position)
                            }
                            #expect(answer.status == 503, "seed \(seed): \(answer.status) \(answer.text)")
                        }
                        attempt += 1
                        try? await Task.sleep(for: .milliseconds(50))
                    }
                }
            }
            for await (index, position) in group { acknowledged[index, default: []].insert(position) }
            return acknowledged
        }
    }

    /// The views say what the log alone says, and both say what the store recorded.
    private static func expectDisposableViews(
        _ life: StoreLife, _ installation: Installation, _ client: HTTPClient, seed: UInt64
    ) async throws {
        func timelines() async throws -> [HTTPClient.Answer] {
            var all: [HTTPClient.Answer] = []
            for customer in life.record.customers {
                all.append(
                    try await client.send(
                        "GET", "/v1/customers/\(customer.customerID)/timeline",
                        query: ["environment": customer.environment.rawValue]))
            }
            return all
        }
        let viewed = try await timelines()
        try await withOwner(installation) { try $0.execute(script: "DELETE FROM original_view") }
        let folded = try await timelines()
        for (index, customer) in life.record.customers.enumerated() {
            #expect(viewed[index].text == folded[index].text, "seed \(seed) \(customer)")
            let entitlements = try #require(folded[index].json["entitlements"] as? [[String: Any]])
            var recorded: [String: [RecordInterval]] = [:]
            for entitlement in entitlements {
                let intervals = try #require(entitlement["intervals"] as? [[String: Any]])
                recorded[try #require(entitlement["id"] as? String)] = try intervals.map {
                    try RecordInterval(json: $0)
                }
            }
            #expect(recorded == life.record.customer(customer).timelines, "seed \(seed) \(customer)")
        }
    }
}
