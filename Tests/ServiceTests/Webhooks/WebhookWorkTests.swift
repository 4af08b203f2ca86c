import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks: work behind the service", .timeLimit(.minutes(1)))
struct WebhookWorkTests {
    private static let grant = #"{"entitlement":"premium","reason":"r"}"#
    private static let types = #","types":["entitlements.changed"]"#

    @Test("where there is no endpoint, the database is asked once a second whether there is one, and no more")
    func idle() async throws {
        let rig = try await ServiceRig.make()
        let pool = rig.database.pool(connections: 1)
        var intervals = WebhookDispatcher.Intervals()
        intervals.prune = .seconds(3600)
        let start = ContinuousClock.now
        let work = Task { await rig.dispatcher(on: pool, intervals).run() }
        try await Task.sleep(for: .milliseconds(1500))
        let executions = try await pool.withConnection { connection in
            try connection.query(
                "SELECT statement, generic_plans + custom_plans FROM pg_prepared_statements ORDER BY statement"
            ).rows.map { (sql: try $0.text(0), count: try $0.int(1)) }
        }
        let seconds = Int(start.duration(to: .now) / .seconds(1))
        work.cancel()
        await work.value
        #expect(!executions.contains { $0.sql.contains("FROM webhook_endpoint ") }, "\(executions)")
        let looks = executions.filter { $0.sql.contains("ledger_head") }.reduce(0) { $0 + $1.count }
        #expect(looks <= seconds + 2, "\(executions)")
        await pool.close()
    }

    @Test("an endpoint that is made at another instance is served within two seconds")
    func elsewhere() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let another = EndpointRegister(pool: rig.pool, writer: rig.ledger.writer)
        try await another.refresh()
        let work = Task {
            await rig.dispatcher(on: rig.pool, WebhookDispatcher.Intervals(), endpoints: another).run()
        }
        // It has looked, and found none.
        try await Task.sleep(for: .milliseconds(200))
        _ = try await rig.endpoint(receiver, Self.types)
        _ = try await rig.command("grant", "c-1", Self.grant)
        let projector = WebhookProjector(
            pool: rig.pool, settle: .zero, teller: WebhookWork.teller, showDrift: WebhookWork.showDrift,
            show: WebhookWork.show)
        while try await projector.step(now: { rig.clock.now }).isUnfinished {}
        let start = ContinuousClock.now
        try await receiver.wait("the grant") { $0.count == 1 }
        #expect(start.duration(to: .now) < .seconds(2))
        work.cancel()
        await work.value
    }

    @Test("whoever notes what came of attempts sleeps until something came of one")
    func results() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.endpoint(try Receiver(), Self.types)
        _ = try await rig.command("grant", "c-1", Self.grant)
        let projector = WebhookProjector(
            pool: rig.pool, settle: .zero, teller: WebhookWork.teller, showDrift: WebhookWork.showDrift,
            show: WebhookWork.show)
        while try await projector.step(now: { rig.clock.now }).isUnfinished {}
        let delivery = try #require(try await DeliveryRegister(pool: rig.pool).take(limit: 1).first)
        let work = DeliveriesUnderWay(limit: 4)
        let isAwake = Tally(0)
        let waiting = Task {
            await work.waitForResults()
            isAwake.put(1)
        }
        work.begin([delivery, delivery])
        // What was not brought to its end is no result.
        work.end(delivery, nil)
        try await Task.sleep(for: .milliseconds(100))
        #expect(!isAwake.isUp)
        work.end(
            delivery,
            AttemptResult(
                outcome: DeliveryOutcome(
                    endpoint: delivery.endpoint, number: delivery.number, messageID: delivery.id, result: .delivered,
                    at: rig.clock.now, status: 200, failure: nil)))
        await waiting.value
        let results = work.takeResults()
        #expect(results.count == 1)
        // What could not be noted is there to be taken again.
        work.giveBack(results)
        await work.waitForResults()
        #expect(work.takeResults().count == 1)
    }

    @Test("where old deliveries cannot be let go of, status says so, and former secrets are erased all the same")
    func upkeep() async throws {
        let rig = try await ServiceRig.make()
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(try await rig.endpoint(try Receiver())))"
        let body = Array(#"{"url":"http://127.0.0.1:1/elsewhere"}"#.utf8)
        #expect(try await rig.send("PATCH", path, key: rig.admin, body: body).status == 200)
        let owner = try await rig.database.owner()
        try await owner.execute(
            script: """
                UPDATE webhook_secret SET kept_at = kept_at - interval '2 h';
                ALTER TABLE webhook_delivery RENAME TO mislaid
                """)
        func values() async throws -> Int64 {
            try await rig.pool.withConnection { connection in
                try connection.query("SELECT count(*) FROM webhook_secret").row(0).int(0)
            }
        }
        #expect(try await values() == 3)
        var intervals = WebhookDispatcher.Intervals()
        (intervals.settle, intervals.prune) = (.zero, .milliseconds(50))
        let failures = WorkFailures(pool: rig.pool)
        let work = Task { [watch = rig.watch()] in
            await rig.dispatcher(on: rig.pool, intervals).run(sends: false, watch)
        }
        while try await failures.list().isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let failure = try #require(try await failures.list().first)
        #expect(failure.work == "webhook_upkeep" && failure.reason.contains("webhook_delivery"))
        #expect(try await values() == 2)
        try await owner.execute(script: "ALTER TABLE mislaid RENAME TO webhook_delivery")
        while try await !failures.list().isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        work.cancel()
        await work.value
    }

    @Test("what is under way at the stop is left to others, also where what came of the rest cannot be noted")
    func stop() async throws {
        let rig = try await ServiceRig.make()
        let (well, slow) = (try Receiver(), try Receiver { _, _ in .silence })
        _ = try await rig.endpoint(well, Self.types)
        let silent = try ServiceRig.id(try await rig.endpoint(slow, Self.types))
        // Noting writes this column, and giving back does not.
        let owner = try await rig.database.owner()
        try await owner.execute(script: "ALTER TABLE webhook_delivery RENAME COLUMN failure TO mislaid")
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            try await well.wait("the grant") { $0.count == 1 }
            while slow.requests.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        }
        let isTaken = try await rig.pool.withConnection { connection in
            try connection.query("SELECT is_taken FROM webhook_delivery WHERE endpoint = $1", [.text(silent)])
                .row(0).bool(0)
        }
        #expect(!isTaken)
    }
}

extension ServiceRig {
    /// What another process would send with.
    ///
    /// - Parameter endpoints: what it knows of endpoints; `nil`: nothing yet.
    fileprivate func dispatcher(
        on pool: PostgresPool, _ intervals: WebhookDispatcher.Intervals, endpoints: EndpointRegister? = nil
    ) -> WebhookDispatcher {
        WebhookDispatcher(
            register: DeliveryRegister(pool: pool), list: DeliveryList(pool: pool),
            endpoints: endpoints ?? EndpointRegister(pool: pool, writer: ledger.writer),
            reader: LedgerReader(pool: pool, now: context.now),
            transport: WebhookDispatcher.transport(allowsPrivate: true), allowsPrivate: true,
            metrics: context.metrics, logger: context.logger, intervals: intervals, now: context.now)
    }
}
