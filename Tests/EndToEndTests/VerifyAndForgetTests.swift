import EmbeddedPostgres
import Foundation
import PostgresClient
import StoreSimulator
import Testing

@Suite("Verifying and forgetting, from the command line", .serialized)
struct VerifyAndForgetTests {
    @Test("a forgotten customer is nobody, everybody else is as before, and the ledger verifies while it serves")
    func forgotten() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let head = try await client.head()
        let life = StoreLife.random(seed: 31, world: installation.world, customers: 6)
        let signed = try life.notifications.map { try installation.authority.sign($0) }
        for payload in signed { #expect(try await client.notify(payload).status == 200) }
        #expect(try await installation.rightful("verify").hasPrefix("verified: "))

        let customers = Set(life.record.customers.map(\.customerID)).sorted()
        let forgotten = try #require(customers.first { !$0.hasPrefix("apple:") })
        let before = try await timelines(client, life.record.customers.filter { $0.customerID != forgotten })
        let refused = try await installation.run(["forget", forgotten])
        #expect(refused.status == 1 && refused.errors.contains("--yes"))
        let foreseen = try await installation.rightful("forget", forgotten, "--dry-run")
        #expect(foreseen.hasPrefix("This would erase for good:\n  \(forgotten)"), "\(foreseen)")
        #expect(try await client.events().last?["type"] as? String != "forgotten")
        let said = try await installation.rightful("forget", forgotten, "--yes")
        #expect(said.hasPrefix("forgotten at position \(head + Int64(life.notifications.count) + 1): "), "\(said)")

        #expect(try await timelines(client, life.record.customers.filter { $0.customerID != forgotten }) == before)
        for environment in ["production", "sandbox"] {
            let answer = try await client.send(
                "GET", "/v1/customers/\(forgotten)/entitlements", query: ["environment": environment])
            #expect((answer.json["entitlements"] as? [Any])?.isEmpty == true, "\(answer.text)")
        }
        let found = try await client.send("GET", "/v1/customers", query: ["app_account_token": forgotten])
        #expect(!found.text.contains("original_transaction_id"), "\(found.text)")
        let events = try await client.events()
        #expect(events.last?["type"] as? String == "forgotten" && events.last?["customer_id"] is NSNull)
        #expect(!events.contains { $0["customer_id"] as? String == forgotten })

        // What was heard before is still known, and nobody comes back with it.
        for payload in signed { #expect(try await client.notify(payload).json["duplicate"] as? Bool == true) }
        #expect(try await installation.run(["forget", forgotten, "--yes"]).status == 1)
        #expect(try await client.head() == Int64(events.count))
        let verified = try await installation.rightful("verify", "--json")
        #expect(verified.contains("\"ok\":true") && !verified.contains("\"evidence_erased\":0"), "\(verified)")
    }

    @Test("a difference is named, on the terminal and as JSON, with exit status 1")
    func difference() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        do {
            try await installation.rightful("catalog", "apply", installation.catalogFile.path())
            try await installation.rightful("verify")
            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            try await owner.execute(script: "UPDATE ledger_head SET hash = set_byte(hash, 5, get_byte(hash, 5) # 1)")
            let plain = try await installation.run(["verify"])
            #expect(plain.status == 1 && plain.output.isEmpty)
            #expect(plain.errors.contains("the first difference: ledger_head, ledger 1: hash is"), "\(plain.errors)")
            let json = try await installation.run(["verify", "--json"])
            #expect(json.status == 1 && json.output.contains("\"table\":\"ledger_head\""), "\(json.output)")
            try await cluster.release()
        } catch {
            try await cluster.release()
            throw error
        }
    }

    private func timelines(_ client: HTTPClient, _ customers: [CustomerKey]) async throws -> [String] {
        var texts: [String] = []
        for customer in customers {
            let answer = try await client.send(
                "GET", "/v1/customers/\(customer.customerID)/timeline",
                query: ["environment": customer.environment.rawValue])
            let entitlements = try #require(answer.json["entitlements"])
            texts.append(
                "\(customer) \(try JSONSerialization.data(withJSONObject: entitlements, options: .sortedKeys).base64EncodedString())"
            )
        }
        return texts
    }
}
