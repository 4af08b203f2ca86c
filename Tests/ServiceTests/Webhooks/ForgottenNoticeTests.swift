import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks: the last that is told of whoever is forgotten", .timeLimit(.minutes(1)))
struct ForgottenNoticeTests {
    private static let grant = #"{"entitlement":"premium","reason":"r"}"#
    private static let types = #","types":["entitlements.changed"]"#

    @Test("whoever was told of somebody hears that nothing is left, by the name it knew, and nothing keeps that name")
    func told() async throws {
        let rig = try await ServiceRig.make()
        let (receiver, other, late) = (try Receiver(), try Receiver(), try Receiver())
        let made = try await rig.endpoint(receiver, Self.types)
        _ = try await rig.endpoint(other, #","types":["event.recorded"]"#)
        let customer = "c-\"é\\"
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        _ = try await rig.grantPremium(to: customer)
        _ = try await rig.command("grant", "c-2", Self.grant)
        try await rig.telling {
            try await receiver.wait("the grants") { $0.count == 2 }
            try await rig.settle(path)
        }
        // It knows of c-2 alone.
        _ = try await rig.endpoint(late, Self.types)
        try await rig.forget(customer)
        try await rig.telling {
            try await receiver.wait("the last") { $0.count == 3 }
            while try await rig.named(customer) > 0 { try await Task.sleep(for: .milliseconds(5)) }
        }
        let grant = try #require(receiver.messages.first { $0.data["customer_id"] == .string(customer) })
        let last = receiver.messages[2]
        #expect(last.type == "entitlements.changed" && last.data["customer_id"] == .string(customer))
        #expect(last.data["forgotten"] == .bool(true) && grant.data["forgotten"] == nil)
        #expect(last.data["before"] == grant.data["after"] && last.data["after"] == .array([]))
        #expect(last.data["sequence"] == .int(2) && last.data["environment"] == grant.data["environment"])
        let listed = try await rig.get("/v1/events?limit=1000").json["items"]
        guard case .array(let events)? = listed else { return #expect(Bool(false)) }
        let forgotten = try #require(events.first { $0["type"] == .string("forgotten") })
        #expect(last.data["cause"]?["kind"] == .string("event"))
        #expect(last.data["cause"]?["positions"]?[0] == forgotten["position"])
        #expect(late.messages.isEmpty && !other.messages.contains { $0.type == "entitlements.changed" })
        // It cannot be said again, and whoever comes back is counted from 1.
        let again = try await rig.send(
            "POST", path + "/actions/redeliver", key: rig.admin, body: Array(#"{"webhook_id":"\#(last.id)"}"#.utf8))
        #expect(again.status == 200)
        _ = try await rig.grantPremium(to: customer)
        try await rig.telling {
            try await receiver.wait("who came back") { $0.count == 4 }
            try await rig.settle(path)
        }
        #expect(receiver.messages.count == 4)
        #expect(receiver.messages[3].data["sequence"] == .int(1) && receiver.messages[3].data["before"] == .array([]))
    }

    @Test("what an endpoint was never told is not told at the end, nor that nothing is left where nothing was")
    func untold() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await rig.endpoint(receiver, Self.types)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        let ended = try await rig.command("grant", "c-1", Self.grant).json
        try await rig.telling {
            try await receiver.wait("the grant") { $0.count == 1 }
            try await rig.settle(path)
        }
        guard case .string(let id)? = ended["grant_id"] else { return #expect(Bool(false)) }
        _ = try await rig.command("revoke_grant", "c-1", #"{"grant_id":"\#(id)","reason":"r"}"#)
        try await rig.telling {
            try await receiver.wait("its end") { $0.count == 2 }
            try await rig.settle(path)
        }
        let isEmpty = receiver.messages[1].data["after"] == .array([])
        #expect(try await rig.send("POST", path + "/actions/pause", key: rig.admin).status == 200)
        _ = try await rig.command("grant", "c-2", Self.grant)
        try await rig.telling {
            while try await rig.get(path).json["waiting"] != .int(1) { try await Task.sleep(for: .milliseconds(5)) }
        }
        try await rig.forget("c-2")
        #expect(try await rig.named("c-2") == 0)
        try await rig.forget("c-1")
        #expect(try await rig.named("c-1") == (isEmpty ? 0 : 1))
    }

    @Test("where it cannot be said for three days, to an endpoint that is paused or removed, it is erased unsaid")
    func givenUp() async throws {
        let rig = try await ServiceRig.make()
        let (paused, removed) = (try Receiver(), try Receiver())
        let list = DeliveryList(pool: rig.pool)
        let paths = try await [rig.endpoint(paused, Self.types), rig.endpoint(removed, Self.types)].map {
            "/v1/webhook_endpoints/\(try ServiceRig.id($0))"
        }
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            for (path, receiver) in zip(paths, [paused, removed]) {
                try await receiver.wait("the grant") { $0.count == 1 }
                try await rig.settle(path)
            }
        }
        for path in paths { #expect(try await rig.send("POST", path + "/actions/pause", key: rig.admin).status == 200) }
        try await rig.telling {
            // What was ordered is followed.
            while try await rig.paused() != 2 { try await Task.sleep(for: .milliseconds(5)) }
        }
        try await rig.forget("c-1")
        #expect(try await rig.named("c-1") == 2)
        #expect(try await rig.send("DELETE", paths[1], key: rig.admin).status == 200)
        rig.clock.now = rig.clock.now.adding(milliseconds: DeliverySchedule.patience - 60_000)
        while try await list.prune(now: rig.clock.now, limit: 1).isMore {}
        #expect(try await rig.named("c-1") == 2, "not before its time")
        rig.clock.now = rig.clock.now.adding(milliseconds: 120_000)
        while try await list.prune(now: rig.clock.now, limit: 1).isMore {}
        #expect(try await rig.named("c-1") == 0)
        let listed = try await rig.get(paths[0] + "/deliveries").json["items"]
        #expect(listed?[1]?["state"] == .string("failed") && listed?[1]?["customer_id"] == .null)
    }
}

extension ServiceRig {
    fileprivate func forget(_ customer: String) async throws {
        let forgetter = Forgetter(pool: PostgresPool(database.ownerConninfo), now: context.now)
        let person = try #require(CustomerID(customer))
        let outcome = try await forgetter.forget(person)
        #expect(outcome != nil)
    }

    fileprivate func grantPremium(to customer: String) async throws -> Int {
        let name = customer.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let answer = try await send(
            "POST", "/v1/customers/\(name)/actions/grant", key: admin,
            body: Array(#"{"entitlement":"premium","reason":"r"}"#.utf8))
        #expect(answer.status == 200)
        return answer.status
    }

    /// How many messages hold a name in clear.
    fileprivate func named(_ customer: String) async throws -> Int64 {
        try await pool.withConnection { connection in
            try connection.query(
                "SELECT count(*) FROM webhook_message WHERE convert_from(body, 'UTF8')::jsonb = to_jsonb($1::text)",
                [.text(customer)]
            ).row(0).int(0)
        }
    }

    fileprivate func paused() async throws -> Int64 {
        try await pool.withConnection { connection in
            try connection.query("SELECT count(*) FROM webhook_endpoint WHERE is_paused").row(0).int(0)
        }
    }

    /// Waits until what an endpoint answered is noted; until then it counts as waiting, and comes again.
    fileprivate func settle(_ path: String) async throws {
        while try await get(path).json["waiting"] != .int(0) { try await Task.sleep(for: .milliseconds(5)) }
    }
}
