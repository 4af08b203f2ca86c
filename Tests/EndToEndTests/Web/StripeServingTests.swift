import Foundation
import OpenSSLCrypto
import Testing

@Suite("Stripe's webhooks, served by the program", .serialized, .timeLimit(.minutes(5)))
struct StripeServingTests {
    private static let catalog = """
        {"products":[{"product_id":"pro","entitlements":["premium"],
        "stripe":{"price":"price_1","mode":"subscription"},"app_store":false}]}
        """

    /// A paid period of a day around now.
    private static func paid(_ customer: String, id: String) -> String {
        let now = Int64(Date().timeIntervalSince1970)
        return """
            {"id":"\(id)","object":"event","created":\(now - 5),"livemode":false,"pending_webhooks":1,"request":null,
            "type":"invoice.paid","data":{"object":{"id":"in_\(id)","object":"invoice","status":"paid","livemode":false,
            "amount_paid":999,"currency":"usd","customer":"cus_\(id)","parent":{"type":"subscription_details",
            "subscription_details":{"metadata":{"rightful_customer_id":"\(customer)"},"subscription":"sub_\(id)"}},
            "status_transitions":{"paid_at":\(now - 5)},"lines":{"object":"list","has_more":false,"data":[{"id":"il_1",
            "object":"line_item","amount":999,"currency":"usd","parent":{"type":"subscription_item_details",
            "subscription_item_details":{"proration":false,"subscription":"sub_\(id)","subscription_item":"si_1"}},
            "period":{"start":\(now - 3600),"end":\(now + 86_400)},
            "pricing":{"type":"price_details","price_details":{"price":"price_1","product":"prod_1"}}}]}}}}
            """
    }

    private static func deliver(
        _ body: String, signedWith secret: String, to client: HTTPClient
    ) async throws -> HTTPClient.Answer {
        let seconds = Int64(Date().timeIntervalSince1970)
        let code = HMACSHA256.code(of: Array("\(seconds).\(body)".utf8), key: Array(secret.utf8))
        let hex = code.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        return try await client.send(
            "POST", "/v1/notifications/stripe", body: Array(body.utf8),
            headers: ["Stripe-Signature": "t=\(seconds),v1=\(hex)", "Content-Type": "application/json"])
    }

    /// Writes a file that only its owner may read beside the configuration.
    private static func write(_ text: String, to name: String, of installation: Installation) throws {
        let path = installation.directory.appending(path: name).path()
        #expect(
            FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600]))
    }

    /// Writes the configuration anew with these files of webhook secrets.
    private static func configure(_ files: [String], of installation: Installation) throws {
        let content = try Data(contentsOf: installation.configurationFile)
        var configuration = try JSONSerialization.jsonObject(with: content) as? [String: Any] ?? [:]
        configuration["stripe"] = [
            [
                "environment": "sandbox", "secret_key_path": "stripe-key", "webhook_secret_paths": files,
                "success_url": "https://example.com/thanks", "cancel_url": "https://example.com/plans",
            ] as [String: Any]
        ]
        try JSONSerialization.data(withJSONObject: configuration).write(to: installation.configurationFile)
    }

    @Test("webhooks are taken, verified again, and forgotten; a secret is rolled, and no secret shows anywhere")
    func served() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        try Self.write("rk_test_1234\n", to: "stripe-key", of: installation)
        try Self.write("whsec_first\n", to: "first", of: installation)
        try Self.write("whsec_second\n", to: "second", of: installation)
        try Self.write(Self.catalog, to: "web-catalog.json", of: installation)
        try Self.configure(["first"], of: installation)
        let key = try await installation.adminKey()
        let catalog = installation.directory.appending(path: "web-catalog.json").path()
        try await installation.rightful("catalog", "apply", catalog)

        let first = try await ServiceProcess.start(installation)
        var client = HTTPClient(first.url, key: key)
        #expect(
            try await Self.deliver(Self.paid("c-1", id: "evt_1"), signedWith: "whsec_second", to: client).status == 401)
        let taken = try await Self.deliver(Self.paid("c-1", id: "evt_1"), signedWith: "whsec_first", to: client)
        #expect(taken.status == 200, "\(taken.text)")
        let read = try await client.send(
            "GET", "/v1/customers/c-1/entitlements", query: ["environment": "sandbox"])
        #expect(read.text.contains(#""source":"web_checkout""#) && read.text.contains(#""gives_access":true"#))
        let checked = try await installation.rightful("verify", "--json")
        #expect(checked.contains(#""signatures":true"#) && checked.contains(#""signatures_unchecked":0"#), "\(checked)")
        #expect(first.stop() == 0)

        try Self.configure(["first", "second"], of: installation)
        let both = try await ServiceProcess.start(installation)
        client = HTTPClient(both.url, key: key)
        #expect(
            try await Self.deliver(Self.paid("c-2", id: "evt_2"), signedWith: "whsec_second", to: client).status == 200)
        #expect(both.stop() == 0)

        try Self.configure(["second"], of: installation)
        let rolled = try await installation.rightful("verify")
        #expect(rolled.contains("every signature checked but 1 of webhooks"), "\(rolled)")
        let said = try await installation.rightful("forget", "c-1", "--yes")
        #expect(said.hasPrefix("forgotten at position "), "\(said)")
        let erased = try await installation.rightful("verify")
        #expect(erased.contains("every signature checked,"), "\(erased)")
        for log in [first.logText, both.logText] {
            #expect(!log.contains("whsec_") && !log.contains("rk_test"), "\(log)")
        }

        try Self.write("sk_live_5678", to: "stripe-key", of: installation)
        let refused = try await installation.run(["serve"])
        #expect(refused.status == 1 && refused.errors.contains("secret_key_path of stripe for sandbox"))
        #expect(!refused.errors.contains("sk_live_5678") && refused.errors.contains("live mode"), "\(refused.errors)")
    }
}
