import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// Each class of differences, made by the requests that lead to it.
@Suite("Differences between device, ledger and store", .serialized, .timeLimit(.minutes(5)))
struct DriftClassTests {
    private static let customer = Purchase.customer
    private static let pro = "com.example.pro.yearly"
    private static let monthly = "com.example.pro.monthly"

    private static func claims(
        _ state: EntitlementState, _ until: Double? = nil, product: String = pro
    ) -> Posted {
        Posted(claims: [.init(productID: product, state: state, until: until.map { day($0) })])
    }

    private static func month(_ number: Int, revoked: Double? = nil, signed: Double? = nil) -> HeldTransaction {
        let from = 280 + 30 * Double(number)
        return HeldTransaction(
            id: "9-\(number)", original: "9-0", product: monthly, from: from, until: from + 30, signed: signed ?? from,
            token: customer, revoked: revoked, reason: number == 0 ? "PURCHASE" : "RENEWAL")
    }

    @Test("late_notification: the device knew of a renewal first, and then the notification came")
    func late() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(Self.month(0), uuid: "n0")
        _ = try await rig.answer(Self.customer, Self.claims(.active, 340, product: Self.monthly))
        #expect(try await rig.differences() == ["unexplained device_ledger open"])
        let open = try await rig.drift()
        let head = try await rig.head()
        #expect(open.unexplained == 1 && open.readTo == head)
        let item = try #require(open.items.first)
        #expect(item.customerID == Self.customer && item.productID == Self.monthly && item.app == ServiceRig.bundleID)
        #expect(
            item.originalTransactionID == "9-0" && item.claimed?.state == .active && item.claimed?.until == day(340))
        #expect(item.actual?.state == .expired)
        try await rig.notify(Self.month(1), type: "DID_RENEW", uuid: "n1")
        #expect(try await rig.differences() == ["late_notification device_ledger by notification"])
        let resolved = try await rig.drift()
        #expect(resolved.unexplained == 0)
        #expect(resolved.items.first?.resolved?.position == head + 1)
        #expect(
            resolved.items.first?.position == item.position && resolved.items.first?.explanation != item.explanation)
    }

    @Test("missed_event: a sweep finds what never arrived, for the device and for the store")
    func missed() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        // What the store had sent before the ledger listened is history.
        let history = HeldTransaction.lifetime("55", token: "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0")
        rig.clock.now = day(279)
        try store.send("ONE_TIME_CHARGE", uuid: "h", history.members)
        rig.clock.now = day(323.5)
        let first = Self.month(1)
        try await rig.notify(first, uuid: "n1")
        rig.clock.now = day(341)
        try store.send("DID_RENEW", uuid: "n2", Self.month(2).members)
        _ = try await rig.answer(Self.customer, Self.claims(.active, 370, product: Self.monthly))
        #expect(try await rig.differences() == ["unexplained device_ledger open"])
        rig.wait(seconds: 60)
        try await healing.sweep()
        #expect(
            try await rig.differences() == [
                "missed_event device_ledger by store_answer", "missed_event store_ledger by store_answer",
            ])
        let found = try #require(try await rig.drift().items.last)
        #expect(found.resolved?.position == found.position && found.claimed == nil && found.actual == nil)
        #expect(found.customerID == Self.customer && found.originalTransactionID == "9-0")
        #expect(try await rig.drift().unexplained == 0)
        try await rig.expectSameDriftAnew(pageEvents: 1)
    }

    @Test("missed_event: a check finds a renewal; late_notification, when it is delivered after all")
    func checked() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.month(1), uuid: "n1")
        rig.clock.now = day(341)
        try store.remember(Self.month(1).members)
        try store.remember(Self.month(2).members, HeldRenewal(original: "9-0", signed: 340).members)
        let check = try await rig.send(
            "POST", "/v1/subscriptions/9-0/actions/check", key: rig.admin, body: Array("{}".utf8))
        #expect(check.status == 200, "\(check.text)")
        #expect(try await rig.differences() == ["missed_event store_ledger by store_answer"])
        let found = try #require(try await rig.drift().items.first)
        try await rig.notify(Self.month(2), type: "DID_RENEW", uuid: "n2")
        #expect(try await rig.differences() == ["late_notification store_ledger by store_answer"])
        #expect(try await rig.drift().items.first?.resolved == found.resolved)
        try await rig.expectSameDriftAnew(pageEvents: 1)
    }

    @Test("a purchase that the store cannot be asked about keeps no other waiting, and is asked about again later")
    func stubborn() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let people = [Self.customer, "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"]
        for (number, person) in people.enumerated() {
            let held = HeldTransaction(
                id: "7\(number)", product: Self.monthly, from: 300, until: 330, signed: 300, token: person)
            try await rig.notify(held, uuid: "n\(number)")
            try store.remember(held.members)
            _ = try await rig.answer(person, Self.claims(.active, 350, product: Self.monthly))
        }
        try await rig.tellApart()
        #expect(try await rig.drift().unexplained == 2)
        store.failAlways(.status(500, code: 5_000_000), about: "70")
        let first = try await healing.driftChecks.askAll()
        #expect(first.asked == 1 && first.failed == 1 && first.outage == nil, "the other one was asked about")
        store.failAlways(nil, about: "70")
        #expect(try await healing.driftChecks.askAll().asked == 0, "not at once")
        try await rig.pool.withConnection { connection in
            _ = try connection.query("UPDATE drift SET asked_at = asked_at - interval '61 minutes'")
        }
        #expect(try await healing.driftChecks.askAll().asked == 1, "the first one again, and nobody else")
    }

    @Test("stale_device: a refund the device has not heard of, until it agrees; an agreement is recorded once")
    func stale() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(Self.month(1), uuid: "n1")
        try await rig.notify(Self.month(1, revoked: 315, signed: 315), type: "REFUND", uuid: "n2")
        _ = try await rig.answer(Self.customer, Self.claims(.active, 340, product: Self.monthly))
        #expect(try await rig.differences() == ["stale_device device_ledger open"])
        let head = try await rig.head()
        for _ in 0..<3 {
            let answer = try await rig.answer(Self.customer, Self.claims(.revoked, product: Self.monthly))
            #expect(answer.drift.isEmpty)
        }
        #expect(try await rig.head() == head + 1, "an agreement is told once")
        #expect(try await rig.differences() == ["stale_device device_ledger by agreement"])
        // A device that goes on saying otherwise is another difference; within a day no agreement follows it.
        for _ in 0..<3 {
            _ = try await rig.answer(Self.customer, Self.claims(.active, 340, product: Self.monthly))
            _ = try await rig.answer(Self.customer, Self.claims(.revoked, product: Self.monthly))
        }
        #expect(try await rig.head() == head + 2)
        #expect(
            try await rig.differences()
                == ["stale_device device_ledger by agreement", "stale_device device_ledger open"])
        rig.clock.now = rig.clock.now.adding(milliseconds: Timestamp.millisecondsPerDay + 1000)
        _ = try await rig.answer(Self.customer, Self.claims(.revoked, product: Self.monthly))
        #expect(try await rig.differences("resolved=false").isEmpty)
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_device_drift_total{outcome="agreed"} 2"#))
    }

    @Test("unexplained: a refund that a device's newer statement contradicts, until the store settles it")
    func contradicted() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(Self.month(1), uuid: "n1")
        try await rig.notify(Self.month(1, revoked: 315, signed: 315), type: "REFUND", uuid: "n2")
        var posted = Self.claims(.active, 340, product: Self.monthly)
        posted.transactions = [try rig.sign(Self.month(1, signed: 318))]
        _ = try await rig.answer(Self.customer, posted)
        #expect(try await rig.differences() == ["unexplained device_ledger open"])
        #expect(try await rig.drift().items.first?.explanation.hasSuffix("ask the store.") == true)
        let explained = try await rig.get("/v1/customers/\(Self.customer)/explain").text
        #expect(explained.contains("which a device brought, knows nothing of that, so the store is to be asked"))
        try await rig.expectSameDriftAnew(pageEvents: 1)
        try await rig.notify(Self.month(1, signed: 318), type: "REFUND_REVERSED", uuid: "n3")
        #expect(try await rig.differences() == ["late_notification device_ledger by notification"])
        try await rig.expectSameDriftAnew(pageEvents: 1)
    }

    @Test("a newer report about a product stands for the older one")
    func newer() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(Self.month(1), uuid: "n1")
        for until in [350.0, 351, 352] {
            _ = try await rig.answer(Self.customer, Self.claims(.active, until, product: Self.monthly))
        }
        #expect(
            try await rig.differences() == [
                "unexplained device_ledger by newer_report", "unexplained device_ledger by newer_report",
                "unexplained device_ledger open",
            ])
        #expect(try await rig.drift().unexplained == 1)
    }

    @Test("ownership: what bears another customer's token, until a transfer or a link; and what was transferred away")
    func ownership() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(token: Self.customer, appTransaction: "704")
        try await rig.notify(held, uuid: "n1")
        let other = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        var posted = Self.claims(.active, 365)
        posted.transactions = [try rig.sign(held)]
        _ = try await rig.answer(other, posted)
        #expect(try await rig.differences() == ["ownership device_ledger open"])
        let body = #"{"original_transaction_id":"\#(held.id)","to":"\#(other)"}"#
        let transfer = try await rig.send(
            "POST", "/v1/customers/\(Self.customer)/actions/transfer", key: rig.admin, body: Array(body.utf8))
        #expect(transfer.status == 200, "\(transfer.text)")
        #expect(try await rig.differences() == ["ownership device_ledger by ownership"])
        // The device of the first one still believes to have it.
        _ = try await rig.answer(Self.customer, Self.claims(.active, 365))
        #expect(
            try await rig.differences()
                == ["ownership device_ledger by ownership", "ownership device_ledger open"])
        try await rig.expectSameDriftAnew(pageEvents: 1)
    }

    @Test("ownership: a device that was right once its customer was linked")
    func linked() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(HeldTransaction(appTransaction: "704"), uuid: "n1")
        _ = try await rig.answer("c-7", Self.claims(.active, 365))
        #expect(try await rig.differences() == ["unexplained device_ledger open"])
        let link = try await rig.send(
            "POST", "/v1/customers/c-7/actions/link", key: rig.admin, body: Array(#"{"app_transaction_id":"704"}"#.utf8)
        )
        #expect(link.status == 200, "\(link.text)")
        #expect(try await rig.differences() == ["ownership device_ledger by ownership"])
        try await rig.expectSameDriftAnew(pageEvents: 1)
    }

    @Test("environment: a device that asks production about what it has in the sandbox")
    func environment() async throws {
        let rig = try await ServiceRig.withCatalog()
        let sandbox = HeldTransaction(token: Self.customer, environment: "Sandbox")
        try await rig.notify(sandbox, uuid: "n1")
        _ = try await rig.answer(Self.customer, Self.claims(.active, 365))
        #expect(try await rig.differences() == ["environment device_ledger open"])
        #expect(try await rig.drift("environment=sandbox").items.isEmpty)
        // Nobody who is bound to one environment hears what is in the other.
        let bound = try await rig.keys.create(name: "p", scopes: [.eventsRead], environment: .production).secret
        #expect(try await rig.drift(key: bound).items.isEmpty)
        #expect(try await rig.drift("class=environment", key: bound).items.isEmpty)
    }

    @Test(
        "the store is asked about what nothing explains: what it confirms is a stale device, what it tells was missed")
    func asked() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.month(1), uuid: "n1")
        try store.remember(Self.month(1).members)
        let claim = Self.claims(.active, 377, product: Self.monthly)
        _ = try await rig.answer(Self.customer, claim)
        #expect(try await rig.differences() == ["unexplained device_ledger open"])
        #expect(try await healing.driftChecks.askAll().asked == 1)
        #expect(try await rig.differences() == ["stale_device device_ledger open"])
        // Neither is the same said again by the device at each launch, nor asked again.
        let head = try await rig.head()
        _ = try await rig.answer(Self.customer, claim)
        #expect(try await rig.head() == head)
        #expect(try await healing.driftChecks.askAll().asked == 0)
        // The store knows of a refund that nobody told.
        _ = try await rig.answer(Self.customer, Self.claims(.revoked, product: Self.monthly))
        #expect(try await rig.differences().last == "unexplained device_ledger open")
        rig.clock.now = day(324)
        try store.remember(Self.month(1, revoked: 323.2, signed: 323.3).members)
        #expect(try await healing.driftChecks.askAll().asked == 1)
        #expect(
            try await rig.differences() == [
                "stale_device device_ledger by newer_report", "missed_event device_ledger by store_answer",
                "missed_event store_ledger by store_answer",
            ])
        #expect(try await rig.get("/metrics").text.contains(#"store_checks_total{reason="drift",outcome="known"} 1"#))
        try await rig.expectSameDriftAnew(pageEvents: 1)
    }

    @Test("unexplained: an end that nothing ever said, until the customer is forgotten")
    func unexplained() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(Self.month(1), uuid: "n1")
        _ = try await rig.answer(Self.customer, Self.claims(.active, 377, product: Self.monthly))
        #expect(try await rig.differences() == ["unexplained device_ledger open"])
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: { day(330) })
        #expect(try await forgetter.forget(try #require(CustomerID(Self.customer))) != nil)
        #expect(try await rig.differences() == ["unexplained device_ledger by forgotten"])
        let list = try await rig.get("/v1/drift").text
        #expect(!list.contains(Self.customer) && list.contains(#""customer_id":null"#), "\(list)")
        #expect(try await rig.drift().unexplained == 0)
        try await rig.expectSameDriftAnew(pageEvents: 1)
        #expect(try await !rig.driftRows().contains { $0.contains(Self.customer) })
    }
}
