import Foundation
import StoreSimulator
import TestSupport
import Testing

/// What an operator asks of the store, and tells it.
@Suite("Changing something at the store", .serialized, .timeLimit(.minutes(5)))
struct StoreRequestTests {
    private static let token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"

    /// A service, and a month of a subscription that began ten days ago, of which it was told.
    fileprivate struct Running {
        let stage: StoreAPIStage
        let service: ServiceProcess
        let client: HTTPClient
        let end: Int64

        init(consents: Bool = false, settings: [String: any Sendable] = [:]) async throws {
            stage = try await StoreAPIStage(consents: consents, settings: settings)
            let key = try await stage.installation.adminKey()
            try await stage.installation.rightful("catalog", "apply", stage.installation.catalogFile.path())
            service = try await ServiceProcess.start(stage.installation)
            client = HTTPClient(service.url, key: key)
            end = StoreAPIStage.now + 20 * Span.day
            let payload = try stage.production.send(
                "SUBSCRIBED", uuid: UUID().uuidString, transaction(signed: StoreAPIStage.now - 10 * Span.day), renewal)
            #expect(try await client.notify(payload).status == 200)
        }

        func transaction(signed: Int64) -> [String: PayloadValue] {
            [
                "transactionId": .string("777"), "originalTransactionId": .string("777"),
                "webOrderLineItemId": .string("777-1"), "productId": .string(StoreWorld.ProductID.proMonthly),
                "bundleId": .string(stage.installation.world.bundleID), "type": .string("Auto-Renewable Subscription"),
                "purchaseDate": .integer(end - 30 * Span.day), "expiresDate": .integer(end),
                "signedDate": .integer(signed), "environment": .string("Production"),
                "inAppOwnershipType": .string("PURCHASED"), "transactionReason": .string("PURCHASE"),
                "appAccountToken": .string(StoreRequestTests.token),
            ]
        }

        var renewal: [String: PayloadValue] {
            [
                "originalTransactionId": .string("777"), "autoRenewStatus": .integer(1),
                "autoRenewProductId": .string(StoreWorld.ProductID.proMonthly),
                "productId": .string(StoreWorld.ProductID.proMonthly), "renewalDate": .integer(end),
                "isInBillingRetryPeriod": .boolean(false), "environment": .string("Production"),
                "signedDate": .integer(StoreAPIStage.now - 10 * Span.day),
            ]
        }

        /// The store asks how much was used.
        func ask() async throws {
            let payload = try stage.production.send(
                "CONSUMPTION_REQUEST", uuid: UUID().uuidString, transaction(signed: StoreAPIStage.now))
            #expect(try await client.notify(payload).status == 200)
        }

        /// The events of a type, as JSON.
        func events(_ type: String) async throws -> [[String: Any]] {
            let items = try await client.send("GET", "/v1/events", query: ["limit": "1000"]).json["items"]
            return (items as? [[String: Any]] ?? []).filter { $0["type"] as? String == type }
        }

        func stop() async {
            service.stop()
            await stage.remove()
        }
    }

