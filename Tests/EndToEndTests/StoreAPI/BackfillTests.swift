import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// What never arrived is read from the store, by commands and behind the service.
@Suite("Missed notifications", .serialized, .timeLimit(.minutes(5)))
struct BackfillTests {
    /// Which deliveries are dropped.
    enum Loss: String, CaseIterable, Sendable {
        case everything, eachThird, production, sandbox, halfAtRandom, oneStretch, oneWeek, renewalsOfOne
    }

    /// Lives that end four days ago.
    ///
    /// Were some of it still to come, the store would tell of it beforehand when the service asks about what is overdue.
    private struct Past {
        let notifications: [StoreNotification]
        let customers: [(key: CustomerKey, record: CustomerRecord)]

        init(seed: UInt64, customers count: Int) {
            let lives = StoreLife.recent(seed: seed, customers: count, until: StoreAPIStage.now)
            notifications = lives.flatMap(\.notifications).sorted { $0.signedDate < $1.signedDate }
            customers = lives.flatMap { life in
                life.record.customers.map { ($0, life.record.customer($0)) }
            }
        }

        /// Lives of both environments, so that each has something to lose.
        static func ofBoth(seed: UInt64) -> Past {
            var seed = seed
            while true {
                let past = Past(seed: seed, customers: 6)
                let count = past.notifications.count { $0.environment == .sandbox }
                if count > 5, count < past.notifications.count - 5 { return past }
                seed += 100
            }
        }
    }

    @Test("whatever was dropped, after a backfill every answer equals the store's record", arguments: Loss.allCases)
    func losses(loss: Loss) async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        try await stage.awaitSweeps()
        let client = HTTPClient(service.url, key: key)
        let seed = UInt64(1000 * (1 + (Loss.allCases.firstIndex(of: loss) ?? 0)))
        let life = Past.ofBoth(seed: seed)
        var random = SplitMix64(seed: seed)
        var dropped = 0
        let middle = life.notifications[life.notifications.count / 2].signedDate
        let week = middle - 3 * Span.day..<middle + 4 * Span.day
        // Whoever renews most often.
        let renewals = Dictionary(grouping: life.notifications.filter { $0.type == "DID_RENEW" }) {
            $0.originalTransactionID
        }
        let renewed = renewals.max { ($0.value.count, $0.key ?? "") < ($1.value.count, $1.key ?? "") }?.key
        for (index, notification) in life.notifications.enumerated() {
            let payload = try stage.send(notification)
            let isLost =
                switch loss {
                case .everything: true
                case .eachThird: index % 3 == 0
                case .production, .sandbox: notification.environment.rawValue == loss.rawValue
                case .oneWeek: week.contains(notification.signedDate)
                case .renewalsOfOne: notification.type == "DID_RENEW" && notification.originalTransactionID == renewed
                case .halfAtRandom: random.chance(50)
                case .oneStretch: (life.notifications.count / 3..<2 * life.notifications.count / 3).contains(index)
                }
            if isLost {
                dropped += 1
            } else {
                #expect(try await client.notify(payload).status == 200)
            }
        }
        #expect(dropped > 1, "seed \(seed) \(loss)")
        let before = try await client.head()
        let output = try await installation.rightful("backfill")
        #expect(try await client.head() == before + Int64(dropped), "\(output)")
        #expect(output.components(separatedBy: "\n").count == 3, "a line for each environment: \(output)")
        for (customer, record) in life.customers {
            try await client.expectRecord(record, of: customer, "seed \(seed) \(loss)")
        }
        let events = try await client.events(after: before)
        #expect(events.allSatisfy { $0["source"] as? String == "app_store_api" })

