import Foundation
import PostgresClient
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// Services that go on while their database fails over to a follower that had not got everything: what was acknowledged last
/// is lost, and other events come in its place.
@Suite("A database that fails over and loses its end", .serialized, .timeLimit(.minutes(10)))
struct FailoverTests {
    private static let failovers = 3

    @Test(
        "services that ran all the time answer as one that starts afterwards does, and whatever comes again is recorded",
        arguments: 1...UInt64(Campaign.factor))
    func losing(seed: UInt64) async throws {
        let server = try await ReplicatedServer()
        let receiver = try TroubledReceiver(seed: seed)
        let limits = 1_000_000
        let installation = try await Installation(
            isFresh: true,
            settings: [
                "database_url": server.url("server"),
                "webhooks": ["allow_private_addresses": true, "attempt_seconds": 2] as [String: any Sendable],
                "rate_limits": [
                    "address_per_second": limits, "address_burst": limits, "key_per_second": limits,
                    "key_burst": limits,
                ],
            ])
        let outcome = await Task { try await run(seed, installation, server, receiver) }.result
        installation.remove()
        receiver.stop()
        await server.stop()
        try outcome.get()
    }

    private func run(
        _ seed: UInt64, _ installation: Installation, _ server: ReplicatedServer, _ receiver: TroubledReceiver
    ) async throws {
        try await installation.rightful("migrate", "--migrate-database-url", server.url("owner"))
        let key = try await installation.adminKey()
        let fleet = try await InstanceFleet.start(2, on: installation)
        defer { fleet.signalAll(SIGKILL) }
        let admin = HTTPClient(fleet.service(0).url, key: key)
        let made = try await admin.send(
            "POST", "/v1/webhook_endpoints", body: bytes(["url": receiver.url("/all")]))
        try #require(made.status < 300, "\(made.text)")
        let load = try FailoverLoad(fleet, key: key, seed: seed)
        var random = SplitMix64(seed: seed)
        var lost: [Int64] = []
        for round in 1...Self.failovers {
            if round > 1 { try await server.replicate() }
            lost.append(try await failOver(server, load, &random))
            try await load.sendAgain()
            let fresh = try await ServiceProcess.start(installation)
            let expected = try await load.answers(of: fresh)
            #expect(fresh.stop() == 0)
            // Twice, so that what is remembered is asked for.
            for index in [0, 1, 0, 1] {
                let answers = try await load.answers(of: fleet.service(index))
                for (question, answer) in answers.sorted(by: { $0.key < $1.key }) {
                    let difference = Self.difference(answer, expected[question] ?? "nothing")
                    #expect(
                        difference == nil, "seed \(seed), failover \(round), instance \(index), \(question)")
                }
            }
        }
        #expect(lost.contains { $0 > 0 }, "seed \(seed): nothing was lost in \(Self.failovers) failovers")
        load.expectExactLog(try await admin.events())
        for customer in load.life.record.customers {
            try await admin.expectRecord(
                load.life.record.customer(customer), of: customer, limit: 3, "seed \(seed)")
        }
        try await expectDelivered(server, receiver, seed)
        for index in 0..<fleet.count { #expect(fleet.service(index).stop() == 0, "seed \(seed)") }
        let verified = try await installation.rightful("verify")
        #expect(verified.hasPrefix("verified: "), "seed \(seed): \(verified)")
    }

    /// Fails over under load; returns how many events were lost.
    private func failOver(
        _ server: ReplicatedServer, _ load: FailoverLoad, _ random: inout SplitMix64
    ) async throws -> Int64 {
        let isOver = Flag()
        let before = Duration.milliseconds(random.number(in: 100...1500))
        let between = Duration.milliseconds(random.number(in: 30...600))
        return try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<6 {
                let name = Int(random.next() % 1_000_000) + number
                group.addTask { try await load.disturb(as: name) { !isOver.isSet } }
            }
            var lost: Int64 = 0
            do {
                try await Task.sleep(for: before)
                try await server.cutOff()
                try await Task.sleep(for: between)
                let end = try await Self.head(server)
                try await server.failOver()
                lost = try await end - Self.head(server)
                try await Task.sleep(for: .milliseconds(random.number(in: 0...1000)))
            } catch {
                isOver.set()
                throw error
            }
            isOver.set()
            try await group.waitForAll()
            return lost
        }
    }

    /// Where two texts begin to differ; `nil` where they do not.
    private static func difference(_ one: String, _ other: String) -> String? {
        guard one != other else { return nil }
        let start = max(0, one.commonPrefix(with: other).count - 80)
        return "\(one.dropFirst(start).prefix(240)) instead of \(other.dropFirst(start).prefix(240))"
    }

    private static func head(_ server: ReplicatedServer) async throws -> Int64 {
        let owner = try await PostgresConnection.connect(server.url("owner"))
        return try await owner.query("SELECT position FROM ledger_head").row(0).int(0)
    }

    /// Whatever the database calls delivered has reached the receiver, and all is in the end.
    private func expectDelivered(
        _ server: ReplicatedServer, _ receiver: TroubledReceiver, _ seed: UInt64
    ) async throws {
        let owner = try await PostgresConnection.connect(server.url("owner"))
        let end = ContinuousClock.now + .seconds(60)
        while try await owner.query(
            """
            SELECT 1 FROM webhook_delivery WHERE state = 1
            UNION ALL SELECT 1 FROM projection, ledger_head
            WHERE name = 'webhook' AND checkpoint < ledger_head.position LIMIT 1
            """
        ).first != nil {
            try #require(ContinuousClock.now < end, "seed \(seed): something is never delivered")
            try await Task.sleep(for: .milliseconds(100))
        }
        let delivered = try await owner.query(
            """
            SELECT message.id::text FROM webhook_delivery AS delivery JOIN webhook_message AS message USING (number)
            WHERE delivery.state = 2
            """
        ).rows.map { try $0.text(0) }
        let arrived = Set(receiver.arrivals(at: "/all").compactMap { $0.headers["webhook-id"] })
        let missing = delivered.filter { !arrived.contains("msg_" + $0.replacing("-", with: "")) }
        #expect(missing.isEmpty, "seed \(seed): \(missing.count) of \(delivered.count) never came")
        #expect(delivered.count > 50, "seed \(seed): nothing was tested")
    }
}
