import Foundation
import StoreSimulator
import Testing

/// A service that notices by itself what it does not hear, and asks for it.
@Suite("A ledger that heals itself", .serialized, .timeLimit(.minutes(5)))
struct HealingTests {
    @Test("after a week without webhook the service reads what it missed, and says that the webhook is still dead")
    func week() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let lives = (70..<100).map { StoreAPIStage.lifeUntilNow(seed: $0) }
            .filter { $0.world.start > SimulatedAuthority.validity.lowerBound }
        let outage = StoreAPIStage.now - 11 * Span.day
        var service = try await ServiceProcess.start(installation)
        var client = HTTPClient(service.url, key: key)
        try await stage.awaitSweeps()
        var dropped = 0
        for notification in lives.flatMap(\.notifications).sorted(by: { $0.signedDate < $1.signedDate }) {
            // The store's history goes back 180 days: what is older was sent while everything worked.
            let payload = try stage.api(notification.environment).send(notification)
            if notification.signedDate < outage {
                #expect(try await client.notify(payload).status == 200)
            } else {
                dropped += 1
            }
        }
        try #require(dropped > 10)
        try await stage.awaitWatch()
        service.stop()
        // The simulated days passed in a few seconds.
        try await installation.asOwner(
            """
            UPDATE store_sweep SET completed_until = now() - interval '12 days';
            UPDATE store_stream SET last_heard_at = now() - interval '12 days'
            """)
        service = try await ServiceProcess.start(installation)
        let restarted = HTTPClient(service.url, key: key)
        client = restarted
        try await stage.awaitSweeps()
        for life in lives {
            for customer in life.record.customers {
                try await client.expectRecord(
                    life.record.customer(customer), of: customer, limit: 6, "seed \(life.seed)")
            }
        }
        let streams = try await client.streams { $0["production"]?["silent"] as? Bool == true }
        let production = try #require(streams["production"])
        #expect(production["silent"] as? Bool == true, "what was missed shows that nothing arrives: \(production)")
        #expect((production["sweep"] as? [String: Any])?["state"] as? String == "idle", "\(production)")
        #expect((production["sweep"] as? [String: Any])?["from"] is String, "\(production)")
        let text = try await installation.rightful("status")
        #expect(text.contains("silent: what the store sends does not arrive"), "\(text)")
        #expect(try await client.send("GET", "/metrics").text.contains("rightful_stream_silent{"))

        // The webhook works again.
        _ = try await stage.installation.run(
            [
                "test-notification", "--app", installation.world.bundleID, "--environment", "production",
            ],
            meanwhile: {
                let payload = try await StoreAPIStage.testNotification(of: stage.production)
                #expect(try await restarted.notify(payload).status == 200)
            })
        let healed = try await client.streams { $0["production"]?["silent"] as? Bool == false }
        #expect(healed["production"]?["silent"] as? Bool == false, "\(healed)")
        #expect(try await installation.rightful("verify").contains("verified"))
        service.stop()

