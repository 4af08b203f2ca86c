import EntitlementAPI
import EntitlementCore
import HTTPServer
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Service

/// Random commands about few people and purchases, most of which contradict each other.
@Suite("Random commands", .serialized, .timeLimit(.minutes(5)))
struct RandomCommandsTests {
    private static let tokens = [
        "7e3fb20b-4cdb-47cc-936d-99d65f608138", "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0",
    ]
    private static let people = tokens + ["c-1", "c-2"]
    private static let originals = ["1", "2", "3"]

    private struct Request {
        let action: String
        let customer: String
        let body: String
    }

    private func pick<Element>(_ list: [Element], _ random: inout SplitMix64) -> Element {
        list[Int.random(in: 0..<list.count, using: &random)]
    }

    private func request(upTo head: Int64, grants: [String], _ random: inout SplitMix64) -> Request {
        let customer = pick(Self.people, &random)
        let other = pick(Self.people, &random)
        let undo = #"{"undo":\#(Int64.random(in: 1...head, using: &random))}"#
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<3: return Request(action: "link", customer: customer, body: #"{"customer_id":"\#(other)"}"#)
        case 3: return Request(action: "link", customer: customer, body: undo)
        case 4..<7:
            let body = #"{"original_transaction_id":"\#(pick(Self.originals, &random))","to":"\#(other)"}"#
            return Request(action: "transfer", customer: customer, body: body)
        case 7: return Request(action: "transfer", customer: customer, body: undo)
        case 8: return Request(action: "grant", customer: customer, body: #"{"entitlement":"gift","reason":"r"}"#)
        default:
            let id = grants.isEmpty ? "none" : pick(grants, &random)
            return Request(action: "revoke_grant", customer: customer, body: #"{"grant_id":"\#(id)","reason":"r"}"#)
        }
    }

    private func without(_ members: [String], _ answer: HTTPResponse) throws -> WireValue {
        guard case .object(var object) = try answer.json else { return .null }
        for name in members { object[name] = nil }
        return .object(object)
    }

    private func text(_ value: WireValue?) -> String { if case .string(let text) = value { text } else { "" } }

    /// What the answer of a command says is what reads answer at that position and instant.
    private func check(_ request: Request, _ answer: HTTPResponse, _ rig: ServiceRig) async throws {
        let json = try answer.json
        guard case .int(let position) = json["position"] else { return }
        let instant = text(try await rig.get("/v1/events/\(position)").json["recorded_at"])
        func entitlements(_ customer: String, knownAt: Int64) async throws -> WireValue? {
            try await rig.get("/v1/customers/\(customer)/entitlements?known_at=\(knownAt)&at=\(instant)")
                .json["entitlements"]
        }
        switch request.action {
        case "transfer":
            for side in ["from", "to"] {
                let customer = text(json[side]?["customer_id"])
                #expect(try await entitlements(customer, knownAt: position - 1) == json[side]?["before"])
                #expect(try await entitlements(customer, knownAt: position) == json[side]?["after"])
            }
        case "link":
            #expect(
                try await entitlements(text(json["linked"]), knownAt: position)
                    == entitlements(text(json["customer_id"]), knownAt: position))
        default:
            break
        }
    }

    @Test(
        "dry runs say what runs then do, answers are what reads say, and stay the same for ever",
        arguments: 1...4 as ClosedRange<UInt64>)
    func commands(seed: UInt64) async throws {
        let rig = try await ServiceRig.make()
        var random = SplitMix64(seed: seed)
        _ = try await rig.put(ServiceRig.proCatalog)
        try await rig.buy("1", by: Self.tokens[0])
        try await rig.buy("2", by: Self.tokens[1])
        try await rig.buy("3", by: nil)
        var done: [(key: String, request: Request, answer: HTTPResponse)] = []
        var grants: [String] = []
        for number in 0..<60 {
            if Bool.random(using: &random) { rig.wait() }
            let request = request(upTo: try await rig.head, grants: grants, &random)
            var dry: HTTPResponse?
            if request.action == "transfer" {
                dry = try await rig.command(
                    "transfer", request.customer, request.body.dropLast() + #","dry_run":true}"#)
            }
            let head = try await rig.head
            let answer = try await rig.command(
                request.action, request.customer, request.body, idempotencyKey: "k\(number)")
            #expect([200, 404, 409, 422].contains(answer.status), "seed \(seed): \(request) \(answer.text)")
            #expect(try await rig.head == head + (answer.status == 200 ? 1 : 0), "seed \(seed): \(request)")
            if let dry {
                let members = ["position", "dry_run", "request_id"]
                #expect(try without(members, dry) == without(members, answer), "seed \(seed): \(request)")
            }
            guard answer.status == 200 else { continue }
            if request.action == "grant" { grants.append(text(try answer.json["grant_id"])) }
            try await check(request, answer, rig)
            done.append((key: "k\(number)", request: request, answer: answer))
        }
        #expect(done.count > 10, "seed \(seed)")
        try await rig.writeViews()
        #expect(try await rig.deleteViews() > 0)
        let head = try await rig.head
        for item in done {
            let again = try await rig.command(
                item.request.action, item.request.customer, item.request.body, idempotencyKey: item.key)
            #expect(again.body == item.answer.body, "seed \(seed): \(item.request)")
        }
        #expect(try await rig.head == head)
    }
}
