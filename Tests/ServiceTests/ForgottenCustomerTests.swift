import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

/// Somebody who was forgotten may go on using the app, and what they pay for.
@Suite("A forgotten customer who comes back")
struct ForgottenCustomerTests {
    private static let customer = "0a000000-0000-4000-8000-00000000000a"

    private static func forget(_ customer: String, _ rig: ServiceRig) async throws {
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: { .earliest })
        let id = try #require(CustomerID(customer))
        #expect(try await forgetter.forget(id) != nil)
    }

    @Test("what they bought is theirs again as soon as their device posts it, by the same signed statement")
    func sameStatement() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(token: Self.customer, appTransaction: "704")
        let posted = Posted(transactions: [try rig.sign(held)], appTransaction: try rig.signAppTransaction("704"))
        let key = try await rig.publishableKey()
        try await rig.notify(held, HeldRenewal(), uuid: "n-1")
        let before = try await rig.answer(Self.customer, posted, key: rig.token(Self.customer))
        #expect(before.entitlements.first?.givesAccess == true)
        try await rig.writeViews()

        try await Self.forget(Self.customer, rig)
        #expect(try await rig.entitlements(Self.customer).isEmpty)
        let head = try await rig.head()
        let after = try await rig.answer(Self.customer, posted, key: rig.token(Self.customer))
        #expect(after.held == before.held && after.finish == [held.id], "\(after)")
        #expect(try await rig.entitlements(Self.customer).first?.givesAccess == true)
        #expect(try await rig.entitlements(Self.customer, "?known_at=\(head)").isEmpty, "then they were nobody")
        let again = try await rig.answer(Self.customer, posted, key: rig.token(Self.customer))
        #expect(again.verdicts == ["known"] && again.held == before.held)
        #expect(try await rig.verdictOfVerify() == nil)

        // By the app transaction alone, without a login, it is the same.
        try await Self.forget(Self.customer, rig)
        _ = try await rig.answer("apple:704", posted, key: key)
        #expect(try await rig.entitlements(Self.customer).first?.givesAccess == true)
    }

    @Test("a purchase that was theirs by a claim is theirs again, and nobody else's whose it says it is")
    func claimed() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction()
        let posted = Posted(transactions: [try rig.sign(held)])
        let first = try await rig.answer("bob-77", posted, key: rig.token("bob-77"))
        #expect(first.entitlements.first?.givesAccess == true)
        try await Self.forget("bob-77", rig)
        _ = try await rig.answer("bob-77", posted, key: rig.token("bob-77"))
        // The clock stands still, and it is theirs from an instant behind it.
        rig.clock.now = rig.clock.now.adding(milliseconds: 1000)
        let again = try await rig.answer("bob-77", posted, key: rig.token("bob-77"))
        #expect(again.entitlements.first?.givesAccess == true && again.finish == [held.id], "\(again)")
        // It has an owner again, whom nobody replaces.
        let other = try await rig.answer("eve", posted, key: rig.token("eve"))
        #expect(other.entitlements.isEmpty && other.verdicts == ["conflict ownership_conflict"])
        #expect(try await rig.verdictOfVerify() == nil)

        // Somebody with an older copy of what names a forgotten person does not get that.
        let named = HeldTransaction(id: "2000000000000002", signed: 5, token: Self.customer)
        let copy = try rig.sign(named.with { $0.signed = 1 })
        try await rig.notify(named, uuid: "n-2")
        try await Self.forget(Self.customer, rig)
        let thief = try await rig.answer("eve", Posted(transactions: [copy]), key: rig.token("eve"))
        #expect(thief.entitlements.isEmpty && thief.finish.isEmpty, "\(thief)")
    }

    @Test("a customer with an issued token is issued another, and the purchase that bears the first can be linked")
    func issuedToken() async throws {
        let rig = try await ServiceRig.withCatalog()
        func issue() async throws -> String {
            guard
                case .string(let token) = try await rig.send("POST", "/v1/customers/ann/tokens", key: rig.admin)
                    .json["app_account_token"]
            else { throw TestFailure("no account token") }
            return token
        }
        let first = try await issue()
        let held = HeldTransaction(token: first)
        try await rig.notify(held, uuid: "n-1")
        #expect(try await rig.entitlements("ann").first?.givesAccess == true)
        try await Self.forget("ann", rig)
        #expect(try await issue() != first)
        let posted = Posted(transactions: [try rig.sign(held)])
        _ = try await rig.answer("ann", posted, key: rig.token("ann"))
        #expect(try await rig.entitlements("ann").isEmpty, "nobody knows any more that it was theirs")
        #expect(try await rig.link(first, to: "ann").status == 200)
        #expect(try await rig.entitlements("ann").first?.givesAccess == true)
    }

    /// A purchase of the customer's that was transferred to `bob` a minute ago, and the event that says so.
    private static func transferred() async throws -> (rig: ServiceRig, original: String, position: Int64) {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(token: customer)
        try await rig.notify(held, uuid: "n-1")
        let transfer = try await rig.transfer(held.id, from: customer, to: "bob").json["position"]
        guard case .int(let position) = transfer else { throw TestFailure("no transfer") }
        rig.wait(seconds: 60)
        return (rig, held.id, position)
    }

    @Test("a transfer to somebody who is forgotten can be undone by the giver, and another transfer says so")
    func transferredToForgotten() async throws {
        let (rig, original, position) = try await Self.transferred()
        try await Self.forget("bob", rig)
        let refused = try await rig.transfer(original, from: Self.customer, to: "carol")
        #expect(refused.verdict == "409 ownership_conflict", "\(refused.text)")
        #expect(refused.text.contains("transfer at position \(position)"), "\(refused.text)")
        let dry = try await rig.command("transfer", Self.customer, #"{"undo":\#(position),"dry_run":true}"#)
        let head = try await rig.head()
        #expect(dry.status == 200, "\(dry.text)")
        let undone = try await rig.command("transfer", Self.customer, #"{"undo":\#(position)}"#)
        #expect(undone.status == 200 && undone.text.contains(#""from":null"#), "\(undone.text)")
        #expect(try undone.json["to"] == dry.json["to"] && undone.json["to"]?["customer_id"] == .string(Self.customer))
        #expect(try await rig.head() == head + 1)
        rig.wait(seconds: 1)
        #expect(try await rig.entitlements(Self.customer).first?.givesAccess == true)
        #expect(try await rig.verdictOfVerify() == nil)
    }

    @Test("a transfer by somebody who is forgotten is not undone: nobody would have it then")
    func transferredByForgotten() async throws {
        let (rig, _, position) = try await Self.transferred()
        try await Self.forget(Self.customer, rig)
        let head = try await rig.head()
        for flag in ["", #","dry_run":true"#] {
            let answer = try await rig.command("transfer", "bob", #"{"undo":\#(position)\#(flag)}"#)
            #expect(answer.verdict == "409 ownership_conflict", "\(answer.text)")
        }
        #expect(try await rig.head() == head)
        #expect(try await rig.entitlements("bob").first?.givesAccess == true)
    }

    @Test("the idempotency keys of commands about them go, whatever these became, and nobody else's")
    func keys() async throws {
        let (rig, original, position) = try await Self.transferred()
        func key(_ answer: HTTPResponse) throws -> Int64 {
            guard case .int(let position)? = try answer.json["position"] else { throw TestFailure(answer.text) }
            return position
        }
        _ = try key(try await rig.command("transfer", Self.customer, #"{"undo":\#(position)}"#, idempotencyKey: "undo"))
        rig.wait(seconds: 60)
        _ = try key(try await rig.transfer(original, from: Self.customer, to: "bob", idempotencyKey: "away"))
        let linked = try key(try await rig.link("nick", to: Self.customer, idempotencyKey: "link"))
        _ = try key(try await rig.command("link", Self.customer, #"{"undo":\#(linked)}"#, idempotencyKey: "apart"))
        // Nobody is known by what becomes no event.
        let stranger = "0c000000-0000-4000-8000-00000000000c"
        for (customer, key) in [(stranger, "token"), ("bob", "of-bob")] {
            let answer = try await rig.send(
                "POST", "/v1/customers/\(customer)/tokens", key: rig.admin, headers: [("Idempotency-Key", key)])
            #expect(answer.status == 200)
        }
        try await Self.forget(Self.customer, rig)
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: { .earliest })
        #expect(try await forgetter.forget(try #require(CustomerID(stranger))) == nil)
        let left = try await rig.pool.withConnection { connection in
            try connection.query("SELECT command_key FROM command_key").rows.map { try $0.text(0) }
        }
        #expect(left.count == 1 && left[0].hasSuffix(rig.context.sha256(Array("of-bob".utf8)).hex), "\(left)")
    }
}
