import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import Testing

@testable import Service

@Suite("POST /v1/customers/{id}/actions/transfer", .serialized, .timeLimit(.minutes(5)))
struct TransferCommandTests {
    private static let ann = Purchase.customer
    private static let original = "2000000123456780"
    private static let held = ["premium active paid_period"]
    private static let lost = ["premium expired owned_by_another"]

    /// Both sides before and after, in words.
    private func sides(_ answer: WireValue) -> [[String]] {
        [("from", "before"), ("from", "after"), ("to", "before"), ("to", "after")].map {
            ServiceRig.side(answer, $0, $1)
        }
    }

    /// The answer without what a run has and a dry run has not.
    private func comparable(_ answer: HTTPResponse) throws -> WireValue {
        guard case .object(var members) = try answer.json else { return .null }
        members["position"] = nil
        members["dry_run"] = nil
        return .object(members)
    }

    @Test("both sides are answered before and after, a dry run says the same and does nothing")
    func bothSides() async throws {
        let rig = try await EntitlementsTests.rig()
        let dry = try await rig.transfer(Self.original, from: Self.ann, to: "c-1", dryRun: true)
        #expect(dry.status == 200 && dry.header("Ledger-Position") == "3", "\(dry.text)")
        #expect(try dry.json["position"] == .null && dry.json["dry_run"] == .bool(true))
        #expect(try await rig.head == 3)
        #expect(try await rig.holdings("c-1") == [])

        let answer = try await rig.transfer(Self.original, from: Self.ann, to: "c-1")
        #expect(answer.status == 200 && answer.header("Ledger-Position") == "4")
        #expect(try comparable(dry) == comparable(answer))
        let json = try answer.json
        #expect(json["object"] == .string("transfer") && json["dry_run"] == .bool(false))
        #expect(json["original_transaction_id"] == .string(Self.original))
        #expect(json["from"]?["customer_id"] == .string(Self.ann) && json["to"]?["customer_id"] == .string("c-1"))
        #expect(sides(json) == [Self.held, Self.lost, [], Self.held])
        #expect(json["to"]?["after"]?[0]?["reason"]?["positions"] == .array([.int(3), .int(4)]))
        rig.wait()
        #expect(try await rig.holdings(Self.ann) == Self.lost)
        #expect(try await rig.holdings("c-1") == Self.held)
        #expect(try await rig.holdings(Self.ann, "?at=2026-06-01T00:00:00Z") == Self.held, "before it, the old owner")
        #expect(try await rig.holdings("c-1", "?at=2026-06-01T00:00:00Z") == [])
        #expect(try await rig.holdings(Self.ann, "?known_at=3") == Self.held)
        #expect(
            try await rig.get("/v1/subscriptions/\(Self.original)").json["periods"]?[0]?["customer_id"]
                == .string("c-1"))
        let before = try await rig.get("/v1/subscriptions/\(Self.original)?at=2026-06-01T00:00:00Z").json
        #expect(before["periods"]?[0]?["customer_id"] == .string(Self.ann) && before["claimed"] == .bool(true))
        for customer in ["c-1", Self.ann] {
            let events = try await rig.get("/v1/customers/\(customer)/events").json["items"]
            #expect(events?[(events?.count ?? 0) - 1]?["type"] == .string("transferred"), "\(customer)")
        }
    }

    @Test("of a transfer and a link of whoever it was bought by, sent at once, the transfer is refused or comes first")
    func racesWithLinks() async throws {
        let rig = try await ServiceRig.withCatalog()
        for number in 0..<12 {
            let bearer = "00000000-0000-4000-8000-0000000001\(number + 10)"
            try await rig.buy("\(number + 10)", by: bearer)
            try await rig.link(bearer, to: "c-\(number)")
            async let linked = rig.link(bearer, to: "d-\(number)")
            async let moved = rig.transfer("\(number + 10)", from: "c-\(number)", to: "t-\(number)")
            let (link, transfer) = try await (linked.json["position"], moved)
            guard transfer.status == 200 else {
                #expect(transfer.verdict == "409 ownership_conflict")
                continue
            }
            guard case .int(let before)? = try transfer.json["position"], case .int(let after)? = link else {
                Issue.record("\(transfer.text)")
                continue
            }
            #expect(before < after, "who had it no more has given it away")
        }
    }

    @Test("explain tells both sides, and what a transfer away leaves to do")
    func explained() async throws {
        let rig = try await EntitlementsTests.rig()
        _ = try await rig.transfer(Self.original, from: Self.ann, to: "c-1")
        let loser = try await rig.get("/v1/customers/\(Self.ann)/explain?at=2026-11-21T00:00:00Z").json
        #expect(
            loser["entitlements"]?[0]?["rule"]?["sentence"]
                == .string(
                    "On 21 November 2026, 00:00 UTC, premium is closed, because com.example.pro.yearly has been "
                        + "another customer's since 20 November 2026, 12:00 UTC."))
        #expect(loser["entitlements"]?[0]?["would_change"]?[0]?["code"] == .string("transfer"))
        let winner = try await rig.get("/v1/customers/c-1/explain?at=2026-11-21T00:00:00Z").json["entitlements"]?[0]
        #expect(
            winner?["rule"]?["sentence"]
                == .string(
                    "On 21 November 2026, 00:00 UTC, premium is open, because the free trial of com.example.pro.yearly "
                        + "runs from 1 January 2026, 00:00 UTC until 1 January 2027, 00:00 UTC, and has been this "
                        + "customer's since 20 November 2026, 12:00 UTC."))
    }

    @Test("what the App Store sold and nobody claimed is given to a customer by a transfer addressed to them")
    func nobodys() async throws {
        let rig = try await EntitlementsTests.rig()
        try await rig.buy("300", by: nil)
        let refused = try await rig.transfer("300", from: "c-1", to: "c-2")
        #expect(refused.verdict == "409 ownership_conflict" && refused.text.contains("addressed to them"))
        let dry = try await rig.transfer("300", from: "c-1", to: "c-1", dryRun: true)
        let head = try await rig.head
        let answer = try await rig.transfer("300", from: "c-1", to: "c-1")
        #expect(try answer.status == 200 && comparable(dry) == comparable(answer), "\(answer.text)")
        #expect(try await rig.head == head + 1)
        #expect(try answer.json["from"] == .null && answer.json["to"]?["before"]?[0] == nil)
        rig.wait()
        #expect(try await rig.holdings("c-1") == Self.held)
        #expect(try await rig.holdings("c-1", "?at=2026-06-01T00:00:00Z") == [], "before it, it was nobody's")
        let event = try await rig.get("/v1/events/\(head + 1)").json
        #expect(event["type"] == .string("transferred") && event["facts"]?["from_nobody"] == .bool(true))
        #expect(try await rig.transfer("300", from: "c-2", to: "c-2").verdict == "409 ownership_conflict", "once")
        let undone = try await rig.command("transfer", "c-1", #"{"undo":\#(head + 1)}"#)
        #expect(undone.status == 200 && undone.text.contains(#""to":null"#), "\(undone.text)")
        rig.wait()
        #expect(try await rig.holdings("c-1") == ["premium expired owned_by_another"])
        #expect(try await rig.get("/v1/subscriptions/300").json["claimed"] == .bool(false))
    }

    @Test("what makes no sense is refused, names nobody else, and writes nothing")
    func refusals() async throws {
        let rig = try await EntitlementsTests.rig()
        try await rig.buy("300", by: nil)
        _ = try await rig.link(Self.ann, to: "main")
        _ = try await rig.transfer(Self.original, from: Self.ann, to: "c-1")
        _ = try await rig.command("grant", "c-1", #"{"entitlement":"x","reason":"r"}"#)
        let head = try await rig.head
        func move(_ original: String, _ to: String) -> String {
            #"{"original_transaction_id":"\#(original)","to":"\#(to)"}"#
        }
        let table: [(String, String, String, String, String?)] = [
            ("c-1", move("999", "c-2"), "", "404 not_found", "original_transaction_id"),
            ("c-1", move(Self.original, "c-2"), "?environment=sandbox", "404 not_found", "original_transaction_id"),
            ("c-1", move("300", "c-2"), "", "409 ownership_conflict", "original_transaction_id"),
            (Self.ann, move(Self.original, "c-2"), "", "409 ownership_conflict", "original_transaction_id"),
            ("nobody", move(Self.original, "c-2"), "", "409 ownership_conflict", "original_transaction_id"),
            ("c-1", move(Self.original, "c-1"), "", "422 unprocessable", "to"),
            ("c-2", #"{"undo":6}"#, "", "404 not_found", "undo"),
            ("c-1", #"{"undo":6}"#, "?environment=sandbox", "404 not_found", "undo"),
            ("c-1", #"{"undo":7}"#, "", "404 not_found", "undo"), ("c-1", #"{"undo":78}"#, "", "404 not_found", "undo"),
            ("c-1", move("", "c-2"), "", "400 malformed_request", "original_transaction_id"),
            ("c-1", #"{"to":"c-2"}"#, "", "400 malformed_request", "original_transaction_id"),
            ("c-1", #"{"undo":6,"to":"c-2"}"#, "", "400 malformed_request", "to"),
        ]
        for (customer, body, query, verdict, param) in table {
            for body in [body, body.replacing("}", with: #","dry_run":true}"#)] {
                let answer = try await rig.command("transfer", customer, body, query: query)
                #expect(answer.verdict == verdict, "\(customer) \(body) \(answer.text)")
                #expect(try answer.json["param"] == param.map { .string($0) }, "\(body)")
                #expect(!answer.text.contains("main"))
            }
        }
        #expect(try await rig.head == head)
        _ = try await rig.link("c-2", to: "c-1")
        #expect(try await rig.transfer(Self.original, from: "c-1", to: "c-2").verdict == "422 unprocessable")
        #expect(try await rig.transfer(Self.original, from: "c-2", to: "c-3").status == 200, "an alias is the customer")
    }

    @Test("a repetition is not refused because it has happened, and is answered the same after all that came later")
    func idempotency() async throws {
        let rig = try await EntitlementsTests.rig()
        let first = try await rig.transfer(Self.original, from: Self.ann, to: "c-1", idempotencyKey: "k")
        #expect(first.status == 200)
        #expect(try await rig.transfer(Self.original, from: Self.ann, to: "c-1").verdict == "409 ownership_conflict")
        _ = try await rig.transfer(Self.original, from: "c-1", to: "c-2")
        _ = try await rig.link("c-1", to: "c-9")
        try await rig.notify(Purchase().renewed())
        _ = try await rig.put(#"{"products":[{"product_id":"x","entitlements":["y"]}]}"#)
        rig.wait(seconds: 3600)
        let again = try await rig.transfer(Self.original, from: Self.ann, to: "c-1", idempotencyKey: "k")
        #expect(again.body == first.body && again.header("Ledger-Position") == "4")
        // Views are disposable: without them it is the same.
        try await rig.writeViews()
        #expect(
            try await rig.transfer(Self.original, from: Self.ann, to: "c-1", idempotencyKey: "k").body == first.body)
        #expect(try await rig.deleteViews() > 0)
        #expect(
            try await rig.transfer(Self.original, from: Self.ann, to: "c-1", idempotencyKey: "k").body == first.body)
        #expect(
            try await rig.transfer(Self.original, from: Self.ann, to: "c-2", idempotencyKey: "k").verdict
                == "409 idempotency_conflict")
        #expect(
            try await rig.transfer(Self.original, from: Self.ann, to: "c-1", dryRun: true, idempotencyKey: "k").verdict
                == "409 idempotency_conflict")
    }

    @Test("a dry run is not remembered under its key")
    func dryRunKey() async throws {
        let rig = try await EntitlementsTests.rig()
        let dry = try await rig.transfer(Self.original, from: Self.ann, to: "c-1", dryRun: true, idempotencyKey: "k")
        let run = try await rig.transfer(Self.original, from: Self.ann, to: "c-1", idempotencyKey: "k")
        #expect(run.status == 200)
        #expect(try comparable(dry) == comparable(run))
    }

    @Test("an undone transfer gives back what it took, and a dry run of the undoing says so")
    func undo() async throws {
        let rig = try await EntitlementsTests.rig()
        _ = try await rig.transfer(Self.original, from: Self.ann, to: "c-1")
        _ = try await rig.transfer(Self.original, from: "c-1", to: "c-2")
        #expect(try await rig.command("transfer", "c-1", #"{"undo":4}"#).verdict == "409 ownership_conflict")
        rig.wait()
        let dry = try await rig.command("transfer", "c-2", #"{"undo":5,"dry_run":true}"#)
        let undone = try await rig.command("transfer", "c-2", #"{"undo":5}"#, idempotencyKey: "u")
        #expect(try comparable(dry) == comparable(undone), "\(dry.text) \(undone.text)")
        let json = try undone.json
        #expect(json["from"]?["customer_id"] == .string("c-2") && json["to"]?["customer_id"] == .string("c-1"))
        #expect(sides(json) == [Self.held, Self.lost, Self.lost, Self.held])
        // The one who once gave it away may take the last step back, whoever asks for it.
        rig.wait()
        let last = try await rig.command("transfer", Self.ann, #"{"undo":4}"#).json
        #expect(last["from"]?["customer_id"] == .string("c-1") && last["to"]?["customer_id"] == .string(Self.ann))
        #expect(sides(last) == [Self.held, Self.lost, Self.lost, Self.held])
        rig.wait()
        #expect(try await rig.holdings(Self.ann) == Self.held)
        #expect(try await rig.command("transfer", "c-2", #"{"undo":5}"#, idempotencyKey: "u").body == undone.body)
        #expect(try await rig.command("transfer", "c-1", #"{"undo":4}"#).verdict == "409 ownership_conflict")
    }

    @Test("where two logins get their own periods back, the one who asks is shown, else whose the latest is")
    func undoneForTwo() async throws {
        let rig = try await EntitlementsTests.rig()
        var second = Purchase().renewed()
        second.token = "0F1D2E3C-4B5A-6978-8796-A5B4C3D2E1F0"
        try await rig.notify(second)
        let other = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        _ = try await rig.transfer(Self.original, from: Self.ann, to: "c-1")
        func receiver(_ asking: String) async throws -> WireValue? {
            try await rig.command("transfer", asking, #"{"undo":5,"dry_run":true}"#).json["to"]?["customer_id"]
        }
        #expect(try await receiver(Self.ann) == .string(Self.ann))
        #expect(try await receiver(other) == .string(other))
        #expect(try await receiver("c-1") == .string(other))
    }

    @Test("whose other periods go along is told, too, before and after, and again when it is undone")
    func others() async throws {
        let rig = try await EntitlementsTests.rig()
        var second = Purchase().renewed()
        second.token = "0F1D2E3C-4B5A-6978-8796-A5B4C3D2E1F0"
        let other = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        try await rig.notify(second)
        rig.clock.now = try instant("2027-06-01T00:00:00Z")
        let dry = try await rig.transfer(Self.original, from: Self.ann, to: "c-1", dryRun: true)
        let others = try dry.json["others"]
        #expect(others?.count == 1 && others?[0]?["customer_id"] == .string(other), "\(dry.text)")
        #expect(others?[0]?["before"]?[0]?["gives_access"] == .bool(true))
        #expect(others?[0]?["after"]?[0]?["gives_access"] == .bool(false))
        let done = try await rig.transfer(Self.original, from: Self.ann, to: "c-1")
        #expect(try comparable(done) == comparable(dry))
        rig.wait()
        #expect(try await rig.holdings(other) == Self.lost)
        let undone = try await rig.command("transfer", "c-1", #"{"undo":5,"dry_run":true}"#).json
        #expect(undone["to"]?["customer_id"] == .string(other), "whose the latest is")
        #expect(undone["others"]?[0]?["customer_id"] == .string(Self.ann))
    }

    @Test("a dry run takes the receiver's own purchases and grants into account, and one the ledger never saw")
    func receiversOwn() async throws {
        let rig = try await EntitlementsTests.rig()
        _ = try await rig.put(
            """
            {"products":[{"product_id":"com.example.pro.yearly","entitlements":["premium"]},
            {"product_id":"com.example.pro.extra","entitlements":["extra"]}]}
            """)
        var own = Purchase(uuid: "own", original: "400", transaction: "400", product: "com.example.pro.extra")
        own.token = "0F1D2E3C-4B5A-6978-8796-A5B4C3D2E1F0"
        own.appTransaction = nil
        try await rig.notify(own)
        let receiver = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        _ = try await rig.command("grant", receiver, #"{"entitlement":"gift","reason":"r"}"#)
        rig.wait()
        let dry = try await rig.transfer(Self.original, from: Self.ann, to: receiver, dryRun: true)
        #expect(
            try sides(dry.json)[2...] == [
                ["extra active paid_period", "gift active grant"],
                ["extra active paid_period", "gift active grant", "premium active paid_period"],
            ])
        #expect(
            try comparable(dry) == comparable(try await rig.transfer(Self.original, from: Self.ann, to: receiver)))
    }

    @Test("a transfer in one environment leaves the other as it is")
    func environments() async throws {
        let rig = try await EntitlementsTests.rig()
        try await rig.buy(Self.original, by: Self.ann, environment: "Sandbox")
        let body = #"{"original_transaction_id":"\#(Self.original)","to":"c-1","environment":"sandbox"}"#
        #expect(try await rig.command("transfer", Self.ann, body).json["environment"] == .string("sandbox"))
        rig.wait()
        #expect(try await rig.holdings("c-1") == [])
        #expect(try await rig.holdings("c-1", "?environment=sandbox") == Self.held)
        #expect(try await rig.holdings(Self.ann) == Self.held)
    }

    @Test("of transfers to several at once one is made; the same request many times at once is one event")
    func races() async throws {
        let rig = try await EntitlementsTests.rig()
        func send(_ requests: [(to: String, key: String?)]) async throws -> [HTTPResponse] {
            try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
                for (to, key) in requests {
                    group.addTask {
                        try await rig.transfer(Self.original, from: Self.ann, to: to, idempotencyKey: key)
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
        }
        let rivals = try await send((0..<6).map { ("c-\($0)", nil) })
        #expect(rivals.map(\.verdict).sorted() == ["200 -"] + Array(repeating: "409 ownership_conflict", count: 5))
        #expect(try await rig.head == 4)
        let winner = try #require(try rivals.first { $0.status == 200 }?.json["to"]?["customer_id"])
        guard case .string(let owner) = winner else { return }
        #expect(try await rig.command("transfer", owner, #"{"undo":4}"#).status == 200)
        let same = try await send(Array(repeating: ("c-1", "once"), count: 6))
        #expect(Set(same.map(\.body)).count == 1 && same[0].status == 200, "\(same.map(\.verdict))")
        #expect(try await rig.head == 6)
    }
}
