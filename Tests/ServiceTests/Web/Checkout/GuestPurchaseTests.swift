import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Purchases on the web that name nobody", .timeLimit(.minutes(5)))
struct GuestPurchaseTests {
    private static let body = #"{"original_transaction_id":"sub_1","to":"g-1","reason":"receipt in ticket 7"}"#
    private static let open = ["web_checkout active"]

    /// A subscription without our metadata, as a Payment Link sells it.
    private static func rig() async throws -> StripeRig {
        let stripe = try await StripeRig.make()
        #expect(try await stripe.deliver(event("evt_guest", nobodys(StripeBody.invoice("x")))).status == 200)
        return stripe
    }

    private static func nobodys(_ object: String) -> String { object.replacing("rightful_customer_id", with: "user") }

    private static func event(_ id: String, _ invoice: String) -> String {
        StripeBody.event("invoice.paid", invoice, id: id)
    }

    private static func give(_ stripe: StripeRig, _ body: String = body, to customer: String = "g-1") async throws
        -> HTTPResponse
    {
        try await stripe.rig.command("transfer", customer, body)
    }

    private static func exported(_ customer: String, _ stripe: StripeRig) async throws -> CustomerExport? {
        try await stripe.rig.context.reader.export(
            of: try #require(CustomerID(customer)), environments: [.production])
    }

    @Test("they are given to a customer by a transfer that is addressed to them, which is told, exported and undone")
    func given() async throws {
        let stripe = try await Self.rig()
        let rig = stripe.rig
        #expect(try await stripe.access("g-1") == [])
        let head = try await rig.head
        let dry = try await Self.give(stripe, Self.body.replacing("}", with: #","dry_run":true}"#))
        #expect(dry.status == 200, "\(dry.text)")
        #expect(try dry.json["from"] == .null && dry.json["position"] == .null)
        #expect(try ServiceRig.side(dry.json, "to", "after") == ["premium active paid_period"])
        #expect(try await rig.head == head, "a dry run does nothing")
        #expect(try await stripe.access("g-1") == [])

        let answer = try await Self.give(stripe)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try answer.json["from"] == .null && answer.json["to"]?["customer_id"] == .string("g-1"))
        #expect(try ServiceRig.side(answer.json, "to", "before") == [])
        #expect(try ServiceRig.side(answer.json, "to", "after") == ["premium active paid_period"])
        rig.wait()
        #expect(try await stripe.access("g-1") == Self.open)
        #expect(try await stripe.access("g-1", knownAt: Int(head)) == [], "what was answered once")
        let subscription = try await rig.get("/v1/subscriptions/sub_1").json
        #expect(subscription["claimed"] == .bool(true))
        #expect(subscription["periods"]?[0]?["customer_id"] == .string("g-1"))
        #expect(
            try await rig.get("/v1/customers?transaction_id=sub_1").json["items"]?[0]?["customer_id"] == .string("g-1"))
        let facts = try await rig.get("/v1/events/\(head + 1)").json["facts"]
        #expect(facts?["from_nobody"] == .bool(true) && facts?["reason"] == .string("receipt in ticket 7"))
        #expect(facts?["actor"] == .string("admin"), "\(String(describing: facts?["actor"]))")
        let events = try await rig.get("/v1/customers/g-1/events").json["items"]
        #expect(events?.count == 2, "the purchase and the transfer")
        #expect(try await Self.exported("g-1", stripe)?.items.filter { $0.evidence != nil }.count == 1)
        let summary = try await stripe.verify()
        #expect(summary.isProven)

        let undone = try await rig.command("transfer", "g-1", #"{"undo":\#(head + 1)}"#)
        #expect(undone.status == 200, "\(undone.text)")
        #expect(try undone.json["from"]?["customer_id"] == .string("g-1") && undone.json["to"] == .null)
        rig.wait()
        #expect(try await rig.holdings("g-1") == ["premium expired owned_by_another"])
        #expect(try await rig.get("/v1/subscriptions/sub_1").json["claimed"] == .bool(false))
        let export = try #require(try await Self.exported("g-1", stripe))
        #expect(export.items.allSatisfy { $0.evidence == nil }, "whose address it is nobody knows now")
        #expect(try await Self.give(stripe, Self.body.replacing("g-1", with: "g-2"), to: "g-2").status == 200)
        rig.wait()
        #expect(try await stripe.access("g-2") == Self.open)
        // Views are disposable.
        try await rig.writeViews()
        _ = try await rig.deleteViews()
        #expect(try await stripe.access("g-2") == Self.open)
    }

    @Test("one-time payments, and what is not paid yet, are given, too; the receiver may be unknown or an alias")
    func others() async throws {
        let stripe = try await StripeRig.make()
        let session = Self.nobodys(StripeBody.session("x", reference: "x"))
            .replacing(#""client_reference_id":"x""#, with: #""client_reference_id":null"#)
        #expect(
            try await stripe.deliver(StripeBody.event("checkout.session.completed", session, id: "evt_s")).status == 200
        )
        let unpaid = Self.nobodys(StripeBody.subscription(status: "incomplete"))
        #expect(
            try await stripe.deliver(StripeBody.event("customer.subscription.created", unpaid, id: "evt_u")).status
                == 200)
        _ = try await stripe.rig.link("alias", to: "g-1")
        for (original, receiver) in [("pi_9", "alias"), ("sub_1", "g-1")] {
            let body = #"{"original_transaction_id":"\#(original)","to":"\#(receiver)"}"#
            let answer = try await Self.give(stripe, body)
            #expect(answer.status == 200, "\(answer.text)")
        }
        stripe.rig.wait()
        #expect(try await stripe.access("g-1") == Self.open)
        #expect(try await stripe.rig.get("/v1/subscriptions/sub_1").json["claimed"] == .bool(true))
        let later = Self.event("evt_paid", Self.nobodys(StripeBody.invoice("x")))
        #expect(try await stripe.deliver(later).status == 200)
        #expect(
            try await stripe.rig.get("/v1/subscriptions/sub_1").json["periods"]?[0]?["customer_id"] == .string("g-1"))
    }