    @Test("extend shows what it would do, does it once when told to, and the ledger has the new expiry")
    func extend() async throws {
        let running = try await Running()
        let installation = running.stage.installation
        let order = ["extend", "777", "--days", "7", "--reason-code", "service_issue"]
        let send = ["--send", "--reason", "the outage of May", "--actor", "kim"]
        let dry = try await installation.run(order)
        #expect(dry.status == 0 && dry.output.contains("nothing was sent"), "\(dry)")
        #expect(dry.output.contains("extended      0 times within 365 days"), "\(dry.output)")
        #expect(running.stage.production.count(of: "extend") == 0)
        #expect(try await running.events("extension_requested").isEmpty)

        // The store does it, and its answer is lost; it is asked again under the same name, by the client itself and then
        // by the operator.
        running.stage.production.failAlways(.truncated, about: "extend")
        let lost = try await installation.run(order + send)
        running.stage.production.forgiveAll()
        #expect(lost.status == 1 && lost.errors.contains("Run the same command again"), "\(lost)")
        let other = try await installation.run(
            ["extend", "777", "--days", "9", "--reason-code", "service_issue"] + send)
        #expect(other.status == 1 && other.errors.contains("about to ask for 7 days"), "\(other)")
        let sent = try await installation.run(order + send)
        #expect(sent.status == 0 && sent.output.contains("asked for before under the same name"), "\(sent)")
        let until = running.end + 7 * Span.day
        #expect(running.stage.production.sentPayloads.count == 2, "it was extended once")
        let entitlements = try await running.client.entitlements(
            of: CustomerKey(.production, Self.token), at: StoreAPIStage.now, "extended")
        #expect(entitlements.first?.until == until, "\(sent.output)")
        let asked = try await running.events("extension_requested")
        let settled = try await running.events("extension_settled")
        #expect(asked.count == 1 && settled.count == 1)
        let facts = try #require(settled.first?["facts"] as? [String: Any])
        for event in [asked.first, settled.first] {
            let facts = event?["facts"] as? [String: Any]
            #expect(facts?["actor"] as? String == "kim" && facts?["reason"] as? String == "the outage of May")
            #expect(facts?["reason_code"] as? String == "service_issue")
        }
        #expect(
            facts["settles"] as? Int == asked.first?["position"] as? Int && facts["outcome"] as? String == "accepted")

