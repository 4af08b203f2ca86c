import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// What was sold by a team's own server, or is named in a team's own list alone.
@Suite("Stripe's payments without a checkout, and lists of owners", .timeLimit(.minutes(5)))
struct StripePaymentImportTests {
    private static let lifetime = "com.example.lifetime"

    @Test("a payment that a server of one's own made is imported where it names the customer, once, with its refund")
    func ownServer() async throws {
        let rig = try await StripeAccountRig()
        let named = ["rightful_customer_id": "c-1", "rightful_product_id": Self.lifetime]
        let paid = try await rig.charge(named)
        try await rig.charge(["rightful_customer_id": "c-2", "rightful_product_id": Self.lifetime], isPaid: false)
        let refunded = try await rig.charge(["rightful_customer_id": "c-3", "rightful_product_id": Self.lifetime])
        rig.account.act(.refund, on: refunded)
        let nameless = try await rig.charge(["rightful_customer_id": "c-4"])
        try await rig.charge(["order": "a mug"])
        try await rig.sell(SimulatedShop.lifetime, to: "c-5")
        try await rig.sell(to: "c-6")
        // Long after Stripe forgot its events.
        rig.advance(100 * 86_400_000)
        let report = try await rig.imported()
        #expect(report.standing.failed.isEmpty && report.standing.refused == 0, "\(report)")
        #expect(report.nameless == 1 && report.namelessIDs == [nameless] && report.standing.unowned == 0, "\(report)")
        let expected = [
            "c-1": ["web_checkout active"], "c-2": [], "c-3": ["web_checkout revoked"], "c-4": [],
            "c-5": ["web_checkout active"], "c-6": ["web_checkout active"],
        ]
        for (customer, held) in expected.sorted(by: { $0.key < $1.key }) {
            #expect(try await rig.stripe.access(customer) == held, "\(customer)")
        }
        let period = try await rig.rig.get("/v1/subscriptions/\(paid)").json["periods"]?[0]
        #expect(period?["product_id"] == .string(Self.lifetime), "\(String(describing: period))")
        let head = try await rig.stripe.head()
        let again = try await rig.imported()
        #expect(again.recorded == 0 && again.nameless == 1, "\(again)")
        let checked = try await rig.check(paid)
        #expect(checked.status == 200 && checked.json["agrees"] == .bool(true), "\(checked.text)")
        #expect(try await rig.stripe.head() == head)
        #expect(try await rig.stripe.verify().isProven)
        await rig.stop()
    }

    @Test("a payment for a subscription's invoice is no purchase of its own, whatever its metadata names")
    func ofSubscription() async throws {
        let rig = try await StripeAccountRig()
        let subscription = try await rig.sell(to: "c-1")
        let payments = try await rig.ask("GET", "payment_intents")["data"]
        guard case .string(let intent)? = payments?[0]?["id"] else { throw CancellationError() }
        _ = try await rig.ask(
            "POST", "payment_intents/\(intent)",
            ["metadata[user_id]": "c-2", "metadata[rightful_product_id]": Self.lifetime])
        let report = try await rig.imported(ownerMetadata: "user_id")
        #expect(report.standing.unowned == 0 && report.nameless == 0, "\(report)")
        #expect(try await rig.stripe.access("c-1") == ["web_checkout active"])
        #expect(try await rig.stripe.access("c-2") == [])
        #expect(try await rig.rig.get("/v1/subscriptions/\(intent)").status == 404)
        #expect(try await rig.imported(ownerMetadata: "user_id").recorded == 0)
        let checked = try await rig.check(intent)
        #expect(checked.json["original_transaction_id"] == .string(subscription), "\(checked.text)")
        #expect(try await rig.stripe.verify().isProven)
        await rig.stop()
    }

    @Test(
        "a list of one's own says whose it is where Stripe names nobody: by subscription, payment, or Stripe's customer"
    )
    func owners() async throws {
        let rig = try await StripeAccountRig()
        let first = try await rig.sell()
        let second = try await rig.sell(of: ["plan": "x"])
        let third = try await rig.sell(of: ["plan": "x"])
        let once = try await rig.sell(SimulatedShop.lifetime)
        let own = try await rig.charge(["order": "17"])
        let named = try await rig.sell(to: "c-6")
        let nobodys = try await rig.sell()
        let plain = try await rig.imported()
        #expect(plain.standing.unowned == 5, "\(plain)")
        let owners = [
            OwnerLine(first, "c-1"), OwnerLine(try await rig.payer(of: second), #"c "2"\"#),
            // Of two the one of the subscription itself counts.
            OwnerLine(try await rig.payer(of: third), "c-7"), OwnerLine(third, "c-3"), OwnerLine(once, "c-4"),
            OwnerLine(own, "c-5", Self.lifetime), OwnerLine(named, "c-eight"),
        ]
        // What breaks off goes on with the same list.
        rig.account.failAlways(.status(503), about: "invoices")
        await #expect(throws: (any Error).self) { try await rig.imported(owners: owners) }
        rig.account.failAlways(nil, about: "invoices")
        let asked = rig.account.asked.count
        let report = try await rig.imported(owners: owners)
        #expect(!rig.account.asked.dropFirst(asked).contains("GET /v1/payment_intents"))
        #expect(report.standing.unowned == 1 && report.standing.failed.isEmpty, "\(report)")
        let customers = [first: "c-1", second: #"c "2"\"#, third: "c-3", once: "c-4", own: "c-5", named: "c-6"]
        for (purchase, customer) in customers {
            let owner = try await rig.rig.get("/v1/subscriptions/\(purchase)").json["periods"]?[0]?["customer_id"]
            #expect(owner == .string(customer), "\(purchase): \(String(describing: owner))")
        }
        for customer in ["c-1", "c-3", "c-4", "c-5", "c-6"] {
            #expect(try await rig.stripe.access(customer) == ["web_checkout active"], "\(customer)")
        }
        for nobody in ["c-7", "c-eight"] { #expect(try await rig.stripe.access(nobody) == [], "\(nobody)") }
        let left = try await rig.rig.get("/v1/subscriptions/\(nobodys)").json["periods"]?[0]?["customer_id"]
        #expect(left == .null)
        let owner = try await rig.rig.database.owner()
        func kept(_ name: String) async throws -> Int64 {
            try await owner.run { connection in
                try connection.query(
                    "SELECT count(*) FROM evidence WHERE position(convert_to($1, 'UTF8') IN parts) > 0", [.text(name)]
                ).row(0).int(0)
            }
        }
        #expect(try await kept(#""customer_id":"c-5""#) > 0)
        #expect(try await kept("c-eight") == 0, "whom the list names beside somebody whom Stripe names")
        #expect(try await rig.imported(owners: owners).recorded == 0)
        // Neither the refund's event nor the payment says whose that was.
        rig.account.act(.refund, on: own)
        let event = try #require(rig.account.events().last { $0.type == "refund.created" })
        #expect(try await rig.stripe.deliver(String(decoding: event.json(.recent).json, as: UTF8.self)).status == 200)
        #expect(try await rig.stripe.access("c-5") == ["web_checkout revoked"])
        // What the list alone says Stripe does not.
        #expect(try await rig.check(own).json["agrees"] == .null)
        #expect(try await rig.imported().recorded == 0, "without the list nothing is taken away again")
        #expect(try await rig.stripe.verify().isProven)
        await rig.stop()
    }
}
