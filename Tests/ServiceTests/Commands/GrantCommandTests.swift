import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("POST /v1/customers/{id}/actions/grant and revoke_grant", .serialized, .timeLimit(.minutes(5)))
struct GrantCommandTests {
    private static let endless = #"{"entitlement":"premium","reason":"goodwill"}"#

    private func grantID(_ answer: HTTPResponse) throws -> String {
        guard case .string(let id) = try answer.json["grant_id"] else { return "none" }
        return id
    }

    private func revocation(_ id: String) -> String { #"{"grant_id":"\#(id)","reason":"a mistake"}"# }

    @Test("an event that the database which is read has not got, and another acknowledged, may be read later")
    func readElsewhere() async throws {
        let rig = try await ServiceRig.make()
        let head = try await rig.head
        let error = await #expect(throws: LedgerError.self) {
            try await rig.context.reader.recordedEvent(at: head + 1)
        }
        #expect(error?.code == .unavailable)
    }

    @Test("a grant gives from its instant until its end, and is taken back from the instant of that")
    func lifetime() async throws {
        let rig = try await ServiceRig.make()
        let body = #"{"entitlement":"premium","until":"2026-12-01T00:00:00Z","reason":"goodwill"}"#
        let granted = try await rig.command("grant", "c-1", body)
        let id = try grantID(granted)
        #expect(id.hasPrefix("grant_") && id.count == 38)
        #expect(
            try granted.json
                == WireValue(
                    json: """
                        {"object":"grant","position":2,"environment":"production","grant_id":"\(id)",
                        "customer_id":"c-1","entitlement":"premium","until":"2026-12-01T00:00:00.000Z",
                        "reason":"goodwill"}
                        """))
        #expect(try await rig.holdings("c-1") == ["premium active grant"])
        #expect(try await rig.holdings("c-1", "?at=2026-11-20T11:59:59Z") == [])
        #expect(try await rig.holdings("c-1", "?at=2026-12-01T00:00:00Z") == ["premium expired expired"])
        rig.wait()
        let revoked = try await rig.command("revoke_grant", "c-1", revocation(id))
        #expect(
            try revoked.json
                == WireValue(
                    json: """
                        {"object":"grant_revocation","position":3,"environment":"production","grant_id":"\(id)",
                        "customer_id":"c-1","reason":"a mistake"}
                        """))
        #expect(try await rig.holdings("c-1") == ["premium revoked grant_revoked"])
        #expect(try await rig.holdings("c-1", "?known_at=2") == ["premium active grant"])
        let events = try await rig.get("/v1/customers/c-1/events").json["items"]
        #expect(events?[0]?["type"] == .string("granted") && events?[1]?["type"] == .string("grant_revoked"))
        let explained = try await rig.get("/v1/customers/c-1/explain").json["entitlements"]?[0]
        #expect(
            explained?["rule"]?["sentence"]
                == .string(
                    "On 20 November 2026, 12:01 UTC, premium is closed, because the grant of 20 November 2026, 12:00 "
                        + "UTC was taken back on 20 November 2026, 12:01 UTC."))
    }

    @Test("what no product of the catalog gives is granted, and remarked, also when the request comes again")
    func remarks() async throws {
        let rig = try await ServiceRig.make()
        let body = #"{"entitlement":"premiun","reason":"goodwill"}"#
        #expect(try await rig.command("grant", "c-1", body).json["remarks"] == nil, "there is no catalog yet")
        _ = try await rig.put(ServiceRig.proCatalog)
        let first = try await rig.command("grant", "c-1", body, idempotencyKey: "k")
        #expect(first.status == 200)
        #expect(try first.json["remarks"] == .array([.string("unknown_entitlement:premiun")]))
        #expect(try await rig.command("grant", "c-1", Self.endless).json["remarks"] == nil)
        _ = try await rig.put(#"{"products":[{"product_id":"p","entitlements":["premiun"]}]}"#)
        #expect(try await rig.command("grant", "c-1", body, idempotencyKey: "k").body == first.body)
        #expect(try await rig.command("grant", "c-1", body).json["remarks"] == nil)
    }

    @Test("a member that no grant has is remarked: a mistyped until gives access without end")
    func mistyped() async throws {
        let rig = try await ServiceRig.make()
        let body = #"{"entitlement":"premium","untill":"2026-12-23T00:00:00Z","days":30,"reason":"a free month"}"#
        let answer = try await rig.command("grant", "c-1", body, idempotencyKey: "k")
        #expect(answer.status == 200)
        #expect(try answer.json["until"] == .null)
        #expect(
            try answer.json["remarks"] == .array([.string("unknown_member:days"), .string("unknown_member:untill")]))
        #expect(try await rig.command("grant", "c-1", body, idempotencyKey: "k").body == answer.body)
    }

    @Test("what makes no sense is refused, and writes nothing")
    func refusals() async throws {
        let rig = try await ServiceRig.make()
        let short = #"{"entitlement":"premium","until":"2026-11-20T12:00:10Z","reason":"r"}"#
        let ended = try grantID(try await rig.command("grant", "c-1", short))
        let open = try grantID(try await rig.command("grant", "c-1", Self.endless))
        rig.wait(seconds: 10)
        let table: [(String, String, String, String, String, String?)] = [
            ("grant", "c-1", short, "", "422 unprocessable", "until"),
            ("grant", "c-1", #"{"entitlement":"","reason":"r"}"#, "", "400 malformed_request", "entitlement"),
            ("grant", "c-1", #"{"entitlement":"p"}"#, "", "400 malformed_request", "reason"),
            ("revoke_grant", "c-1", revocation(ended), "", "422 unprocessable", "grant_id"),
            ("revoke_grant", "c-2", revocation(open), "", "404 not_found", "grant_id"),
            ("revoke_grant", "c-1", revocation("grant_0"), "", "404 not_found", "grant_id"),
            ("revoke_grant", "c-1", revocation(open), "?environment=sandbox", "404 not_found", "grant_id"),
            ("revoke_grant", "c-1", #"{"reason":"r"}"#, "", "400 malformed_request", "grant_id"),
        ]
        for (action, customer, body, query, verdict, param) in table {
            let answer = try await rig.command(action, customer, body, query: query)
            #expect(answer.verdict == verdict, "\(action) \(customer) \(body) \(answer.text)")
            #expect(try answer.json["param"] == param.map { .string($0) }, "\(body)")
        }
        #expect(try await rig.head == 3)
    }

    @Test("where the log is dated ahead of the clock, what would come to nothing is refused, and it is said why")
    func logAhead() async throws {
        let rig = try await ServiceRig.make()
        func until(_ day: String) -> String { #"{"entitlement":"premium","until":"\#(day)T00:00:00Z","reason":"r"}"# }
        let short = try grantID(try await rig.command("grant", "c-1", until("2026-12-01")))
        let open = try grantID(try await rig.command("grant", "c-1", Self.endless))
        let now = rig.clock.now
        rig.wait(seconds: 40 * 86_400)
        #expect(try await rig.command("grant", "c-2", Self.endless).status == 200)
        rig.clock.now = now
        for (action, body) in [("grant", until("2026-12-10")), ("revoke_grant", revocation(short))] {
            for answer in [
                try await rig.command(action, "c-1", body),
                try await rig.command("preview", "c-1", #"{"\#(action)":\#(body)}"#),
            ] {
                #expect(answer.verdict == "422 unprocessable", "\(answer.text)")
                #expect(answer.text.contains("2026-12-30T12:00") && answer.text.contains("a clock was ahead"))
            }
        }
        #expect(try await rig.head == 4)
        #expect(try await rig.command("grant", "c-1", until("2027-01-01")).status == 200)
        #expect(try await rig.command("revoke_grant", "c-1", revocation(open)).status == 200, "it ends at its date")
    }

    @Test("each grant is one of its own, and under a key the same one again, however it fared since")
    func idempotency() async throws {
        let rig = try await ServiceRig.make()
        let first = try await rig.command("grant", "c-1", Self.endless)
        #expect(try grantID(first) != grantID(try await rig.command("grant", "c-1", Self.endless)))
        let keyed = try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
            for _ in 0..<6 {
                group.addTask { try await rig.command("grant", "c-1", Self.endless, idempotencyKey: "k") }
            }
            return try await group.reduce(into: [HTTPResponse]()) { $0.append($1) }
        }
        #expect(Set(keyed.map(\.body)).count == 1 && keyed[0].status == 200)
        #expect(try await rig.head == 4)
        let id = try grantID(keyed[0])
        let revoked = try await rig.command("revoke_grant", "c-1", revocation(id))
        #expect(try await rig.command("revoke_grant", "c-1", revocation(id)).body == revoked.body)
        #expect(try await rig.head == 5, "what is taken back needs no second event")
        let again = try await rig.command("revoke_grant", "c-1", revocation(id), idempotencyKey: "r")
        #expect(try again.json["position"] == .int(6))
        #expect(
            try await rig.command("revoke_grant", "c-1", revocation(id), idempotencyKey: "r").body == again.body)
        #expect(try await rig.command("grant", "c-1", Self.endless, idempotencyKey: "k").body == keyed[0].body)
        #expect(
            try await rig.command("grant", "c-1", Self.endless + " ", idempotencyKey: "k").verdict
                == "409 idempotency_conflict")
        #expect(
            try await rig.command("grant", "c-2", Self.endless, idempotencyKey: "k").verdict
                == "409 idempotency_conflict", "the path is part of the request")
        #expect(try await rig.holdings("c-1") == ["premium active grant"], "the first is still there")
    }

    @Test("of two revocations at once one is recorded, also when they come by two names of one customer")
    func racingRevocations() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.link("alias", to: "c-1")
        let id = try grantID(try await rig.command("grant", "alias", Self.endless))
        let answers = try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
            for name in ["alias", "c-1", "alias", "c-1"] {
                group.addTask { try await rig.command("revoke_grant", name, revocation(id)) }
            }
            return try await group.reduce(into: [HTTPResponse]()) { $0.append($1) }
        }
        #expect(Set(answers.map(\.body)).count == 1 && answers[0].status == 200)
        #expect(try answers[0].json["customer_id"] == .string("alias"), "whom it was granted to")
        #expect(try await rig.head == 4)
    }

    @Test("a grant beside a purchase adds up: neither's end takes away what the other gives")
    func overlap() async throws {
        let rig = try await EntitlementsTests.rig()
        let granted = try await rig.command(
            "grant", Purchase.customer, #"{"entitlement":"premium","until":"2027-06-01T00:00:00Z","reason":"r"}"#)
        rig.wait()
        #expect(try await rig.holdings(Purchase.customer) == ["premium active grant"], "the later end is shown")
        #expect(
            try await rig.holdings(Purchase.customer, "?at=2027-03-01T00:00:00Z") == ["premium active grant"])
        let answer = try await rig.get("/v1/customers/\(Purchase.customer)/entitlements").json["entitlements"]?[0]
        #expect(answer?["since"] == .string("2026-01-01T00:00:00.000Z"))
        #expect(answer?["until"] == .string("2027-06-01T00:00:00.000Z"))
        _ = try await rig.command("revoke_grant", Purchase.customer, revocation(try grantID(granted)))
        #expect(try await rig.holdings(Purchase.customer) == ["premium active paid_period"])
        _ = try await rig.command("grant", Purchase.customer, #"{"entitlement":"other","reason":"r"}"#)
        rig.wait()
        #expect(
            try await rig.holdings(Purchase.customer) == ["other active grant", "premium active paid_period"],
            "also what no product gives")
    }

    @Test("a grant belongs to whoever the customer is linked to, and to one environment")
    func linked() async throws {
        let rig = try await ServiceRig.make()
        let sandbox = #"{"entitlement":"premium","reason":"r","environment":"sandbox"}"#
        let id = try grantID(try await rig.command("grant", "c-1", sandbox))
        #expect(try await rig.holdings("c-1") == [])
        #expect(try await rig.holdings("c-1", "?environment=sandbox") == ["premium active grant"])
        _ = try await rig.command("link", "c-2", #"{"customer_id":"c-1","environment":"sandbox"}"#)
        for customer in ["c-1", "c-2"] {
            #expect(try await rig.holdings(customer, "?environment=sandbox") == ["premium active grant"])
        }
        let answer = try await rig.command("revoke_grant", "c-2", revocation(id), query: "?environment=sandbox")
        #expect(answer.status == 200)
        rig.wait()
        #expect(try await rig.holdings("c-2", "?environment=sandbox") == ["premium revoked grant_revoked"])
    }

    @Test("explain names what the customer claimed in vain")
    func refusedClaim() async throws {
        let rig = try await EntitlementsTests.rig()
        _ = try await rig.ledger.writer.append(
            EventDraft(
                environment: .production, source: .device, occurredAt: nil,
                fact: .conflict(
                    ConflictFact(originalTransactionID: "2000000123456780", claimant: IdentityRef(0))),
                identities: ["eve"], deduplication: .unique))
        let explained = try await rig.get("/v1/customers/eve/explain?entitlement=premium").json
        #expect(explained["entitlements"]?[0]?["rule"]?["code"] == .string("never_held"))
        #expect(explained["conflicts"]?[0]?["position"] == .int(4))
        #expect(explained["conflicts"]?[0]?["original_transaction_id"] == .string("2000000123456780"))
        #expect(try await rig.get("/v1/customers/\(Purchase.customer)/explain").json["conflicts"] == .array([]))
        _ = try await rig.transfer("2000000123456780", from: Purchase.customer, to: "eve")
        #expect(try await rig.get("/v1/customers/eve/explain").json["conflicts"] == .array([]))
    }

    @Test("who has as many grants in force as there may be is given one more when one was taken back")
    func limit() async throws {
        let rig = try await ServiceRig.make()
        let writer = LedgerWriter(pool: rig.pool, now: { rig.clock.now }, report: { _ in })
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<CustomerFacts.grantLimit {
                group.addTask {
                    _ = try await writer.append(
                        EventDraft(
                            environment: .production, source: .api, occurredAt: nil,
                            fact: .grant(
                                GrantFact(
                                    grantID: "grant_\(number)", customer: IdentityRef(0), entitlementID: "premium",
                                    until: nil, reason: "r", actor: nil)),
                            identities: ["c-1"], deduplication: .unique))
                }
            }
            try await group.waitForAll()
        }
        let head = try await rig.get("/v1/ledger").json["position"]
        let refused = try await rig.command("grant", "c-1", Self.endless)
        #expect(refused.verdict == "422 unprocessable" && refused.text.contains("1000 grants"))
        #expect(try await rig.get("/v1/ledger").json["position"] == head)
        #expect(
            try await rig.command("grant", "c-1", #"{"entitlement":"e","reason":"r","environment":"sandbox"}"#).status
                == 200)
        #expect(try await rig.command("grant", "c-2", Self.endless).status == 200)
        #expect(try await rig.command("revoke_grant", "c-1", revocation("grant_7")).status == 200)
        rig.wait()
        #expect(try await rig.command("grant", "c-1", Self.endless).status == 200)
    }
}
