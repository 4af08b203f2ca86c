import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import Testing

@testable import Service

/// The alarm when the store's notifications do not arrive.
@Suite("The silence alarm", .serialized, .timeLimit(.minutes(5)))
struct SilenceTests {
    /// A monthly subscription that began so many days before the rig's noon, which is day 323.5.
    private static func bought(_ id: String, from: Double, environment: String = "Production") -> HeldTransaction {
        HeldTransaction(
            id: id, product: "com.example.pro.monthly", from: from, until: from + 30, signed: from,
            environment: environment)
    }

    @Test("without credentials the alarm names exactly the streams that are silent")
    func exactly() async throws {
        let healing = try await HealingRig.make(asksStore: false, hasOtherApp: true)
        let rig = healing.rig
        // Each app in each environment has subscribers, of whom one renews in time and the other is not heard of again.
        for (number, app) in [ServiceRig.bundleID, ServiceRig.otherBundleID].enumerated() {
            for environment in ["Production", "Sandbox"] {
                for part in 0...1 {
                    let transaction = Self.bought(
                        "\(number)\(environment.count)\(part)", from: 300, environment: environment
                    )
                    .with { $0.bundleID = app }
                    try await rig.notify(transaction, uuid: "n-\(transaction.id)")
                }
            }
        }
        try await healing.look()
        #expect(try await healing.streams() == ["production ok", "sandbox ok"])
        healing.pass(days: 6.6)
        // The first app's production goes on to be heard.
        try await rig.notify(
            HeldTransaction(
                id: "0100x", original: "0100", product: "com.example.pro.monthly", from: 330, until: 360,
                signed: 330.05, reason: "RENEWAL"), type: "DID_RENEW", uuid: "r1")
        healing.pass(days: 0.3)
        try await healing.look()
        #expect(try await healing.streams() == ["production ok 1 overdue", "sandbox silent 2 overdue"])
        #expect(
            try await healing.streams(of: ServiceRig.otherBundleID)
                == ["production silent 2 overdue", "sandbox silent 2 overdue"])
        let item = try await rig.get("/v1/streams").json["items"]?[2]
        #expect(item?["oldest_overdue_at"] == .string(day(330).description) && item?["source"] == .string("app_store"))
        #expect(item?["sweep"]?["state"] == .string("unconfigured"))
        guard case .object(let members) = item else { throw TestFailure("no item") }
        #expect(
            Set(members.keys) == [
                "app", "environment", "source", "last_heard_at", "silent", "overdue", "oldest_overdue_at", "sweep",
            ])
        // The sandbox wakes nobody.
        let alarms = rig.log.lines.filter { $0.contains("do not arrive") }
        #expect(alarms.count == 3)
        #expect(
            alarms.filter { $0.contains(#""level":"warning""#) }.allSatisfy { $0.contains(ServiceRig.otherBundleID) })
        #expect(alarms.count { $0.contains(#""level":"warning""#) } == 1)
        let page = try await rig.get("/metrics").text
        #expect(
            page.contains(
                #"rightful_stream_silent{app="com.example.other",environment="production",source="app_store"} 1"#))
        #expect(
            page.contains(
                #"rightful_stream_silent{app="com.example.app",environment="production",source="app_store"} 0"#))
        #expect(
            page.contains(
                #"rightful_stream_overdue{app="com.example.app",environment="production",source="app_store"} 1"#))

        // A key of one app or environment hears of that alone.
        let bound = try await rig.keys.create(name: "x", scopes: [.eventsRead], bundleID: ServiceRig.bundleID).secret
        #expect(try await healing.streams(of: ServiceRig.otherBundleID, key: bound) == [])
        #expect(try await healing.streams(key: bound).count == 2)
        let sandbox = try await rig.keys.create(name: "s", scopes: [.eventsRead], environment: .sandbox).secret
        #expect(try await healing.streams(key: sandbox) == ["sandbox silent 2 overdue"])

        // Somebody is heard again: the stream lives, and what was missed stays overdue.
        let other = Self.bought("1108", from: 329).with { $0.bundleID = ServiceRig.otherBundleID }
        try await rig.notify(other, uuid: "late")
        try await healing.look()
        #expect(try await healing.streams(of: ServiceRig.otherBundleID)[0] == "production ok 2 overdue")
        #expect(rig.log.lines.contains { $0.contains("arrive again") && $0.contains(ServiceRig.otherBundleID) })
    }

    @Test("a delivery of what was known already is a sign of life")
    func duplicates() async throws {
        let healing = try await HealingRig.make(asksStore: false)
        let rig = healing.rig
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        healing.pass(days: 8)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent 1 overdue")
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok 1 overdue")
    }

    @Test(
        "what was found in the store's history and never arrived shows that the webhook is dead, though all is repaired"
    )
    func deadWebhook() async throws {
        let healing = try await HealingRig.make(hasCanary: true)
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        try await healing.heal()
        #expect(try await healing.streams()[0] == "production ok")
        for renewal in 0..<3 {
            healing.pass(days: 7 + 23 * Double(min(renewal, 1)))
            let from = 330 + 30 * Double(renewal)
            try store.send(
                "DID_RENEW", uuid: "renewal-\(renewal)",
                HeldTransaction(
                    id: "1-\(renewal)", original: "1", product: "com.example.pro.monthly", from: from,
                    until: from + 30, signed: from, reason: "RENEWAL"
                ).members)
            healing.pass(days: 0.2)
            try await healing.heal()
            // What was just sent may still be on its way, and nothing is overdue.
            let standing = try await healing.streams()[0]
            #expect(standing == (renewal == 0 ? "production ok" : "production silent"), "renewal \(renewal)")
        }
        #expect(store.count(of: "test_notification") > 0, "a canary was sent")
        // It arrives, and all is well.
        let test = try #require(store.sentPayloads.last)
        #expect(try await rig.deliver(test).status == 200)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok")
    }

    @Test("a quiet stream is asked for a sign of life once a day, by one process; one that does not come is an alarm")
    func canary() async throws {
        let healing = try await HealingRig.make(hasCanary: true)
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        let other = HealingRig(rig, hasCanary: true)
        try await rig.notify(HeldTransaction.lifetime("1"), uuid: "n1")
        try await healing.look()
        #expect(store.count(of: "test_notification") == 0)
        healing.pass(days: 1.1)
        try await healing.look()
        try await other.look()
        #expect(store.count(of: "test_notification") == 1)
        healing.pass(days: 0.005)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok", "it may take some minutes")
        healing.pass(days: 0.02)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent")
        let test = try #require(store.sentPayloads.last)
        #expect(try await rig.deliver(test).status == 200)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok")
    }

    @Test("an error of the store says nothing of its notifications, and the next attempt is made within minutes")
    func canaryFails() async throws {
        let healing = try await HealingRig.make(hasCanary: true)
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(HeldTransaction.lifetime("1"), uuid: "n1")
        healing.pass(days: 1.1)
        store.fail(.status(503), .status(503), .status(503), .status(503), .status(503))
        try await healing.look()
        let failed = store.count(of: "test_notification")
        store.forgiveAll()
        try await healing.look()
        #expect(store.count(of: "test_notification") == failed, "not at once")
        #expect(try await healing.standing().canaryError != nil)
        healing.pass(days: 0.02)
        try await healing.look()
        #expect(store.count(of: "test_notification") == failed + 1)
        #expect(try await healing.standing().canaryError == nil)
        #expect(try await healing.streams()[0] == "production ok")
    }

    @Test("where App Store Connect has no URL nothing can arrive: that is silence, whatever is repaired meanwhile")
    func noURL() async throws {
        let healing = try await HealingRig.make(hasCanary: true)
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(HeldTransaction.lifetime("1"), uuid: "n1")
        try await healing.look()
        for day in 1...16 {
            healing.pass(days: 1.05)
            store.fail(.status(404, code: 4_040_007))
            try await healing.look()
            store.forgiveAll()
            #expect(try await healing.streams()[0] == "production silent", "day \(day)")
        }
        #expect(rig.log.lines.contains { $0.contains("do not arrive") && $0.contains("4040007") })
        #expect(!rig.log.lines.contains { $0.contains("notifications arrive") })
        // Whoever mends it asks for a test notification, which comes.
        try store.send("TEST", uuid: "t", HeldTransaction.lifetime("2").members)
        #expect(try await rig.deliver(try #require(store.sentPayloads.last)).status == 200)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok")
        #expect(rig.log.lines.contains { $0.contains("notifications arrive") })
    }

    @Test("what was overdue and is repaired leaves the stream silent until the store is heard again")
    func repairedIsNotHeard() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        try store.remember(Self.bought("1", from: 300).members)
        let renewal = HeldTransaction(
            id: "2", original: "1", product: "com.example.pro.monthly", from: 330, until: 360, signed: 330,
            reason: "RENEWAL")
        // Known to the store, and in no history of notifications: there is no URL to send to.
        try store.remember(renewal.members)
        healing.pass(days: 7)
        #expect(try await healing.heal() == 1)
        #expect(try await healing.streams()[0] == "production silent")
        healing.pass(days: 15)
        try await healing.heal()
        #expect(try await healing.streams()[0] == "production silent")
        #expect(!rig.log.lines.contains { $0.contains("notifications arrive") })
        // A second one that is never answered does not hide it either.
        try await rig.notify(Self.bought("9", from: 340), uuid: "n9")
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok")
        #expect(rig.log.lines.contains { $0.contains("notifications arrive") })
    }

    @Test("a test notification that never came is not forgotten when the next one is asked for")
    func secondCanary() async throws {
        let healing = try await HealingRig.make(hasCanary: true)
        let rig = healing.rig
        try await rig.notify(HeldTransaction.lifetime("1"), uuid: "n1")
        for _ in 0..<8 {
            healing.pass(days: 1.01)
            try await healing.look()
            healing.pass(days: 0.02)
            try await healing.look()
            #expect(try await healing.streams()[0] == "production silent")
        }
        healing.pass(days: 0.3)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent", "another was just asked for")
        #expect(!rig.log.lines.contains { $0.contains("notifications arrive") })
    }

    @Test("some that are overdue while others arrive are told too, in other words")
    func partialLoss() async throws {
        let healing = try await HealingRig.make(asksStore: false)
        let rig = healing.rig
        for number in 1...10 { try await rig.notify(Self.bought("\(number)", from: 300), uuid: "n\(number)") }
        try await healing.look()
        healing.pass(days: 7)
        try await rig.notify(
            HeldTransaction(
                id: "1x", original: "1", product: "com.example.pro.monthly", from: 330, until: 360, signed: 330.4,
                reason: "RENEWAL"), type: "DID_RENEW", uuid: "r1")
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok 9 overdue")
        #expect(
            rig.log.lines.contains {
                $0.contains(#""level":"warning""#) && $0.contains("some of the store's notifications did not arrive")
                    && $0.contains(#""overdue":9"#)
            })
    }

    @Test("nothing is said before it has been so for a while: after an outage of one's own the history is read first")
    func patience() async throws {
        let healing = try await HealingRig.make(asksStore: false, patience: .seconds(600))
        let rig = healing.rig
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        healing.pass(days: 8)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent 1 overdue", "whoever looks sees it at once")
        #expect(!rig.log.lines.contains { $0.contains("do not arrive") })
    }

    @Test("what was heard while a clock was ahead hides nothing, and the next delivery counts again")
    func clockAhead() async throws {
        let healing = try await HealingRig.make(asksStore: false)
        let rig = healing.rig
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        healing.pass(days: 20)
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok 1 overdue")
        healing.pass(days: -12)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent 1 overdue")
        healing.pass(days: 0.1)
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok 1 overdue")
        let heard = try #require(try await healing.standing().lastHeardAt)
        #expect(abs(heard.milliseconds - rig.clock.now.milliseconds) < 60_000)
    }

    @Test("two apps that sell a product of the same id are told apart, also in what was missed")
    func sameProduct() async throws {
        let healing = try await HealingRig.make(hasOtherApp: true)
        let rig = healing.rig
        for (number, app) in [ServiceRig.bundleID, ServiceRig.otherBundleID].enumerated() {
            let first = Self.bought("\(number)1", from: 300).with { $0.bundleID = app }
            try await rig.notify(first, uuid: "n\(number)")
        }
        healing.pass(days: 6.6)
        for (number, app) in [ServiceRig.bundleID, ServiceRig.otherBundleID].enumerated() {
            try rig.asked?[app, .production]?.send(
                "DID_RENEW", uuid: "r\(number)",
                HeldTransaction(
                    id: "\(number)2", original: "\(number)1", product: "com.example.pro.monthly", from: 330, until: 360,
                    signed: 330, reason: "RENEWAL"
                ).with { $0.bundleID = app }.members)
        }
        healing.pass(days: 0.3)
        try await healing.heal()
        #expect(try await healing.streams()[0] == "production silent")
        #expect(try await healing.streams(of: ServiceRig.otherBundleID)[0] == "production silent")
    }

    @Test("what the store signed and the configuration refuses is told where it seems that nothing arrives")
    func refused() async throws {
        let healing = try await HealingRig.make(asksStore: false)
        let rig = healing.rig
        try await rig.notify(Self.bought("1", from: 300), uuid: "n1")
        healing.pass(days: 8)
        for number in 2...4 {
            let foreign = try rig.store.sign(
                .object([
                    "notificationType": .string("TEST"), "notificationUUID": .string("n\(number)"),
                    "version": .string("2.0"), "signedDate": .integer(rig.clock.now.milliseconds),
                    "data": .object(["environment": .string("Production"), "bundleId": .string("com.example.none")]),
                ]))
            #expect(try await rig.deliver(foreign).verdict == "403 unknown_app")
        }
        try await healing.look()
        #expect(rig.log.lines.count { $0.contains("is refused, and perhaps others") } == 1, "once an hour")
        #expect(rig.log.lines.contains { $0.contains("do not arrive") && $0.contains("unknown_app") })
    }

    @Test("what the views say is derived again from the log, and a life known only from devices is watched too")
    func derived() async throws {
        let healing = try await HealingRig.make(asksStore: false)
        let rig = healing.rig
        let held = Self.bought("1", from: 300)
        _ = try await rig.reconcile("c-1", Posted(transactions: [try rig.sign(held)]))
        healing.pass(days: 7)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent 1 overdue")
        try await rig.pool.withConnection { connection in
            _ = try connection.query("DELETE FROM store_watch")
            _ = try connection.query("DELETE FROM store_stream")
            _ = try connection.query("DELETE FROM projection WHERE name = 'watch'")
        }
        #expect(try await healing.streams()[0] == "production ok")
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent 1 overdue")
        // Half a year later nobody expects it any more.
        healing.pass(days: 181)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok")
    }
}
