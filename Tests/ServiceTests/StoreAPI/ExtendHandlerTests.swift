import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// `POST /v1/subscriptions/{id}/actions/extend`, with a simulated store that is asked in this process.
@Suite("Giving days over HTTP", .serialized, .timeLimit(.minutes(5)))
struct ExtendHandlerTests {
    private static let id = "2000000000000001"
    private static let bought = HeldTransaction(id: id, until: 365, token: "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0")

    private static let fiveDays = 5 * Timestamp.millisecondsPerDay

    private static func stage() async throws -> (rig: ServiceRig, store: SimulatedStoreAPI) {
        let rig = try await ServiceRig.withCatalog(asksStore: true)
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let renewal = HeldRenewal(signed: 0.2)
        try await rig.notify(bought, renewal, uuid: "n1")
        try store.remember(bought.members, renewal.members)
        return (rig, store)
    }

    private static func body(days: Int = 5, again: Bool = false) -> String {
        #"{"days":\#(days),"reason_code":"service_issue","reason":"the outage","again":\#(again)}"#
    }

    @Test(
        "under an idempotency key days are given once, also where they were to be given again, and the answer is the same"
    )
    func idempotency() async throws {
        let (rig, store) = try await Self.stage()
        let body = Self.body(again: true)
        let first = try await rig.extend(Self.id, body, idempotencyKey: "k")
        #expect(first.status == 200, "\(first.text)")
        #expect(try first.json["extended_until"] != .null)
        let head = try await rig.head()
        for _ in 0..<3 {
            rig.clock.now = rig.clock.now.adding(milliseconds: 3_600_000)
            let again = try await rig.extend(Self.id, body, idempotencyKey: "k")
            #expect(again.status == 200 && again.text == first.text, "\(again.text)")
        }
        #expect(try await rig.head() == head && store.count(of: "extend") == 1)
        let other = try await rig.extend(Self.id, Self.body(days: 6, again: true), idempotencyKey: "k")
        #expect(other.verdict == "409 idempotency_conflict")
        #expect(store.count(of: "extend") == 1)
        #expect(try await rig.verdictOfVerify() == nil, "what the route writes is what the verifier takes from it")
    }

