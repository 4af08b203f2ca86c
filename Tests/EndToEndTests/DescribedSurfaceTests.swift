import Foundation
import StoreSimulator
import TestSupport
import Testing

/// The routes that programs use, asked one after the other, for `deploy/validate-answers` to hold the answers to the description.
///
/// What is asked of stores that take money, and what devices post, other tests do.
@Suite("The described surface", .serialized, .timeLimit(.minutes(5)))
struct DescribedSurfaceTests {
    /// Asks, and expects that it is answered.
    private static func ask(
        _ client: HTTPClient, _ method: String, _ path: String, _ query: [String: String] = [:], body: String? = nil
    ) async throws -> HTTPClient.Answer {
        let answer = try await client.send(method, path, query: query, body: body.map { Array($0.utf8) })
        #expect(answer.status == 200, "\(method) \(path): \(answer.status) \(answer.text)")
        return answer
    }

    @Test("the console's page, its session and what its commands foresee answer")
    func console() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        for path in ["/console"] + ["main.js", "console.css", "icon.svg"].map({ "/console/assets/1/" + $0 }) {
            _ = try await Self.ask(client, "GET", path)
        }
        let made = try await client.send(
            "POST", "/console/session", body: Array(#"{"key":"\#(key)"}"#.utf8),
            headers: ["Content-Type": "application/json"])
        #expect(made.status == 200, "\(made.text)")
        let session = try #require(made.json["session"] as? [String: Any])
        _ = try await Self.ask(client, "GET", "/console/session")
        _ = try await Self.ask(
            client, "POST", "/v1/customers/described-1/actions/preview",
            body: #"{"grant":{"entitlement":"premium","reason":"to be seen first"}}"#)
        let ended = try await client.send(
            "DELETE", "/console/session", headers: ["Console-Token": try #require(session["token"] as? String)])
        #expect(ended.status == 200, "\(ended.text)")
    }

    @Test("the routes about customers, the log, the catalog and the service answer")
    func routes() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        let catalog = try String(contentsOf: installation.catalogFile, encoding: .utf8)
        _ = try await Self.ask(client, "PUT", "/v1/catalog", body: catalog)
        let life = StoreAPIStage.lifeUntilNow(seed: 61)
        for notification in life.notifications {
            #expect(try await client.notify(try stage.send(notification)).status == 200)
        }
        // Somebody who owns a purchase, and which.
        var found: [String: Any]?
        for original in Set(life.notifications.compactMap(\.originalTransactionID)).sorted() where found == nil {
            let matches = try await Self.ask(client, "GET", "/v1/customers", ["transaction_id": original])
            found = (matches.json["items"] as? [[String: Any]])?.first
        }
        let match = try #require(found)
        let customer = try #require(match["customer_id"] as? String)
        let original = try #require(match["original_transaction_id"] as? String)
        let environment = ["environment": try #require(match["environment"] as? String)]
        let head = try await client.head()

        let path = "/v1/customers/\(customer)"
        for name in ["entitlements", "timeline", "explain", "events"] {
            _ = try await Self.ask(client, "GET", "\(path)/\(name)", environment)
        }
        _ = try await Self.ask(client, "GET", "/revenuecat/v1/subscribers/\(customer)", environment)
        _ = try await Self.ask(client, "GET", "/v1/subscriptions/\(original)", environment)
        _ = try await Self.ask(client, "POST", "/v1/subscriptions/\(original)/actions/check", environment)
        _ = try await Self.ask(
            client, "POST", "/v1/offer_signatures", body: #"{"product_id":"a","offer_id":"b"}"#)

        _ = try await Self.ask(client, "POST", "\(path)/tokens")
        _ = try await Self.ask(client, "POST", "\(path)/actions/link", body: #"{"customer_id":"described-1"}"#)
        _ = try await Self.ask(
            client, "POST", "\(path)/actions/transfer", environment,
            body: #"{"original_transaction_id":"\#(original)","to":"described-2","dry_run":true}"#)
        let grant = try await Self.ask(
            client, "POST", "\(path)/actions/grant", body: #"{"entitlement":"premium","reason":"described","untill":1}"#
        )
        let grantID = try #require(grant.json["grant_id"] as? String)
        _ = try await Self.ask(
            client, "POST", "\(path)/actions/revoke_grant", body: #"{"grant_id":"\#(grantID)","reason":"described"}"#)

        for position in 1...head { _ = try await Self.ask(client, "GET", "/v1/events/\(position)") }
        _ = try await Self.ask(client, "GET", "/v1/events/1/proof")
        _ = try await Self.ask(client, "GET", "/v1/ledger/consistency", ["from": "1", "to": "\(head)"])
        for path in [
            "/v1/events", "/v1/ledger", "/v1/ledger/checkpoint", "/v1/catalog", "/v1/products", "/v1/streams",
            "/v1/drift", "/v1/remarks", "/v1/charts",
            "/metrics", "/healthz", "/readyz", "/.well-known/rightful-keys", "/.well-known/rightful-log-key",
        ] {
            _ = try await Self.ask(client, "GET", path)
        }
        let trial = try await Self.ask(client, "POST", "/v1/catalog/actions/try", body: #"{"products":[]}"#)
        #expect((trial.json["effects"] as? [Any])?.isEmpty == false && trial.json["complete"] as? Bool == true)
        for chart in ["active", "trials", "renewals", "billing_retry", "refunds", "churn", "retention", "revenue"] {
            let answer = try await Self.ask(
                client, "GET", "/v1/charts/\(chart)", environment.merging(["interval": "month"]) { $1 })
            #expect(answer.json["name"] as? String == chart)
            let table = try await Self.ask(client, "GET", "/v1/charts/\(chart)", ["format": "csv"])
            #expect(table.text.hasPrefix("from,until,is_over,figure,"))
        }
        let plan = #"{"days":3,"reason_code":"other","reason":"described","dry_run":true}"#
        var isExtended = false
        for original in Set(life.notifications.compactMap(\.originalTransactionID)).sorted() where !isExtended {
            let answer = try await client.send(
                "POST", "/v1/subscriptions/\(original)/actions/extend", query: environment, body: Array(plan.utf8))
            #expect([200, 404, 422].contains(answer.status), "\(answer.text)")
            isExtended = answer.status == 200
        }
        #expect(isExtended, "a subscription is in every life")
        _ = try await Self.ask(
            client, "GET", "/v1/customers", ["order_id": SimulatedStoreAPI.orderID(of: original)])
        _ = try await Self.ask(client, "GET", "\(path)/export", environment)
        let foreseen = try await Self.ask(client, "POST", "\(path)/actions/forget", body: #"{"dry_run":true}"#)
        #expect(foreseen.headers["ledger-position"] != nil)
        #expect(foreseen.json["dry_run"] as? Bool == true && foreseen.json["positions"] as? [Int] == [])
        let ids = try #require(foreseen.json["ids"] as? [[String: Any]])
        #expect(ids.first?["id"] as? String == customer && ids.first?["erased"] as? Bool == true, "\(foreseen.text)")
        let wrong = try await client.send("POST", "\(path)/actions/forget", body: Array(#"{"confirm":"x"}"#.utf8))
        #expect(wrong.status == 422, "\(wrong.text)")
        _ = try await Self.ask(client, "POST", "\(path)/actions/forget", body: #"{"confirm":"\#(customer)"}"#)
        let gone = try await client.send("GET", "\(path)/export", query: environment)
        #expect(gone.status == 404, "\(gone.text)")
        await stage.remove()
    }

    @Test("the description is served to anybody, and what is not changed is not sent again")
    func description() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url)
        let answer = try await Self.ask(client, "GET", "/v1/openapi.json")
        #expect(answer.json["openapi"] as? String == "3.1.0")
        let tag = try #require(answer.headers["etag"])
        let again = try await client.send("GET", "/v1/openapi.json", headers: ["If-None-Match": tag])
        #expect(again.status == 304 && again.body.isEmpty)
    }

    @Test("the routes about endpoints answer, and what an endpoint is sent is what the description says")
    func endpoints() async throws {
        let receiver = try HostileServer { _, _ in .answer(200, "") }
        defer { receiver.stop() }
        let installation = try await Installation(settings: [
            "webhooks": ["allow_private_addresses": true] as [String: any Sendable]
        ])
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        let made = try await Self.ask(
            client, "POST", "/v1/webhook_endpoints", body: #"{"url":"\#(receiver.url)/hook","description":"described"}"#
        )
        let path = "/v1/webhook_endpoints/\(try #require(made.json["id"] as? String))"
        _ = try await Self.ask(client, "POST", "\(path)/actions/test")
        _ = try await Self.ask(
            client, "POST", "/v1/customers/c-1/actions/grant", body: #"{"entitlement":"premium","reason":"described"}"#)
        let wanted: Set<String> = ["test", "event.recorded", "entitlements.changed"]
        var told: Set<String> = []
        let end = ContinuousClock.now + .seconds(30)
        while !told.isSuperset(of: wanted), ContinuousClock.now < end {
            told = Set(receiver.requests.compactMap { ExchangeLog.type(ofMessage: $0.body) })
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(told.isSuperset(of: wanted), "\(told)")
        for request in receiver.requests { ExchangeLog.shared?.note(message: request.body) }

        _ = try await Self.ask(client, "PATCH", path, body: #"{"description":null,"types":[],"oddity":1}"#)
        for action in ["pause", "resume", "rotate_secret"] {
            _ = try await Self.ask(client, "POST", "\(path)/actions/\(action)")
        }
        _ = try await Self.ask(client, "POST", "\(path)/actions/redeliver", body: #"{"failed":true}"#)
        _ = try await Self.ask(client, "POST", "\(path)/actions/redeliver", body: #"{"from":1,"to":2}"#)
        let since = #"{"since":"2026-01-01T00:00:00Z"}"#
        _ = try await Self.ask(client, "POST", "\(path)/actions/redeliver", body: since)
        let listed = try await Self.ask(client, "GET", "\(path)/deliveries")
        let id = try #require((listed.json["items"] as? [[String: Any]])?.first?["id"] as? String)
        _ = try await Self.ask(client, "POST", "\(path)/actions/redeliver", body: #"{"webhook_id":"\#(id)"}"#)
        _ = try await Self.ask(client, "GET", "\(path)/deliveries", ["state": "delivered"])
        _ = try await Self.ask(client, "GET", "/v1/webhook_endpoints")
        _ = try await Self.ask(client, "GET", path)
        _ = try await Self.ask(client, "DELETE", path)
        #expect(try await client.send("GET", path).status == 404)
    }
}
