import Foundation
import OpenSSLCrypto
import StoreSimulator
import TestSupport
import Testing

/// A receiver that was written for RevenueCat, in front of a real service.
@Suite("RevenueCat's webhooks over HTTP", .serialized, .timeLimit(.minutes(2)))
struct RevenueCatWebhookTests {
    @Test("a life that the store tells arrives as a receiver of RevenueCat's expects it, in its order")
    func life() async throws {
        let installation = try await Installation(settings: ["webhooks": ["allow_private_addresses": true]])
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let receiver = try HostileServer { _, _ in .answer(200, "") }
        defer { receiver.stop() }
        let header = installation.directory.appending(path: "authorization")
        try Data("Bearer of-the-receiver\n".utf8).write(to: header)
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let secret = try await installation.rightful(
            "webhooks", "create", receiver.url + "/revenuecat", "--format", "revenuecat",
            "--authorization-header-file", header.path()
        ).trimmingCharacters(in: .whitespacesAndNewlines)
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let account = StoreAccount(
            .production, appAccountToken: "cccccccc-0000-4000-8000-000000000003",
            appTransactionID: "700000000000000003")
        let customer = try #require(account.appAccountToken)
        for notification in Self.life(of: account, in: installation.world, until: now).notifications {
            let answer = try await client.notify(installation.authority.sign(notification))
            try #require(answer.status == 200, "\(answer.text)")
        }
        let until = ISO8601DateFormatter().string(from: Date().addingTimeInterval(3))
        let granted = try await client.send(
            "POST", "/v1/customers/\(customer)/actions/grant",
            body: Array(#"{"entitlement":"gift","until":"\#(until)","reason":"three seconds"}"#.utf8))
        try #require(granted.status == 200, "\(granted.text)")
        let expected = [
            "INITIAL_PURCHASE", "CANCELLATION UNSUBSCRIBE", "UNCANCELLATION", "PRODUCT_CHANGE", "RENEWAL",
            "SUBSCRIPTION_EXTENDED", "CANCELLATION CUSTOMER_SUPPORT", "EXPIRATION CUSTOMER_SUPPORT", "REFUND_REVERSED",
            "NON_RENEWING_PURCHASE", "EXPIRATION UNKNOWN",
        ]
        let end = ContinuousClock.now + .seconds(30)
        while receiver.requests.count < expected.count, ContinuousClock.now < end {
            try await Task.sleep(for: .milliseconds(20))
        }
        let events = try receiver.requests.map { try Self.event($0, secret: secret) }
        let words = events.map { event in
            [event["type"], event["cancel_reason"], event["expiration_reason"]].compactMap { $0 as? String }
                .joined(separator: " ")
        }
        #expect(words == expected)
        #expect(events.map { $0["sequence"] as? Int } == Array(1...expected.count))
        let instants = events.compactMap { $0["event_timestamp_ms"] as? Int64 }
        #expect(instants.count == expected.count && zip(instants, instants.dropFirst()).allSatisfy(<), "\(instants)")
        #expect(events.allSatisfy { $0["app_user_id"] as? String == customer })
        #expect(events.allSatisfy { $0["environment"] as? String == "PRODUCTION" })
        #expect(Set(events.compactMap { $0["id"] as? String }).count == expected.count)
        #expect(receiver.requests.allSatisfy { $0.headers["authorization"] == "Bearer of-the-receiver" })
        // Each is told from where the one before it left.
        let renewal = try #require(events.first { $0["type"] as? String == "RENEWAL" })
        #expect(renewal["product_id"] as? String == StoreWorld.ProductID.proMonthly)
        #expect(Set(renewal["entitlement_ids"] as? [String] ?? []) == ["premium", "plus"])
        // Whoever asks after the last event is told the same.
        let answer = try await client.send("GET", "/revenuecat/v1/subscribers/\(customer)").json
        let subscriber = try #require(answer["subscriber"] as? [String: Any])
        let shown = try #require(subscriber["entitlements"] as? NSDictionary)
        #expect(events.last?["after"] as? NSDictionary == shown)
    }

    /// Twenty days of somebody who left, came back, took more, and was refunded by mistake.
    private static func life(of account: StoreAccount, in world: StoreWorld, until now: Int64) -> StoreLife {
        var teller = Storyteller(world: world, seed: 11)
        let key = teller.subscribe(account, to: StoreWorld.ProductID.plusMonthly, at: now - 20 * Span.day)
        teller.setAutoRenew(key, false, at: now - 12 * Span.day)
        teller.setAutoRenew(key, true, at: now - 11 * Span.day)
        teller.change(key, to: StoreWorld.ProductID.proMonthly, at: now - 8 * Span.day)
        teller.extend(key, byDays: 5, at: now - 6 * Span.day)
        teller.refund(key, at: now - 4 * Span.day)
        teller.reverseRefund(key, at: now - 2 * Span.day)
        return StoreLife(teller, seed: 11)
    }

    /// The event of a request, once its signature holds.
    private static func event(_ request: HostileServer.Request, secret: String) throws -> [String: Any] {
        let signature = try #require(request.headers["x-revenuecat-webhook-signature"])
        let parts = signature.split(separator: ",").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        let time = try #require(parts.first { $0[0] == "t" }?[1])
        let code = HMACSHA256.code(of: Array("\(time).\(request.body)".utf8), key: Array(secret.utf8))
        let hex = code.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        try #require(parts.contains(["v1", hex]), "\(signature)")
        ExchangeLog.shared?.note(message: request.body)
        let body = try JSONSerialization.jsonObject(with: Data(request.body.utf8)) as? [String: Any]
        #expect(body?["api_version"] as? String == "1.0")
        return try #require(body?["event"] as? [String: Any])
    }
}