    @Test("whose the subscription is is not kept under a key, and the key goes when they are forgotten")
    func forgotten() async throws {
        let (rig, _) = try await Self.stage()
        _ = try await rig.extend(Self.id, Self.body(), idempotencyKey: "k")
        _ = try await rig.send(
            "POST", "/v1/subscriptions/\(Self.id)/actions/check", key: rig.admin, headers: [("Idempotency-Key", "c")],
            body: Array("{}".utf8))
        func kept() async throws -> [String] {
            try await rig.pool.withConnection { connection in
                try connection.query("SELECT convert_from(answer, 'UTF8') FROM command_key").rows
                    .map { try $0.text(0) }
            }
        }
        let token = try #require(Self.bought.token.flatMap { CustomerID($0) })
        let before = try await kept()
        #expect(before.count == 2 && !before.contains { $0.contains(token.value) }, "\(before)")
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: { .earliest })
        #expect(try await forgetter.forget(token) != nil)
        #expect(try await kept().isEmpty)
    }

    @Test(
        "what a service began under a key before it died is taken up: days are given once, and the answer is the same",
        arguments: [false, true])
    func died(again: Bool) async throws {
        let (rig, store) = try await Self.stage()
        let before = try await rig.expiry(of: Self.id)
        let body = Self.body(again: again)
        let first = try await rig.extend(Self.id, body, idempotencyKey: "k")
        #expect(first.status == 200, "\(first.text)")
        // As it stands where the service ends before the answer is kept.
        try await rig.pool.withConnection { try $0.execute(script: "UPDATE command_key SET answer = NULL") }
        for _ in 0..<2 {
            rig.wait(seconds: 3600)
            let second = try await rig.extend(Self.id, body, idempotencyKey: "k")
            #expect(second.status == 200 && second.text == first.text, "\(second.text)")
        }
        #expect(store.count(of: "extend") == 1)
        #expect(try await rig.expiry(of: Self.id).milliseconds - before.milliseconds == Self.fiveDays)
        #expect(try await rig.verdictOfVerify() == nil)
    }

    @Test("a command that takes up another's request gives days once, also where its answer was not kept")
    func takenUp() async throws {
        let (rig, store) = try await Self.stage()
        let before = try await rig.expiry(of: Self.id)
        store.failAlways(.truncated)
        #expect(try await rig.extend(Self.id, Self.body(), idempotencyKey: "k").status == 503)
        store.forgiveAll()
        rig.wait(seconds: 60)
        let first = try await rig.extend(Self.id, Self.body(again: true), idempotencyKey: "other")
        #expect(first.status == 200, "\(first.text)")
        // As it stands where the service ends before the answer is kept.
        try await rig.pool.withConnection { try $0.execute(script: "UPDATE command_key SET answer = NULL") }
        for _ in 0..<2 {
            rig.wait(seconds: 3600)
            let second = try await rig.extend(Self.id, Self.body(again: true), idempotencyKey: "other")
            #expect(second.status == 200 && second.text == first.text, "\(second.text)\n\(first.text)")
        }
        #expect(try await rig.expiry(of: Self.id).milliseconds - before.milliseconds == Self.fiveDays)
        #expect(try await rig.verdictOfVerify() == nil)
    }

    @Test("where the store's answer is lost, the same request asks again under the same name")
    func lostAnswer() async throws {
        let (rig, store) = try await Self.stage()
        let before = try await rig.expiry(of: Self.id)
        let body = Self.body(again: true)
        store.failAlways(.truncated)
        #expect(try await rig.extend(Self.id, body, idempotencyKey: "k").status == 503)
        store.forgiveAll()
        let answer = try await rig.extend(Self.id, body, idempotencyKey: "k")
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try answer.json["expires_at"] == .string(before.description), "as it was when this was sent first")
        #expect(try await rig.expiry(of: Self.id).milliseconds - before.milliseconds == Self.fiveDays)
        let other = try await rig.extend(Self.id, Self.body(days: 6, again: true), idempotencyKey: "k")
        #expect(other.verdict == "409 idempotency_conflict")
    }

    @Test("a plan says whose it is, and that it was extended a moment ago, unless it is wished for all the same")
    func plan() async throws {
        let (rig, _) = try await Self.stage()
        func plan(again: Bool) async throws -> String {
            let body = #"{"days":5,"reason_code":"other","reason":"r","dry_run":true,"again":\#(again)}"#
            let answer = try await rig.extend(Self.id, body, idempotencyKey: nil)
            #expect(try answer.json["customer_id"] == .string("0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"), "\(answer.text)")
            return answer.text
        }
        let doubt = "it was extended less than 24 hours ago"
        #expect(try await !plan(again: false).contains(doubt))
        #expect(try await rig.extend(Self.id, Self.body(), idempotencyKey: nil).status == 200)
        #expect(try await plan(again: false).contains(doubt))
        #expect(try await !plan(again: true).contains(doubt))
        rig.wait(seconds: 90_000)
        #expect(try await !plan(again: false).contains(doubt))
        // The page of whoever had it before is not to say that it is theirs.
        let body = #"{"original_transaction_id":"\#(Self.id)","to":"c-2"}"#
        #expect(try await rig.command("transfer", "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0", body).status == 200)
        let moved = try await rig.extend(
            Self.id, #"{"days":5,"reason_code":"other","reason":"r","dry_run":true}"#, idempotencyKey: nil)
        #expect(try moved.json["customer_id"] == .string("c-2"), "\(moved.text)")
    }

    @Test("what the store refused under a key stays refused, and another key asks again")
    func refused() async throws {
        let (rig, store) = try await Self.stage()
        store.failAlways(.status(403, code: 4_030_004))
        let first = try await rig.extend(Self.id, Self.body(), idempotencyKey: "k")
        store.forgiveAll()
        let second = try await rig.extend(Self.id, Self.body(), idempotencyKey: "k")
        for answer in [first, second] {
            #expect(answer.verdict == "422 unprocessable" && answer.text.contains("4030004"), "\(answer.text)")
        }
        #expect(second.text.contains("another Idempotency-Key") && store.count(of: "extend") == 0, "\(second.text)")
        #expect(try await rig.extend(Self.id, Self.body(), idempotencyKey: "other").status == 200)
    }

    @Test("a day later a key is free: it gives days anew, and has that answer from then on")
    func nextDay() async throws {
        let (rig, store) = try await Self.stage()
        let first = try await rig.extend(Self.id, Self.body(), idempotencyKey: "k")
        rig.wait(seconds: 90_000)
        let second = try await rig.extend(Self.id, Self.body(), idempotencyKey: "k")
        #expect(first.status == 200 && second.status == 200 && second.text != first.text, "\(second.text)")
        #expect(try await rig.extend(Self.id, Self.body(), idempotencyKey: "k").text == second.text)
        #expect(store.count(of: "extend") == 2)
    }

    @Test(
        "of several who give days at once one does, and nobody is answered that more were given", arguments: [nil, "k"])
    func atOnce(key: String?) async throws {
        let (rig, _) = try await Self.stage()
        let before = try await rig.expiry(of: Self.id)
        let answers = try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
            for _ in 0..<5 {
                group.addTask { try await rig.extend(Self.id, Self.body(), idempotencyKey: key) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.allSatisfy { [200, 422].contains($0.status) }, "\(answers.map(\.text))")
        #expect(answers.contains { $0.status == 200 })
        // Whoever finds a request of which nobody knows what came sends it again under its name, which the store carries out once.
        let after = try await rig.expiry(of: Self.id)
        #expect(after.milliseconds - before.milliseconds == Self.fiveDays, "\(answers.map(\.text))")
    }

    @Test("what the App Store cannot be asked about is said to be so: it is not unknown")
    func bought() async throws {
        let stripe = try await StripeRig.make()
        let invoice = StripeBody.event("invoice.paid", StripeBody.invoice("c-1"))
        #expect(try await stripe.deliver(invoice).status == 200)
        let refusal = try await stripe.rig.extend("sub_1", Self.body(), idempotencyKey: nil)
        #expect(refusal.verdict == "422 unprocessable", "\(refusal.text)")
        #expect(refusal.text.contains("sub_1 was bought on the web"), "the id as it is: \(refusal.text)")
        let unknown = try await stripe.rig.extend("sub_2", Self.body(), idempotencyKey: nil)
        #expect(unknown.verdict == "404 not_found", "\(unknown.text)")
    }
}

extension ServiceRig {
    fileprivate func extend(_ id: String, _ body: String, idempotencyKey: String?) async throws -> HTTPResponse {
        try await send(
            "POST", "/v1/subscriptions/\(id)/actions/extend", key: admin,
            headers: idempotencyKey.map { [("Idempotency-Key", $0)] } ?? [], body: Array(body.utf8))
    }

    /// When a subscription of one period runs out.
    fileprivate func expiry(of id: String) async throws -> Timestamp {
        let shown = try await get("/v1/subscriptions/\(id)").json
        guard case .string(let text)? = shown["periods"]?[0]?["expires_at"] else { throw CancellationError() }
        return try #require(Timestamp(rfc3339: text))
    }
}