    @Test(
        "nobody is given what is somebody's, by a key of one app nothing; for another it is not the customer's to give")
    func refused() async throws {
        let stripe = try await Self.rig()
        let rig = stripe.rig
        let bound = try await rig.keys.create(name: "x", scopes: [.admin], bundleID: ServiceRig.bundleID).secret
        #expect(try await rig.command("transfer", "g-1", Self.body, key: bound).verdict == "403 forbidden")
        let other = try await Self.give(stripe, to: "g-2")
        #expect(other.verdict == "409 ownership_conflict" && other.text.contains("addressed to them"), "\(other.text)")
        #expect(!other.text.contains("reconciles"), "no device ever claims what Stripe sold")
        try await rig.buy("300", by: nil)
        let apple = try await Self.give(stripe, Self.body.replacing("sub_1", with: "300"))
        #expect(apple.status == 200 && apple.text.contains(#""from":null"#), "what the App Store sold is given alike")
        #expect(try await stripe.deliver(Self.event("evt_named", StripeBody.invoice("h-1"))).status == 200)
        let late = try await Self.give(stripe)
        #expect(late.verdict == "409 ownership_conflict" && late.text.contains("another customer's"), "\(late.text)")
        #expect(try await stripe.access("h-1") == Self.open)
    }

    @Test("whom Stripe names afterwards gets nothing silently: it is counted, told to both, and settled by a transfer")
    func namedLater() async throws {
        let stripe = try await Self.rig()
        let rig = stripe.rig
        #expect(try await Self.give(stripe).status == 200)
        rig.wait()
        #expect(try await stripe.deliver(Self.event("evt_named", StripeBody.invoice("h-1"))).status == 200)
        #expect(try await stripe.access("g-1") == Self.open)
        #expect(try await rig.holdings("h-1") != ["premium active paid_period"])
        #expect(try await rig.get("/metrics").text.contains("rightful_ownership_conflicts_total 1\n"))
        func told(_ customer: String) async throws -> String {
            let conflict = try await rig.get("/v1/customers/\(customer)/explain").json["conflicts"]?[0]?["sentence"]
            guard case .string(let sentence)? = conflict else { return "" }
            return sentence
        }
        #expect(try await told("g-1").contains("it was given to this one before, as nobody's"))
        #expect(try await told("h-1").contains("it was given to another before, as nobody's"))
        // The same name again is no other conflict.
        #expect(try await stripe.deliver(Self.event("evt_again", StripeBody.invoice("h-1"))).status == 200)
        #expect(try await rig.get("/metrics").text.contains("rightful_ownership_conflicts_total 1\n"))
        #expect(try await rig.transfer("sub_1", from: "g-1", to: "h-1").status == 200)
        rig.wait()
        #expect(try await stripe.access("h-1") == Self.open)
        for customer in ["g-1", "h-1"] { #expect(try await told(customer) == "") }
    }

    @Test("where Stripe names somebody while it is decided, it is decided anew")
    func race() async throws {
        let stripe = try await Self.rig()
        let key = OriginalKey(environment: .production, originalTransactionID: "sub_1")
        let position = try await stripe.rig.head
        func draft(_ condition: UnchangedSince) -> EventDraft {
            EventDraft(
                environment: .production, source: .api, occurredAt: nil,
                fact: .transfer(
                    TransferFact(originalTransactionID: "sub_1", customer: IdentityRef(0), hadNoOwner: true)),
                identities: ["g-1"], deduplication: .unique, unchangedSince: condition)
        }
        #expect(try await stripe.deliver(Self.event("evt_named", StripeBody.invoice("h-1"))).status == 200)
        let writer = stripe.rig.ledger.writer
        await #expect(throws: AppendRefusal.conflict) {
            try await writer.append(draft(UnchangedSince(position, originals: [key], lives: [key])))
        }
        let outcome = try await writer.append(draft(UnchangedSince(position, originals: [key])))
        #expect(outcome.position == position + 2, "a transfer of somebody's rests on less")
    }

    @Test("whoever was given a guest purchase can be forgotten with its evidence, and it can be given again")
    func forgotten() async throws {
        let stripe = try await Self.rig()
        #expect(try await Self.give(stripe).status == 200)
        let forgetter = Forgetter(pool: PostgresPool(stripe.rig.database.ownerConninfo), now: { .earliest })
        let outcome = try await forgetter.forget(try #require(CustomerID("g-1")))
        #expect(outcome?.evidence == 1)
        stripe.rig.wait()
        #expect(try await stripe.access("g-1") == [])
        let again = try await Self.give(stripe, Self.body.replacing("g-1", with: "g-2"), to: "g-2")
        #expect(try again.status == 200 && again.json["from"] == .null, "\(again.text)")
        stripe.rig.wait()
        #expect(try await stripe.access("g-2") == Self.open)
        #expect(try await stripe.verify().erasedEvidence == 1)
    }
}
