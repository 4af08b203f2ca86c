import EntitlementAPI
import EntitlementCore
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// What is asked of the store behind the service, without anybody's doing.
@Suite("Standing repair", .serialized, .timeLimit(.minutes(5)))
struct RepairTests {
    private static let token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"

    private static func monthly(_ id: String, from: Double, _ number: Int = 0) -> HeldTransaction {
        HeldTransaction(
            id: number == 0 ? id : "\(id)-\(number)", original: id, product: "com.example.pro.monthly", from: from,
            until: from + 30, signed: from, token: token, reason: number == 0 ? "PURCHASE" : "RENEWAL")
    }

    @Test("what is overdue is asked about once the history told nothing, and then it is not overdue any more")
    func overdue() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        for number in 1...5 {
            let id = "50\(number)"
            try await rig.notify(Self.monthly(id, from: 300), uuid: "n\(number)")
            // Two renewed and nobody said so, two expired, and one the store does not know any more.
            if number == 5 { continue }
            try store.remember(
                Self.monthly(id, from: 300).members, HeldRenewal(original: id, signed: 300, renews: number <= 2).members
            )
            if number <= 2 {
                try store.remember(
                    Self.monthly(id, from: 330, 1).members, HeldRenewal(original: id, signed: 330).members)
            }
        }
        #expect(try await healing.heal() == 0, "nothing is due yet")
        healing.pass(days: 6.7)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok")
        healing.pass(days: 0.1)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent 5 overdue")
        #expect(await healing.repairer().roundOfAll().contains(.checked(5)) == false, "the history comes first")
        let head = try await rig.head()
        #expect(try await healing.heal() == 5)
        let standing = try await healing.streams()[0]
        #expect(
            standing == "production silent 1 overdue", "repaired is not heard, nor settled what the store does not know"
        )
        let events = try await rig.get("/v1/events?after=\(head)").json["items"]
        #expect(events?.count == 4, "a renewal each, and that the others expired: \(String(describing: events))")
        #expect(try await rig.entitlements(Self.token).filter(\.givesAccess).count == 1)
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_store_checks_total{reason="overdue",outcome="recorded"} 4"#))
        #expect(metrics.contains(#"rightful_store_checks_total{reason="overdue",outcome="unknown"} 1"#))
        #expect(
            metrics.contains(
                #"rightful_stream_repaired{app="com.example.app",environment="production",source="app_store"} 4"#))
        let asked = store.count(of: "subscription_statuses")
        #expect(try await healing.heal() == 0 && store.count(of: "subscription_statuses") == asked)
        // What the store does not know is asked about again, ever more seldom.
        healing.pass(days: 0.26)
        #expect(try await healing.heal() == 1)
        healing.pass(days: 0.26)
        #expect(try await healing.heal() == 0)
        // The renewed ones are expected again a month later.
        healing.pass(days: 30)
        try await healing.look()
        let later = try await healing.streams()
        #expect(later[0].contains("3 overdue"), "\(later)")
    }

    @Test("a disputed revocation and a grace period without its end are asked about at once", arguments: [true, false])
    func atOnce(isDispute: Bool) async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        if isDispute {
            let refunded = Self.monthly("7", from: 300).with { ($0.revoked, $0.signed) = (310, 310) }
            try await rig.notify(refunded, uuid: "n1")
            let held = Self.monthly("7", from: 300).with { $0.signed = 311 }
            _ = try await rig.reconcile(Self.token, Posted(transactions: [try rig.sign(held)]))
            try store.remember(held.members)
        } else {
            try await rig.notify(
                Self.monthly("7", from: 290), HeldRenewal(original: "7", signed: 320), type: "DID_FAIL_TO_RENEW",
                uuid: "n1", subtype: "GRACE_PERIOD")
            try store.remember(
                Self.monthly("7", from: 290).members,
                HeldRenewal(original: "7", signed: 320, retry: true, graceEnd: 336).members)
            #expect(try await rig.holdings(Self.token) == ["premium in_billing_retry billing_retry"])
        }
        #expect(try await healing.heal() == 1)
        #expect(
            try await rig.holdings(Self.token)
                == [isDispute ? "premium active paid_period" : "premium in_grace_period grace_period"])
        #expect(try await healing.heal() == 0)
        let reason = isDispute ? "disputed" : "grace_without_end"
        #expect(
            try await rig.get("/metrics").text.contains(
                #"rightful_store_checks_total{reason="\#(reason)",outcome="recorded"} 1"#))
        // The device's word about the refund is no event of the stream: nothing was overdue.
        #expect(try await healing.streams()[0] == "production ok")
    }

    @Test("one process at a time repairs, and another goes on after it was killed")
    func leases() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        for number in 1...8 {
            let id = "60\(number)"
            try await rig.notify(Self.monthly(id, from: 290), uuid: "n\(number)")
            try store.remember(
                Self.monthly(id, from: 320, 1).members, HeldRenewal(original: id, signed: 320).members)
        }
        try await healing.sweep()
        try await healing.look()
        let stream = StoreStream(app: ServiceRig.bundleID, environment: .production)
        let killed = CheckRegister(pool: rig.pool, holder: "killed")
        #expect(try await killed.hold(stream))
        #expect(await healing.repairer().roundOfAll().contains(.elsewhere))
        #expect(store.count(of: "subscription_statuses") == 0)
        try await rig.pool.withConnection { connection in
            _ = try connection.query("UPDATE store_stream SET heartbeat_at = heartbeat_at - interval '31 seconds'")
        }
        // Several come at once: nobody is asked about twice.
        let repairers = (1...4).map { healing.repairer(holder: "process \($0)") }
        await withTaskGroup(of: Void.self) { group in
            for repairer in repairers { group.addTask { _ = await repairer.roundOfAll() } }
        }
        for repairer in repairers { _ = await repairer.roundOfAll() }
        #expect(store.count(of: "subscription_statuses") == 8)
        let head = try await rig.head()
        _ = try await healing.heal()
        #expect(try await rig.head() == head)
    }

    @Test("a store that cannot be asked is told in status, and what is due stays due")
    func failures() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.monthly("7", from: 290), uuid: "n1")
        try store.remember(Self.monthly("7", from: 320, 1).members)
        try await healing.sweep()
        try await healing.look()
        for _ in 0..<5 { store.fail(.status(401)) }
        #expect(await healing.repairer().roundOfAll().contains(.failed))
        store.forgiveAll()
        let stream = StoreStream(app: ServiceRig.bundleID, environment: .production)
        let register = StreamRegister(pool: rig.pool)
        #expect(try await register.standings(of: [stream], at: rig.clock.now)[0].checkError?.contains("401") == true)
        #expect(try await healing.streams()[0].contains("1 overdue"))
        #expect(try await healing.heal() == 1)
        let standing = try await register.standings(of: [stream], at: rig.clock.now)[0]
        #expect(standing.checkError == nil && standing.repaired == 1 && standing.overdue == 0)
    }

    @Test(
        "a 404 that does not say that a transaction is unknown is a failure: nobody counts as asked about",
        arguments: [nil, 4_040_006, 4_040_003] as [Int64?])
    func foreign404(code: Int64?) async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        for number in 1...3 {
            let id = "70\(number)"
            try await rig.notify(Self.monthly(id, from: 290), uuid: "n\(number)")
            try store.remember(
                Self.monthly(id, from: 320, 1).members, HeldRenewal(original: id, signed: 320).members)
        }
        try await healing.sweep()
        try await healing.look()
        store.failAlways(.status(404, code: code))
        let rounds = await healing.repairer().roundOfAll()
        #expect(rounds.contains(.failed), "\(rounds)")
        try await healing.look()
        #expect(try await healing.streams()[0].hasSuffix(" 3 overdue"), "nothing was repaired")
        let stream = StoreStream(app: ServiceRig.bundleID, environment: .production)
        let register = StreamRegister(pool: rig.pool)
        #expect(try await register.standings(of: [stream], at: rig.clock.now)[0].checkError?.isEmpty == false)
        #expect(try await !rig.get("/metrics").text.contains(#"outcome="unknown""#))
        store.forgiveAll()
        healing.pass(days: 0.02)
        #expect(try await healing.heal() == 3, "they are tried again within half an hour")
        let standing = try await register.standings(of: [stream], at: rig.clock.now)[0]
        #expect(standing.overdue == 0 && standing.checkError == nil, "\(standing)")
    }

    @Test("one that the store cannot be asked about is named and waits by itself; all others are repaired")
    func oneBad() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        for number in 1...12 {
            let id = "8\(number + 10)"
            // The bad one is the longest overdue.
            let from = number == 1 ? 280.0 : 290
            try await rig.notify(Self.monthly(id, from: from), uuid: "n\(number)")
            try store.remember(
                Self.monthly(id, from: from + 30, 1).members, HeldRenewal(original: id, signed: from + 30).members)
        }
        try await healing.sweep()
        try await healing.look()
        store.failAlways(.status(500, code: 5_000_000), about: "811")
        #expect(await healing.repairer().roundOfAll().contains(.checked(12)))
        try await healing.look()
        let stream = StoreStream(app: ServiceRig.bundleID, environment: .production)
        let register = StreamRegister(pool: rig.pool)
        var standing = try await register.standings(of: [stream], at: rig.clock.now)[0]
        #expect(standing.overdue == 1 && standing.repaired == 11, "\(standing)")
        #expect(standing.checkError?.contains("811") == true, "\(standing.checkError ?? "no error")")
        #expect(await healing.repairer().roundOfAll().contains(.checked(0)), "it waits")
        healing.pass(days: 0.02)
        #expect(await healing.repairer().roundOfAll().contains(.checked(1)))
        healing.pass(days: 0.02)
        store.forgiveAll()
        #expect(try await healing.heal() == 1)
        standing = try await register.standings(of: [stream], at: rig.clock.now)[0]
        #expect(standing.overdue == 0 && standing.repaired == 12 && standing.checkError == nil, "\(standing)")
    }

    @Test(
        "where the history of notifications cannot be read, the store is asked all the same", arguments: [true, false])
    func withoutHistory(isFailing: Bool) async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.monthly("7", from: 300), uuid: "n1")
        try store.remember(Self.monthly("7", from: 330, 1).members, HeldRenewal(original: "7", signed: 330).members)
        healing.pass(days: 6.8)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production silent 1 overdue")
        if isFailing {
            store.failAlways(.status(500), about: "notifications")
            _ = try? await healing.sweep()
        } else {
            #expect(!(await healing.repairer().roundOfAll().contains(.checked(1))), "the history comes first")
            healing.pass(days: 0.09)
        }
        #expect(await healing.repairer().roundOfAll().contains(.checked(1)))
        #expect(try await rig.holdings(Self.token) == ["premium active paid_period"])
    }

    @Test("what the store itself confirms is not overdue any more, though it told nothing new")
    func confirmed() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.monthly("7", from: 290), uuid: "n1")
        // It expired; of its renewal the store says nothing.
        try store.remember(Self.monthly("7", from: 290).members)
        try await healing.sweep()
        try await healing.look()
        #expect(try await healing.streams()[0].hasSuffix(" 1 overdue"))
        let head = try await rig.head()
        #expect(await healing.repairer().roundOfAll().contains(.checked(1)))
        #expect(try await rig.head() == head)
        #expect(try await healing.streams()[0] == "production ok")
        // It is asked again all the same.
        healing.pass(days: 0.26)
        #expect(try await healing.heal() == 1)
    }

    @Test("eight are asked about at the same time, and never more")
    func width() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        for number in 1...30 {
            let id = "8\(number + 10)"
            try await rig.notify(Self.monthly(id, from: 290), uuid: "n\(number)")
            try store.remember(
                Self.monthly(id, from: 320, 1).members, HeldRenewal(original: id, signed: 320).members)
        }
        try await healing.sweep()
        try await healing.look()
        let before = store.mostInFlight
        #expect(before == 1, "the history is read page by page")
        // The first answer comes only when seven others are asked for, and each takes a while.
        store.gather(8)
        store.slow(milliseconds: 20)
        #expect(await healing.repairer().roundOfAll().contains(.checked(30)))
        #expect(store.mostInFlight == 8)
        try await healing.look()
        #expect(try await healing.streams()[0] == "production ok")
    }

    @Test("what is asked about at once comes before everything that is overdue")
    func urgentFirst() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        for number in 1...8 {
            try await rig.notify(Self.monthly("90\(number)", from: 290), uuid: "n\(number)")
        }
        try await rig.notify(Self.monthly("7", from: 300).with { ($0.revoked, $0.signed) = (310, 310) }, uuid: "n9")
        let held = Self.monthly("7", from: 300).with { $0.signed = 311 }
        _ = try await rig.reconcile(Self.token, Posted(transactions: [try rig.sign(held)]))
        rig.wait(seconds: 1)
        try await healing.sweep()
        try await healing.look()
        let stream = StoreStream(app: ServiceRig.bundleID, environment: .production)
        let due = try await CheckRegister(pool: rig.pool, holder: "x").due(stream, now: rig.clock.now, limit: 4)
        #expect(due.map(\.reason) == [.disputed, .overdue, .overdue, .overdue])
    }

    @Test("nobody who was forgotten is asked about")
    func forgotten() async throws {
        let healing = try await HealingRig.make()
        let rig = healing.rig
        let store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        try await rig.notify(Self.monthly("7", from: 290), uuid: "n1")
        try store.remember(Self.monthly("7", from: 320, 1).members)
        try await rig.database.owner().query("DELETE FROM identity WHERE value = $1", [.text(Self.token)])
        try await healing.heal()
        #expect(store.count(of: "subscription_statuses") == 0)
        #expect(try await healing.streams()[0] == "production ok")
    }
}