        // What is not in the configuration is said so, and is no stream.
        try installation.configureNoApps()
        let status = try await installation.rightful("status")
        #expect(status.contains("not in this configuration") && !status.contains("stream"), "\(status)")
        await stage.remove()
    }

    @Test("three services repair what is overdue beside each other: each original is asked about once, and one may die")
    func threeServices() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        var services: [ServiceProcess] = [try await ServiceProcess.start(installation)]
        defer { for service in services { service.stop() } }
        try await stage.awaitSweeps()
        let client = HTTPClient(services[0].url, key: key)
        let now = StoreAPIStage.now
        let count = 60
        for number in 1...count {
            // Bought 40 days ago, renewed 10 days ago, and nobody ever said so.
            let first = Self.monthly(number, 0, at: now - 40 * Span.day)
            #expect(try await client.notify(try stage.deliverable(first)).status == 200)
            try stage.production.remember(first)
            try stage.production.remember(Self.monthly(number, 1, at: now - 10 * Span.day))
        }
        for _ in 0..<2 { services.append(try await ServiceProcess.start(installation)) }
        // Before the first of them looks, all three are there; then one of them is killed.
        while stage.production.count(of: "subscription_statuses") < 10 { try await Task.sleep(for: .milliseconds(20)) }
        services.removeFirst().killWithoutWarning()
        let survivor = HTTPClient(services[0].url, key: key)
        var streams: [String: [String: Any]] = [:]
        for _ in 0..<120 {
            streams = try await survivor.streams { _ in true }
            if stage.production.count(of: "subscription_statuses") >= count,
                streams["production"]?["overdue"] as? Int == 0
            {
                break
            }
            try await Task.sleep(for: .milliseconds(500))
        }
        #expect(streams["production"]?["overdue"] as? Int == 0, "\(streams)")
        let asked = stage.production.count(of: "subscription_statuses")
        #expect((count...count + 2).contains(asked), "once each, but for what the killed one was at: \(asked)")
        let most = stage.production.most(of: "subscription_statuses", within: 1000)
        #expect(most <= 25 + 25 + 5, "\(most) in a second, of all services together")
        let events = try await survivor.events()
        let reports = events.filter { $0["type"] as? String == "store_report" }
        #expect(reports.count == count)
        #expect(Set(reports.compactMap { $0["original_transaction_id"] as? String }).count == count)
        #expect(try await installation.rightful("verify").contains("verified"))
        await stage.remove()
    }

    private static func monthly(_ number: Int, _ period: Int, at purchase: Int64) -> [String: PayloadValue] {
        [
            "transactionId": .string("9000\(number)\(period)"), "originalTransactionId": .string("9000\(number)0"),
            "webOrderLineItemId": .string("line-\(number)-\(period)"), "bundleId": .string("com.example.app"),
            "productId": .string("com.example.pro.monthly"), "type": .string("Auto-Renewable Subscription"),
            "inAppOwnershipType": .string("PURCHASED"), "environment": .string("Production"),
            "purchaseDate": .integer(purchase), "expiresDate": .integer(purchase + 30 * Span.day),
            "signedDate": .integer(purchase), "transactionReason": .string(period == 0 ? "PURCHASE" : "RENEWAL"),
        ]
    }
}

extension HTTPClient {
    /// The streams by environment, as soon as they are as wanted, or after a minute and a half: a service whose look at them
    /// took long rests for up to a minute.
    func streams(
        until isWanted: ([String: [String: Any]]) -> Bool
    ) async throws -> [String: [String: Any]] {
        var streams: [String: [String: Any]] = [:]
        for _ in 0..<180 {
            let items = try await send("GET", "/v1/streams").json["items"] as? [[String: Any]]
            for item in try #require(items) { streams["\(item["environment"] ?? "")"] = item }
            if isWanted(streams) { break }
            try await Task.sleep(for: .milliseconds(500))
        }
        return streams
    }
}

extension StoreAPIStage {
    /// Waits until what is expected is known up to the end of the log.
    fileprivate func awaitWatch() async throws {
        for _ in 0..<100 {
            let text = try await installation.rightful("status", "--json")
            let status = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
            let projections = status?["projections"] as? [[String: Any]] ?? []
            if projections.contains(where: { $0["name"] as? String == "watch" && $0["lag"] as? Int == 0 }) { return }
            try await Task.sleep(for: .milliseconds(200))
        }
        Issue.record("the projection never reached the end of the log")
    }

    /// A notification of which the store's history will know nothing.
    func deliverable(_ transaction: [String: PayloadValue]) throws -> String {
        let authority = production.authority
        let world = installation.world
        return try authority.sign(
            .object([
                "notificationType": .string("SUBSCRIBED"), "notificationUUID": .string(UUID().uuidString.lowercased()),
                "version": .string("2.0"), "signedDate": transaction["signedDate"] ?? .integer(Self.now),
                "data": .object([
                    "environment": .string("Production"), "bundleId": .string(world.bundleID),
                    "appAppleId": .integer(world.appAppleID),
                    "signedTransactionInfo": .string(try authority.sign(.object(transaction))),
                ]),
            ]))
    }
}

extension Installation {
    /// Runs a command, and something else beside it.
    fileprivate func run(
        _ arguments: [String], meanwhile work: @Sendable () async throws -> Void
    ) async throws -> (status: Int32, output: String, errors: String) {
        async let result = run(arguments)
        try await work()
        return try await result
    }

    /// Leaves no app in the configuration.
    fileprivate func configureNoApps() throws {
        var configuration =
            try JSONSerialization.jsonObject(with: Data(contentsOf: configurationFile)) as? [String: Any] ?? [:]
        configuration["apps"] = []
        try JSONSerialization.data(withJSONObject: configuration).write(to: configurationFile)
    }
}
