import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks: what an operator sees, and what is kept", .timeLimit(.minutes(1)))
struct WebhookUpkeepTests {
    private static let grant = #"{"entitlement":"premium","reason":"r"}"#

    @Test("an endpoint that answers 410 is paused at once, by one event, and goes on where it was when it is resumed")
    func gone() async throws {
        let rig = try await ServiceRig.make()
        let isBack = Tally(0)
        let receiver = try Receiver { _, _ in isBack.isUp ? .answer(200, "") : .answer(410, "gone") }
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        for customer in 1...5 { _ = try await rig.command("grant", "c-\(customer)", Self.grant) }
        try await rig.telling {
            while try await rig.get(path).json["status"] != .string("paused") {
                try await Task.sleep(for: .milliseconds(10))
            }
            #expect(try await rig.get(path).json["paused_because"] == .string("gone"))
            isBack.put(1)
            #expect(try await rig.send("POST", path + "/actions/resume", key: rig.admin).status == 200)
            try await receiver.wait("all") { $0.count == 5 }
        }
        let events = try await rig.get("/v1/events?limit=1000").json["items"]
        guard case .array(let events)? = events else { return #expect(Bool(false)) }
        #expect(events.filter { $0["type"] == .string("webhook_endpoint_paused") }.count == 1)
    }

    @Test("the metrics tell endpoints apart that take what they are sent, fail, or are paused")
    func metrics() async throws {
        let rig = try await ServiceRig.make()
        let (well, failing) = (try Receiver(), try Receiver { _, _ in .reset })
        _ = try await rig.endpoint(well)
        _ = try await rig.endpoint(failing)
        let paused = try await rig.endpoint(well)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(paused))/actions/pause"
        #expect(try await rig.send("POST", path, key: rig.admin).status == 200)
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.health() != [1, 1, 1] { try await Task.sleep(for: .milliseconds(10)) }
        }
        // What runs behind the answers has noted it by its first look, or does by its next.
        try await rig.telling {
            while try await !rig.get("/metrics").text.contains(#"rightful_webhook_endpoints{state="failing"} 1"#) {
                try await Task.sleep(for: .milliseconds(10))
            }
        }
        let text = try await rig.get("/metrics").text
        for state in ["active", "paused"] {
            #expect(text.contains(#"rightful_webhook_endpoints{state="\#(state)"} 1"#), "\(text)")
        }
    }

    @Test("once the database's clock is right that was ahead, what failed meanwhile is sent, and the log says so")
    func databaseClockAhead() async throws {
        let rig = try await ServiceRig.make()
        let isWell = Tally(0)
        let receiver = try Receiver { _, _ in isWell.isUp ? .answer(200, "") : .reset }
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.get(path).json["failing_since"] == .null {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        let owner = try await rig.database.owner()
        try await owner.execute(
            script: """
                UPDATE webhook_delivery SET due_at = due_at + interval '1 h';
                UPDATE webhook_endpoint SET due_at = due_at + interval '1 h', clock_at = clock_at + interval '1 h'
                """)
        isWell.put(1)
        try await rig.telling { try await receiver.wait("what failed") { $0.count == 1 } }
        #expect(rig.log.lines.contains { $0.contains("the database's clock went back") })
    }

    @Test("once a receiver is well again nobody waits for the next try")
    func mended() async throws {
        let rig = try await ServiceRig.make()
        let isWell = Tally(0)
        let receiver = try Receiver { _, _ in isWell.isUp ? .answer(200, "") : .reset }
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.get(path).json["failing_since"] == .null {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        rig.clock.now = rig.clock.now.adding(milliseconds: 60_000)
        // As after many tries: the next one is far away.
        try await rig.pool.withConnection { connection in
            _ = try connection.query("UPDATE webhook_delivery SET due_at = clock_timestamp() + interval '6 h'")
        }
        isWell.put(1)
        _ = try await rig.command("grant", "c-2", Self.grant)
        try await rig.telling { try await receiver.wait("both") { $0.count == 2 } }
        #expect(receiver.messages.map { $0.data["customer_id"] } == [.string("c-2"), .string("c-1")])
    }

    @Test("an endpoint of one environment hears of what is of none, but not of keys, and so does not fail by them")
    func ofNoEnvironment() async throws {
        let rig = try await ServiceRig.make()
        let (sandbox, both) = (try Receiver(), try Receiver())
        let made = try await rig.endpoint(sandbox, #","environment":"sandbox""#)
        _ = try await rig.endpoint(both)
        _ = try await rig.keys.create(name: "another", scopes: [.eventsRead])
        _ = try await rig.put(ServiceRig.proCatalog)
        try await rig.telling {
            try await both.wait("all") { $0.count == 2 }
            try await sandbox.wait("the catalog") { $0.count == 1 }
        }
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        #expect(sandbox.messages.map { $0.data["type"] } == [.string("catalog_applied")])
        guard case .array(let deliveries)? = try await rig.get(path + "/deliveries").json["items"] else {
            return #expect(Bool(false), "no list")
        }
        #expect(deliveries.count == 1)
        #expect(try await rig.get(path).json["failing_since"] == .null)
        // What is nobody's comes in any order.
        #expect(Set(both.messages.map { $0.data["type"] }) == [.string("api_key_created"), .string("catalog_applied")])
    }

    @Test("a difference is told once, as it is listed, to endpoints that hear of its app and environment")
    func drift() async throws {
        let rig = try await ServiceRig.withCatalog(hasOtherApp: true)
        let types = #","types":["drift.found"]"#
        let (all, own, other, sandbox) = (try Receiver(), try Receiver(), try Receiver(), try Receiver())
        _ = try await rig.endpoint(all, types)
        _ = try await rig.endpoint(own, types + #","app":"\#(ServiceRig.bundleID)""#)
        _ = try await rig.endpoint(other, types + #","app":"\#(ServiceRig.otherBundleID)""#)
        _ = try await rig.endpoint(sandbox, types + #","environment":"sandbox""#)
        let customer = "0a000000-0000-4000-8000-000000000001"
        let held = HeldTransaction(id: "801", token: customer)
        try await rig.notify(held, uuid: "n1")
        let claim = ReconcileRequest.Claim(productID: held.product, state: .active, until: day(400))
        _ = try await rig.answer(customer, Posted(app: held.bundleID, environment: .production, claims: [claim]))
        try await rig.telling {
            try await rig.tellApart()
            try await own.wait("the app's") { $0.count == 1 }
            try await all.wait("every app's") { $0.count == 1 }
            // Whatever else there were to tell would be told by then.
            _ = try await rig.endpoint(other)
            _ = try await rig.command("grant", "c-1", Self.grant)
            try await other.wait("what came after") { !$0.isEmpty }
        }
        let item = try #require(try await rig.get("/v1/drift").json["items"]?[0])
        for receiver in [all, own] {
            #expect(receiver.messages.map(\.type) == ["drift.found"])
            #expect(receiver.messages.first?.data == item)
        }
        #expect(other.messages.allSatisfy { $0.type != "drift.found" } && sandbox.requests.isEmpty)
    }

    @Test("an endpoint, an address and a secret that no event of the log bears out are worth nothing")
    func planted() async throws {
        let rig = try await ServiceRig.make()
        let (well, thief) = (try Receiver(), try Receiver())
        let made = try ServiceRig.id(try await rig.endpoint(well, #","types":["entitlements.changed"]"#))
        try await rig.tell()
        let url = thief.url
        try await rig.pool.withConnection { connection in
            // The genuine one's address becomes the thief's, under its old hash, and under the hash of its own.
            try connection.query(
                "UPDATE webhook_secret SET value = $1 WHERE endpoint = $2 AND value LIKE 'http%'",
                [.bytes(Array(url.utf8)), .text(made)])
            try connection.query(
                """
                INSERT INTO webhook_secret (ledger_id, endpoint, hash, value, made_at)
                SELECT 1, name, sha256($1), $1, clock_timestamp() FROM unnest(ARRAY['we_thief', $2]) AS name
                """, [.bytes(Array(url.utf8)), .text(made)])
            try connection.query(
                """
                INSERT INTO webhook_endpoint (ledger_id, endpoint, position, app, types)
                SELECT ledger_id, 'we_thief', position, app, types FROM webhook_endpoint WHERE endpoint = $1
                """, [.text(made)])
        }
        _ = try await rig.command("grant", "c-1", Self.grant)
        let list = DeliveryList(pool: rig.pool)
        try await rig.telling {
            while try await list.deliveries(of: "we_thief", after: 0, limit: 1).first?.attempts ?? 0 < 1 {
                try await Task.sleep(for: .milliseconds(5))
            }
            // This process knows the genuine address since before.
            try await well.wait("the genuine one") { $0.count == 1 }
        }
        #expect(thief.requests.isEmpty)
        let attempt = try #require(try await list.deliveries(of: "we_thief", after: 0, limit: 1).first)
        #expect(attempt.failure == "the endpoint's address or secret is not in the database")
        let another = EndpointRegister(pool: rig.pool, writer: LedgerWriter(pool: rig.pool, now: { rig.clock.now }))
        try await another.refresh()
        #expect(another.endpoints.map(\.id) == [made] && another.target(made, now: rig.clock.now) == nil)
    }

    @Test("what is older than thirty days is let go of, what waited as long is given up, and a removed endpoint's goes")
    func pruned() async throws {
        let rig = try await ServiceRig.make()
        let list = DeliveryList(pool: rig.pool)
        let (well, dead) = (try Receiver(), try Receiver { _, _ in .reset })
        let types = #","types":["entitlements.changed"]"#
        let taking = try ServiceRig.id(try await rig.endpoint(well, types))
        let failing = try ServiceRig.id(try await rig.endpoint(dead, types))
        let removed = try ServiceRig.id(try await rig.endpoint(well, types))
        for customer in 1...3 { _ = try await rig.command("grant", "c-\(customer)", Self.grant) }
        try await rig.telling {
            try await well.wait("both endpoints") { Set($0.map(\.text)).count == 6 }
            while dead.requests.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        }
        rig.clock.now = rig.clock.now.adding(milliseconds: DeliveryList.retention - 60_000)
        _ = try await rig.command("grant", "c-4", Self.grant)
        try await rig.telling {
            try await well.wait("both endpoints") { Set($0.map(\.text)).count == 8 }
            while try await rig.get("/v1/webhook_endpoints/\(taking)").json["waiting"] != .int(0) {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        #expect(try await rig.send("DELETE", "/v1/webhook_endpoints/\(removed)", key: rig.admin).status == 200)
        #expect(try await rig.rows("webhook_secret").filter { $0.contains(removed) }.count == 2)
        try await rig.tell()
        #expect(try await rig.rows("webhook_secret").filter { $0.contains(removed) } == [])
        while try await list.prune(now: rig.clock.now, limit: 2).isMore {}
        #expect(try await rig.rows("webhook_delivery").filter { $0.contains(removed) } == [])
        #expect(try await rig.rows("webhook_line").filter { $0.contains(removed) } == [])
        #expect(try await rig.rows("webhook_delivery").count == 8, "nothing else is as old")
        rig.clock.now = rig.clock.now.adding(milliseconds: 120_000)
        try await rig.telling {
            while !rig.log.lines.contains(where: { $0.contains("let go of unsent") && $0.contains(failing) }) {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        let told = rig.log.lines.filter { $0.contains("let go of unsent") && $0.contains(failing) }
        let unsent = told.compactMap { $0.firstMatch(of: /"count":([0-9]+)/).flatMap { Int($0.1) } }.reduce(0, +)
        // One that is tried once more at that moment is given up, which is told as well.
        let givenUp = rig.log.lines.count { $0.contains("a webhook is given up") && $0.contains(failing) }
        #expect(unsent > 0 && unsent + givenUp >= 3, "\(rig.log.lines)")
        #expect(!rig.log.lines.contains { $0.contains("let go of unsent") && $0.contains(taking) })
        while try await list.prune(now: rig.clock.now, limit: 2).isMore {}
        for endpoint in [taking, failing] {
            let left = try await list.deliveries(of: endpoint, after: 0, limit: 10)
            #expect(left.map(\.customerID) == ["c-4"], "\(endpoint)")
        }
        #expect(try await rig.rows("webhook_message").count == 1)
        // Nothing of the three waits any more, so that what comes next is sent.
        let waiting = try await rig.rows("webhook_line").filter { !$0.contains(#""waiting": 0"#) }
        let left = try await rig.rows("webhook_delivery")
        #expect(waiting.count == 1, "what was taken or given up does not wait: \(waiting) \(left)")
    }
}

extension ServiceRig {
    fileprivate func health() async throws -> [Int64] {
        let health = try await EndpointRegister(pool: pool, writer: LedgerWriter(pool: pool, now: { clock.now }))
            .health()
        return [health.active, health.failing, health.paused]
    }

    /// Follows the log to its end.
    fileprivate func tell() async throws {
        let projector = WebhookProjector(
            pool: pool, teller: WebhookWork.teller, showDrift: WebhookWork.showDrift, show: WebhookWork.show)
        while try await projector.step(now: { clock.now }).isUnfinished {}
    }

    fileprivate func rows(_ table: String) async throws -> [String] {
        try await pool.withConnection { connection in
            try connection.query("SELECT to_jsonb(stored)::text FROM \(table) AS stored").rows.map { try $0.text(0) }
        }
    }
}