        // Again: everything is known.
        let again = try await installation.rightful("backfill", "--since", "2026-01-01T00:00:00Z")
        #expect(again.contains(" 0 were missing"), "\(again)")
        // The store tries again, later.
        for notification in life.notifications.suffix(3) where notification.transaction != nil {
            #expect(
                try await client.notify(try stage.installation.authority.sign(notification)).status != 200,
                "another authority")
        }
        #expect(try await client.head() == before + Int64(dropped))
        #expect(try await installation.rightful("verify").contains("verified"))
        await stage.remove()
    }

    @Test("a service that starts after an outage heals by itself, also when it is killed while it reads")
    func outage() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let life = Past(seed: 11, customers: 60)
        for notification in life.notifications { _ = try stage.send(notification) }
        let pages = SimulatedStoreEnvironment.allCases.map { environment in
            let count = life.notifications.count { $0.environment == environment }
            return max(1, (count + SimulatedStoreAPI.pageSize - 1) / SimulatedStoreAPI.pageSize)
        }
        try #require(pages[0] >= 10)
        // Killed in the middle of it, with pages that take their time.
        for _ in 0..<pages[0] { stage.production.fail(.slow(milliseconds: 100)) }
        let killed = try await ServiceProcess.start(installation)
        while stage.production.count(of: "notification_history") < 4 { try await Task.sleep(for: .milliseconds(20)) }
        killed.killWithoutWarning()
        #expect(stage.production.count(of: "notification_history") < pages[0])
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        // Whoever was killed keeps the lease for half a minute.
        try await stage.awaitSweeps()
        for (customer, record) in life.customers {
            try await client.expectRecord(record, of: customer, "seed 11")
        }
        let asked = stage.production.count(of: "notification_history")
        #expect(
            asked <= 2 * pages[0] + 2, "once, the page that was cut off, and the overlap: \(asked) of \(pages[0])")
        await stage.remove()
    }

    @Test("wrong credentials, outages of the store and forged answers are told in status, and the service goes on")
    func failures() async throws {
        let wrong = try await StoreAPIStage(hasWrongKey: true)
        var service = try await ServiceProcess.start(wrong.installation)
        var sweep = try await wrong.sweep(.production) { $0["state"] as? String == "failing" }
        #expect(sweep["state"] as? String == "failing")
        #expect(
            (sweep["last_error"] as? String)?.contains("issuer_id, key_id and private_key_path") == true, "\(sweep)")
        #expect(try await HTTPClient(service.url).send("GET", "/readyz").status == 200)
        let table = try await wrong.installation.rightful("status").split(separator: "\n").filter {
            $0.hasPrefix("to look at")
        }
        #expect(
            table.contains { $0.contains("production: the store's history cannot be read") }
                && !table.contains { $0.contains("nothing") }, "\(table)")
        let (status, _, errors) = try await wrong.installation.run(["backfill"])
        #expect(status == 1 && errors.contains("(401)") && errors.split(separator: "\n").count == 1, "\(errors)")
        service.stop()
        await wrong.remove()

        let stage = try await StoreAPIStage()
        let life = StoreLife.random(seed: 3, customers: 3)
        for notification in life.notifications { _ = try stage.send(notification) }
        // A page whose signatures are all wrong, and then good ones: nothing of it becomes a fact.
        stage.production.fail(.forged)
        service = try await ServiceProcess.start(stage.installation)
        try await stage.awaitSweeps()
        sweep = try #require(try await stage.sweeps()["production"])
        let count = life.notifications.count { $0.environment == .production }
        #expect(sweep["refused"] as? Int == min(count, SimulatedStoreAPI.pageSize), "\(sweep)")
        #expect(sweep["recorded"] as? Int == max(0, count - SimulatedStoreAPI.pageSize), "\(sweep)")
        #expect(service.logText.contains("notifications of the store's history are refused"))
        // When the cause is mended, what was refused is read again from the date that is told.
        let from = try #require(sweep["refused_from"] as? String)
        try await stage.installation.rightful("backfill", "--since", from)
        sweep = try #require(try await stage.sweeps()["production"])
        #expect(
            sweep["refused_from"] is NSNull && sweep["recorded"] as? Int == min(count, SimulatedStoreAPI.pageSize),
            "\(sweep)")
        service.stop()
        await stage.remove()
    }

    /// What a store may do instead of answering.
    @Test(
        "a store that answers anything but pages costs a bounded time and memory, and nothing is called known",
        arguments: [
            "same", "circle", "endless", "no-token", "nothing", "huge-token", "large", "drip", "silent",
        ])
    func hostileStore(_ mode: String) async throws {
        let server = try HostileStore(mode)
        let installation = try await Installation(settings: ["apps": [server.app]])
        let service = try await ServiceProcess.start(installation)
        try await Task.sleep(for: .seconds(2))
        let start = ContinuousClock.now
        #expect(service.stop() == 0)
        #expect(start.duration(to: .now) < .seconds(6), "\(mode): a slow store keeps nobody from stopping")
        #expect(server.asked < 60, "\(mode): \(server.asked) requests in two seconds")
        let text = try await installation.rightful("status", "--json")
        #expect(!text.contains("\"state\":\"idle\"") && !text.contains("\"state\":\"running\""), "\(mode): \(text)")
        #expect(!text.contains("\"completed_until\":\"2"), "\(mode): \(text)")
        installation.remove()
        server.stop()
    }

    @Test("a test notification is asked for, delivered and found; one that does not arrive is told so")
    func testNotification() async throws {
        let stage = try await StoreAPIStage()
        let service = try await ServiceProcess.start(stage.installation)
        defer { service.stop() }
        try await stage.awaitSweeps()
        let command = ["test-notification", "--app", stage.installation.world.bundleID, "--environment", "sandbox"]
        async let running = stage.installation.run(command)
        let payload = try await StoreAPIStage.testNotification(of: stage.sandbox)
        #expect(try await HTTPClient(service.url).notify(payload).status == 200)
        let (status, output, errors) = try await running
        #expect(status == 0 && output.contains("arrived, and is event"), "\(output) \(errors)")

        let (lost, _, complaint) = try await stage.installation.run(command)
        #expect(lost == 1 && complaint.contains("compare the URL in App Store Connect"), "\(complaint)")
        let (unknown, _, reason) = try await stage.installation.run(["test-notification", "--app", "com.example.none"])
        #expect(unknown == 1 && reason.contains("is not configured, or has no app_store_api"), "\(reason)")
        await stage.remove()
    }

    @Test("a backfill without credentials, or of an app that is not configured, says what is missing")
    func unconfigured() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let (status, _, errors) = try await installation.run(["backfill"])
        #expect(status == 1 && errors.contains("no app has app_store_api"), "\(errors)")
        let (usage, _, complaint) = try await installation.run(["backfill", "--since", "yesterday"])
        #expect(usage == 2 && complaint.contains("RFC 3339"), "\(complaint)")
    }
}
