import Foundation
import StoreSimulator
import Testing

/// What operators see of the differences between device, ledger and store.
@Suite("The differences, on the command line", .serialized, .timeLimit(.minutes(5)))
struct DriftCommandTests {
    private static let product = StoreWorld.ProductID.proMonthly

    @Test("a running service tells them apart by itself; the command, status and the metrics show the same")
    func command() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let nothing = try await installation.rightful("drift")
        #expect(
            nothing.contains("production: unexplained = 0") && nothing.contains("no such differences"), "\(nothing)")
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        try await stage.awaitSweeps()
        let client = HTTPClient(service.url, key: key)
        let now = StoreAPIStage.now
        var storyteller = Storyteller(world: .standard, seed: 5)
        let account = storyteller.account(.production, hasToken: true)
        let original = storyteller.subscribe(account, to: Self.product, at: now - 10 * Span.day)
        let life = StoreLife(storyteller, seed: 5)
        let customer = try #require(account.appAccountToken?.lowercased())
        for notification in life.notifications {
            #expect(try await client.notify(try stage.send(notification)).status == 200)
        }
        // The device names an end that nothing said; the store is asked, and knows nothing of it either.
        let claim = """
            {"app":"\(installation.world.bundleID)","signed_transactions":[],"claims":[{"product_id":"\(Self.product)",\
            "state":"active","until":"2040-01-01T00:00:00.000Z"}]}
            """
        let answer = try await client.send(
            "POST", "/v1/customers/\(customer)/reconcile", body: Array(claim.utf8))
        #expect(answer.status == 200 && answer.text.contains(#""drift":[{"#), "\(answer.text)")
        // The service looks each second, and asks the store within a minute.
        let found = try await Self.wait {
            let list = try await client.send("GET", "/v1/drift").json
            return (list["items"] as? [[String: Any]])?.first
        }
        #expect(found["customer_id"] as? String == customer && found["resolved"] is NSNull, "\(found)")
        #expect(found["original_transaction_id"] as? String == original.originalTransactionID)
        _ = try await Self.wait {
            let metrics = try await client.send("GET", "/metrics").text
            return metrics.contains(#"rightful_drift_found{environment="production",class="late_notification"} 0"#)
                ? metrics : nil
        }
        _ = try await Self.wait {
            let list = try await client.send("GET", "/v1/drift", query: ["class": "stale_device"]).json
            return (list["items"] as? [[String: Any]])?.first
        }
        let table = try await installation.rightful("drift")
        for word in [
            "production: unexplained = 0", "stale_device", "device, ledger", customer, Self.product,
            "active until 2040-01-01T00:00:00.000Z", "open", "The store was asked and says what the ledger says",
        ] { #expect(table.contains(word), "\(word) in\n\(table)") }
        let json = try await installation.rightful("drift", "--class", "stale_device", "--json")
        #expect(json.contains(#""class":"stale_device""#) && json.contains(#""unexplained":0"#), "\(json)")
        #expect(try await installation.rightful("drift", "--class", "ownership").contains("no such differences"))
        #expect(try await installation.rightful("drift", "--environment", "sandbox").contains("no such differences"))
        let status = try await installation.rightful("status")
        #expect(status.contains("production: unexplained = 0; open: 1 stale_device"), "\(status)")
        #expect(status.contains("projection drift"), "\(status)")
        // The device comes to agree.
        let agreeing = claim.replacing(#","until":"2040-01-01T00:00:00.000Z""#, with: "")
        let agreed = try await client.send("POST", "/v1/customers/\(customer)/reconcile", body: Array(agreeing.utf8))
        #expect(agreed.text.contains(#""drift":[]"#), "\(agreed.text)")
        #expect(try await installation.rightful("drift").contains("no such differences"))
        let all = try await installation.rightful("drift", "--all")
        #expect(all.contains("by agreement at"), "\(all)")
        // Derived again with the other views, it is the same.
        try await installation.rightful("rebuild")
        #expect(try await installation.rightful("drift", "--all") == all)
        for arguments in [["--class", "strange"], ["--open", "--all"], ["--limit", "0"], ["--after", "x"]] {
            #expect(try await installation.run(["drift"] + arguments).status == 2, "\(arguments)")
        }
        #expect(try await installation.rightful("verify").contains("verified"))
        await stage.remove()
    }

    private static func wait<Value>(_ look: () async throws -> Value?) async throws -> Value {
        for _ in 0..<1200 {
            if let value = try await look() { return value }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw CancellationError()
    }
}