        let soon = try await installation.run(order + send)
        #expect(soon.status == 1 && soon.errors.contains("less than 24 hours ago; --again"), "\(soon)")
        _ = try await installation.run(order + send + ["--again"])
        let third = try await installation.run(order + send + ["--again"])
        #expect(third.status == 1 && third.errors.contains("4030005"), "\(third)")
        #expect(third.errors.contains("as often as it does, twice within 365 days"), "\(third)")
        #expect(third.output.isEmpty && running.stage.production.sentPayloads.count == 3)
        let doubtful = try await installation.run(order)
        #expect(doubtful.status == 0 && doubtful.output.contains("extended as often as it may be"), "\(doubtful)")
        for wrong in [
            ["--days", "91"], ["--days", "0"], ["--reason-code", "kindness"], ["--send"], ["--reason", ""],
        ] {
            let refused = try await installation.run(
                ["extend", "777"] + (wrong[0] == "--days" ? [] : ["--days", "1"])
                    + (wrong[0] == "--reason-code" ? [] : ["--reason-code", "other"]) + wrong)
            #expect(refused.status == 2, "\(refused)")
        }
        let unknown = try await installation.run(["extend", "778", "--days", "1", "--reason-code", "other"])
        #expect(unknown.status == 1 && unknown.errors.contains("`rightful check`"), "\(unknown)")
        #expect(try await installation.rightful("verify").contains("verified"))
        await running.stop()
    }

    @Test("of several people who extend at once, one does, and none for somebody who was forgotten")
    func extendTogether() async throws {
        let running = try await Running()
        let installation = running.stage.installation
        let order = [
            "extend", "777", "--days", "7", "--reason-code", "service_issue", "--send", "--reason", "the outage of May",
        ]
        let runs = try await withThrowingTaskGroup(of: (status: Int32, text: String).self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let run = try await installation.run(order)
                    return (run.status, run.output + run.errors)
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(try await running.events("extension_requested").count == 1, "\(runs)")
        #expect(running.stage.production.sentPayloads.count == 2, "it was extended once: \(runs)")
        #expect(runs.contains { $0.status == 0 }, "\(runs)")
        for run in runs where run.status != 0 { #expect(run.text.contains("nothing was sent: "), "\(run)") }
        try await installation.rightful("forget", Self.token, "--yes")
        let asked = running.stage.production.count(of: "extend")
        let refused = try await installation.run(order + ["--again"])
        #expect(refused.status == 1 && refused.errors.contains("was forgotten"), "\(refused)")
        #expect(running.stage.production.count(of: "extend") == asked)
        await running.stop()
    }

    @Test("consumption shows what it would tell, and tells it with consent alone")
    func consumption() async throws {
        let running = try await Running()
        let installation = running.stage.installation
        try await running.ask()
        let dry = try await installation.run(["consumption", "777"])
        #expect(dry.status == 0 && dry.output.contains("delivery      DELIVERED"), "\(dry)")
        #expect(
            dry.output.contains("takes an answer until") && dry.output.contains("nothing was sent"), "\(dry.output)")
        #expect(dry.output.contains("--send tells the store, with --consented"), "\(dry.output)")
        let refused = try await installation.run(["consumption", "777", "--send", "--reason", "asked on the phone"])
        #expect(refused.status == 1 && refused.errors.contains("--consented"), "\(refused)")
        #expect(
            running.stage.production.count(of: "consumption") == 0, "a service without consent sends nothing either")
        let share = try await installation.run(["consumption", "777", "--consumed", "50"])
        #expect(share.status == 1 && share.errors.contains("reckons it itself"), "\(share)")
        let sent = try await installation.run(
            [
                "consumption", "777", "--preference", "GRANT_FULL", "--consented", "--send", "--reason",
                "asked on the phone",
            ])
        #expect(sent.status == 0 && sent.output.contains("the store was told (event "), "\(sent)")
        #expect(
            running.stage.production.consumption(of: "777") == [
                #"{"customerConsented":true,"deliveryStatus":"DELIVERED","refundPreference":"GRANT_FULL","#
                    + #""sampleContentProvided":false}"#
            ])
        let settled = try await running.events("consumption_settled")
        let asked = try await running.events("consumption_requested")
        let facts = settled.first?["facts"] as? [String: Any]
        #expect(facts?["settles"] as? Int == asked.first?["position"] as? Int, "\(settled)")
        #expect(settled.first?["source"] as? String == "operator")
        #expect(facts?["reason"] as? String == "asked on the phone")
        #expect((facts?["actor"] as? String)?.isEmpty == false, "the account that ran it")
        let ordered = try await running.events("consumption_ordered")
        #expect(ordered.count == 1, "said before it was sent")
        #expect((ordered.first?["facts"] as? [String: Any])?["reason"] as? String == "asked on the phone")
        let again = try await installation.run(["consumption", "777"])
        #expect(again.output.contains("no question of the store's is open"), "\(again)")
        running.stage.production.fail(.status(400, code: 4_000_047))
        let unasked = try await installation.run([
            "consumption", "777", "--consented", "--send", "--reason", "asked on the phone",
        ])
        #expect(unasked.status == 1 && unasked.errors.contains("is open; --anyway"), "\(unasked)")
        #expect(running.stage.production.count(of: "consumption") == 1)
        let never = try await installation.run([
            "consumption", "777", "--consented", "--send", "--reason", "asked on the phone", "--anyway",
        ])
        #expect(never.status == 1 && never.errors.contains("4000047"), "\(never)")
        let unknown = try await installation.run(["consumption", "99"])
        #expect(unknown.status == 1 && unknown.errors.contains("knows no transaction 99"), "\(unknown)")
        #expect(try await installation.rightful("verify").contains("verified"))
        await running.stop()
    }

    @Test("what the store is told is in the log before it is sent, and of several who tell it at once one does")
    func consumptionOrders() async throws {
        let running = try await Running()
        let installation = running.stage.installation
        try await running.ask()
        let store = running.stage.production
        store.failAlways(.status(500))
        let lost = try await installation.run([
            "consumption", "777", "--preference", "DECLINE", "--consented", "--send", "--reason", "first",
        ])
        #expect(lost.status == 1 && lost.errors.contains("Run the same command again"), "\(lost)")
        let orders = try await running.events("consumption_ordered")
        #expect(orders.compactMap { ($0["facts"] as? [String: Any])?["reason"] as? String } == ["first"])
        let dry = try await installation.run(["consumption", "777"])
        #expect(dry.output.contains("nobody knows whether the store was told"), "\(dry.output)")
        store.forgiveAll()
        store.slow(milliseconds: 1500)
        let runs = try await withThrowingTaskGroup(of: (status: Int32, errors: String).self) { group in
            // What was ordered before may be repeated; anything else waits until that is over.
            for preference in ["DECLINE", "GRANT_FULL", "GRANT_FULL"] {
                group.addTask {
                    let run = try await installation.run([
                        "consumption", "777", "--preference", preference, "--consented", "--send", "--reason", "second",
                    ])
                    return (run.status, run.errors)
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(runs.count { $0.status == 0 } == 1, "\(runs)")
        for run in runs where run.status != 0 { #expect(run.errors.contains("nothing was sent: "), "\(runs)") }
        #expect(store.consumption(of: "777").count == 1)
        let settled = try await running.events("consumption_settled")
        #expect(settled.count == 1, "\(settled)")
        #expect(try await installation.rightful("verify").contains("verified"))
        await running.stop()
    }

    @Test("a service whose configuration states consent answers by itself, and a killed one's successor goes on")
    func byItself() async throws {
        let running = try await Running(consents: true)
        for _ in 0..<20 { running.stage.production.fail(.status(503)) }
        try await running.ask()
        try await running.waitUntil { running.service.logText.contains("the store cannot be told now") }
        running.service.killWithoutWarning()
        running.stage.production.forgiveAll()
        let next = try await ServiceProcess.start(running.stage.installation)
        defer { next.stop() }
        try await running.waitUntil { !running.stage.production.consumption(of: "777").isEmpty }
        let told = running.stage.production.consumption(of: "777")
        #expect(told.first?.contains(#""refundPreference":"DECLINE""#) == true, "\(told)")
        try await running.waitUntil { next.logText.contains("a consumption request was settled") }
        #expect(try await running.stage.installation.rightful("verify").contains("verified"))
        await running.stage.remove()
    }

    @Test("while sending is off neither the store nor an endpoint is told anything, and both are once it is on")
    func sendingOff() async throws {
        let receiver = try HostileServer { _, _ in .answer(200, "") }
        defer { receiver.stop() }
        func settings(_ isEnabled: Bool) -> [String: any Sendable] {
            ["enabled": isEnabled, "allow_private_addresses": true]
        }
        let running = try await Running(consents: true, settings: ["webhooks": settings(false)])
        let installation = running.stage.installation
        try await installation.rightful("webhooks", "create", receiver.url + "/hook")
        func endpoint() async throws -> [String: Any] {
            let list = Data(try await installation.rightful("webhooks", "list", "--json").utf8)
            let document = try JSONSerialization.jsonObject(with: list) as? [String: Any]
            return try #require((document?["items"] as? [[String: Any]])?.first)
        }
        let id = try #require(try await endpoint()["id"] as? String)
        try await running.ask()
        while try await endpoint()["waiting"] as? Int == 0 { try await Task.sleep(for: .milliseconds(100)) }
        // Refund requests are looked for every 5 s.
        try await Task.sleep(for: .seconds(6))
        #expect(receiver.requests.isEmpty && running.stage.production.count(of: "consumption") == 0)
        #expect(running.service.logText.contains("webhooks.enabled is false"))
        #expect(try await installation.rightful("status").contains("webhooks.enabled is false in the configuration"))
        let tried = try await installation.run(["webhooks", "test", id])
        #expect(tried.status == 1 && tried.errors.contains("webhooks.enabled is false"), "\(tried)")
        running.service.stop()

        let file = installation.configurationFile
        let read = try JSONSerialization.jsonObject(with: try Data(contentsOf: file)) as? [String: Any]
        var configuration = try #require(read)
        configuration["webhooks"] = settings(true)
        try JSONSerialization.data(withJSONObject: configuration).write(to: file)
        let next = try await ServiceProcess.start(installation)
        defer { next.stop() }
        try await running.waitUntil {
            !running.stage.production.consumption(of: "777").isEmpty && !receiver.requests.isEmpty
        }
        await running.stage.remove()
    }
}

extension StoreRequestTests.Running {
    /// Waits for two minutes at most.
    fileprivate func waitUntil(_ isSo: () -> Bool) async throws {
        for _ in 0..<1200 {
            if isSo() { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        Issue.record("it never came to that; the service says: \(service.logText.suffix(2000))")
    }
}
