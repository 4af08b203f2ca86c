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
    fileprivate func dispatcher(on pool: PostgresPool, _ intervals: WebhookDispatcher.Intervals) -> WebhookDispatcher {
        WebhookDispatcher(
            register: DeliveryRegister(pool: pool), list: DeliveryList(pool: pool),
            endpoints: EndpointRegister(pool: pool, writer: application.writer),
            reader: LedgerReader(pool: pool, now: application.now),
            transport: WebhookDispatcher.transport(allowsPrivate: true), allowsPrivate: true,
            metrics: application.metrics, logger: application.logger, intervals: intervals, now: application.now)
    }
}
