import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("POST /v1/customers/{id}/actions/link", .serialized, .timeLimit(.minutes(5)))
struct LinkCommandTests {
    private static let token = "7E3FB20B-4CDB-47CC-936D-99D65F608138"
    private static let held = ["premium active paid_period"]

    @Test("an account token, an app transaction id or a customer id becomes the customer's; the past stays readable")
    func targets() async throws {
        let rig = try await EntitlementsTests.rig()
        let answer = try await rig.command("link", "c-1", #"{"app_account_token":"\#(Self.token)"}"#)
        #expect(answer.status == 200 && answer.header("Ledger-Position") == "4")
        #expect(
            try answer.json
                == WireValue(
                    json: """
                        {"object":"link","position":4,"environment":"production","customer_id":"c-1",
                        "linked":"\(Purchase.customer)","until_now":null}
                        """))
        for customer in ["c-1", Purchase.customer] {
            #expect(try await rig.holdings(customer) == Self.held)
            #expect(try await rig.holdings(customer, "?at=2026-01-02T00:00:00Z") == Self.held, "for every instant")
        }
        #expect(try await rig.holdings("c-1", "?known_at=3") == [])
        #expect(try await rig.holdings(Purchase.customer, "?known_at=3") == Self.held)

        let app = try await rig.command("link", "c-2", #"{"app_transaction_id":"5"}"#).json
        #expect(app["linked"] == .string("apple:5"))
        var purchase = Purchase(uuid: "late", original: "5", transaction: "5", token: nil, appTransaction: "5")
        purchase.product = "com.example.pro.yearly"
        try await rig.notify(purchase)
        #expect(try await rig.holdings("c-2") == Self.held, "a link may come before the purchase")

        let moved = try await rig.command("link", "c-3", #"{"app_transaction_id":"5"}"#).json
        #expect(moved["customer_id"] == .string("c-3") && moved["until_now"] == .string("c-2"))
        #expect(try await rig.holdings("c-2") == [])
        #expect(try await rig.holdings("c-3") == Self.held, "the last link wins")

        #expect(try await rig.link("c-3", to: "c-4").json["customer_id"] == .string("c-4"))
        let chained = try await rig.link("c-5", to: "c-3").json
        #expect(chained["customer_id"] == .string("c-4"), "whose it is, every link followed")
        for customer in ["c-3", "c-4", "c-5", "apple:5"] { #expect(try await rig.holdings(customer) == Self.held) }
    }

    @Test("an account token that is no UUID is linked and remarked, for no purchase in the App Store bears one")
    func oddToken() async throws {
        let rig = try await EntitlementsTests.rig()
        func link() async throws -> HTTPResponse {
            try await rig.command("link", "c-1", #"{"app_account_token":"user-7"}"#, idempotencyKey: "odd")
        }
        let answer = try await link()
        #expect(answer.status == 200)
        #expect(try answer.json["remarks"] == .array([.string("not_a_uuid:user-7")]))
        #expect(try await link().body == answer.body)
        for target in [
            #""app_account_token":"\#(Self.token)""#, #""customer_id":"user-8""#, #""app_transaction_id":"704""#,
        ] { #expect(try await rig.command("link", "c-1", "{\(target)}").json["remarks"] == nil) }
        let mistyped = try await rig.command("link", "c-1", #"{"app_transaction_id":"apple:704"}"#)
        #expect(try mistyped.json["remarks"] == .array([.string("not_a_number:apple:704")]))
    }

    @Test("a link is an event of both, and among what an explanation rests on")
    func visible() async throws {
        let rig = try await EntitlementsTests.rig()
        _ = try await rig.link(Purchase.customer, to: "c-1")
        for customer in ["c-1", Purchase.customer] {
            let events = try await rig.get("/v1/customers/\(customer)/events").json
            #expect(events["items"]?[1]?["type"] == .string("linked"))
            #expect(events["items"]?[1]?["source"] == .string("api"))
        }
        let explained = try await rig.get("/v1/customers/c-1/explain").json["entitlements"]?[0]
        #expect(explained?["events"]?[2]?["type"] == .string("linked"))
        #expect(explained?["decision"]?["gives_access"] == .bool(true))
    }

    @Test("what makes no sense is refused, and writes nothing")
    func refusals() async throws {
        let rig = try await EntitlementsTests.rig()
        _ = try await rig.link("a", to: "b")
        _ = try await rig.link("b", to: "c")
        let head = try await rig.head
        let long = String(repeating: "t", count: 257)
        let table: [(String, String, String, String, String?)] = [
            ("c", #"{"customer_id":"c"}"#, "", "422 unprocessable", nil),
            ("new", #"{"customer_id":"new"}"#, "", "422 unprocessable", nil),
            ("a", #"{"customer_id":"c"}"#, "", "409 ownership_conflict", nil),
            ("a", #"{"customer_id":"b"}"#, "", "409 ownership_conflict", nil),
            ("b", #"{"customer_id":"c"}"#, "", "409 ownership_conflict", nil),
            ("a", #"{"undo":2}"#, "", "404 not_found", "undo"),
            ("a", #"{"undo":100}"#, "", "404 not_found", "undo"),
            ("c", #"{"undo":4}"#, "", "404 not_found", "undo"),
            ("a", #"{"undo":4}"#, "?environment=sandbox", "404 not_found", "undo"),
            ("a", "{}", "", "400 malformed_request", nil), ("a", "", "", "400 malformed_request", nil),
            ("a", #"{"customer_id":"b","customer_id":"c"}"#, "", "400 malformed_request", "customer_id"),
            ("a", #"{"undo":0}"#, "", "400 malformed_request", "undo"),
            ("a", #"{"customer_id":"b","environment":"x"}"#, "", "400 malformed_request", "environment"),
            (
                "a", #"{"customer_id":"b","environment":"sandbox"}"#, "?environment=production",
                "400 malformed_request", "environment"
            ),
            ("a", #"{"app_account_token":"\#(long)"}"#, "", "400 malformed_request", "app_account_token"),
            ("a", #"{"app_transaction_id":"\#(long)"}"#, "", "400 malformed_request", "app_transaction_id"),
            ("a", String(repeating: " ", count: 16 << 10) + "{}", "", "413 too_large", nil),
        ]
        for (customer, body, query, verdict, param) in table {
            let answer = try await rig.command("link", customer, body, query: query)
            #expect(answer.verdict == verdict, "\(customer) \(body.prefix(60)) \(answer.text)")
            #expect(try answer.json["param"] == param.map { .string($0) }, "\(body.prefix(60))")
        }
        let reader = try await rig.keys.create(name: "reader", scopes: [.customersRead]).secret
        #expect(try await rig.command("link", "a", #"{"customer_id":"z"}"#, key: reader).verdict == "403 forbidden")
        #expect(try await rig.head == head + 1, "the reader's key")
    }

    @Test("a link to itself takes the one before back, and so does its undoing, which restores what was before")
    func undo() async throws {
        let rig = try await EntitlementsTests.rig()
        _ = try await rig.link(Purchase.customer, to: "c-1")
        let second = try await rig.link(Purchase.customer, to: "c-2").json
        #expect(second["position"] == .int(5) && second["until_now"] == .string("c-1"))
        #expect(try await rig.command("link", "c-1", #"{"undo":4}"#).verdict == "409 ownership_conflict")
        let undone = try await rig.command("link", "c-2", #"{"undo":5}"#).json
        #expect(undone["customer_id"] == .string("c-1") && undone["until_now"] == .string("c-2"))
        #expect(try await rig.holdings("c-1") == Self.held)
        #expect(try await rig.holdings("c-2") == [])
        let itself = try await rig.link(Purchase.customer, to: Purchase.customer).json
        #expect(itself["customer_id"] == .string(Purchase.customer) && itself["until_now"] == .string("c-1"))
        #expect(try await rig.holdings("c-1") == [])
        #expect(try await rig.holdings(Purchase.customer) == Self.held)
        #expect(try await rig.holdings("c-2", "?known_at=5") == Self.held)

        let first = try await rig.link("x", to: "y").json["position"]
        guard case .int(let position) = first else { return #expect(Bool(false), "no position") }
        let restored = try await rig.command("link", "x", #"{"undo":\#(position)}"#).json
        #expect(restored["customer_id"] == .string("x") && restored["until_now"] == .string("y"))
    }

    @Test("what holds already is no event, unless a key is to be remembered; the same key is the same answer, for ever")
    func idempotency() async throws {
        let rig = try await EntitlementsTests.rig()
        let first = try await rig.link("a", to: "b")
        #expect(try await rig.link("a", to: "b").body == first.body)
        #expect(try await rig.head == 4)
        let keyed = try await rig.link("a", to: "b", idempotencyKey: "k")
        #expect(try keyed.json["position"] == .int(5))
        #expect(try await rig.link("b", to: "c", idempotencyKey: "l").status == 200)
        #expect(try await rig.link("a", to: "d").status == 200)
        let later = try await rig.link("a", to: "b", idempotencyKey: "k")
        #expect(later.body == keyed.body && later.header("Ledger-Position") == "5")
        #expect(try await rig.link("a", to: "e", idempotencyKey: "k").verdict == "409 idempotency_conflict")
        #expect(try await rig.command("grant", "b", "{}", idempotencyKey: "k").verdict == "400 malformed_request")
        // A refusal is not remembered.
        #expect(try await rig.link("z", to: "z", idempotencyKey: "m").verdict == "422 unprocessable")
        #expect(try await rig.link("z", to: "y").status == 200)
        #expect(try await rig.link("z", to: "z", idempotencyKey: "m").status == 200)
        rig.wait(seconds: 25 * 3600)
        #expect(try await rig.link("a", to: "b", idempotencyKey: "k").json["position"] == .int(10))
    }

    @Test("two spellings of one character are two customers")
    func spellings() async throws {
        let rig = try await ServiceRig.make()
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        let answer = try await rig.link(decomposed, to: "caf%C3%A9")
        #expect(answer.status == 200, "\(answer.text)")
        guard case .string(let linked) = try answer.json["linked"],
            case .string(let customer) = try answer.json["customer_id"]
        else { return #expect(Bool(false), "no names") }
        #expect(linked.utf8.elementsEqual(decomposed.utf8) && customer.utf8.elementsEqual(composed.utf8))
    }

    @Test("the environments never meet, and a key of one is for that one")
    func environments() async throws {
        let rig = try await EntitlementsTests.rig()
        let key = try await rig.keys.create(name: "s", scopes: [.customersWrite], environment: .sandbox).secret
        let body = #"{"customer_id":"\#(Purchase.customer)"}"#
        let answer = try await rig.command("link", "c-1", body, key: key).json
        #expect(answer["environment"] == .string("sandbox"))
        #expect(try await rig.holdings("c-1") == [])
        let named = #"{"customer_id":"\#(Purchase.customer)","environment":"production"}"#
        #expect(try await rig.command("link", "c-1", named, key: key).verdict == "403 forbidden")
        #expect(try await rig.command("link", "c-1", named).json["environment"] == .string("production"))
        #expect(try await rig.holdings("c-1") == Self.held)
        // What would be a circle there is none here.
        _ = try await rig.command("link", "a", #"{"customer_id":"b","environment":"sandbox"}"#)
        #expect(try await rig.command("link", "b", #"{"customer_id":"a"}"#).status == 200)
    }

    @Test("of links sent at once that would close a circle together, not all are made")
    func racingCircle() async throws {
        let rig = try await ServiceRig.make()
        for round in 0..<4 {
            let people = (0..<5).map { "p\(round)-\($0)" }
            // Every other link is there before, so that those sent at once share nobody.
            _ = try await rig.link(people[0], to: people[1])
            _ = try await rig.link(people[2], to: people[3])
            let pairs = [(1, 2), (3, 4), (4, 0)]
            let answers = try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
                for (linked, customer) in pairs {
                    group.addTask { try await rig.link(people[linked], to: people[customer]) }
                }
                return try await group.reduce(into: [HTTPResponse]()) { $0.append($1) }
            }
            #expect(answers.map(\.verdict).sorted() == ["200 -", "200 -", "409 ownership_conflict"])
            for answer in answers where answer.status == 200 {
                #expect(try answer.json["customer_id"] != answer.json["linked"], "a link that was answered holds")
            }
        }
    }

    @Test("one request sent many times at once is one event, and one answer")
    func racingRepeats() async throws {
        let rig = try await EntitlementsTests.rig()
        let answers = try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
            for _ in 0..<8 {
                group.addTask { try await rig.link(Purchase.customer, to: "c-1", idempotencyKey: "once") }
            }
            return try await group.reduce(into: [HTTPResponse]()) { $0.append($1) }
        }
        #expect(Set(answers.map(\.body)).count == 1 && answers[0].status == 200)
        #expect(try await rig.head == 4)
    }
}
