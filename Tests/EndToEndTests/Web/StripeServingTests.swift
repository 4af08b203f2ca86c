import Foundation
import OpenSSLCrypto
import TestSupport
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

    /// What `paid` paid for is paused.
    private static func paused(of id: String) -> String {
        let now = Int64(Date().timeIntervalSince1970)
        return """
            {"id":"evt_paused","object":"event","created":\(now - 2),"livemode":false,"pending_webhooks":1,"request":null,
            "type":"customer.subscription.updated","data":{"object":{"id":"sub_\(id)","object":"subscription",
            "status":"active","customer":"cus_\(id)","livemode":false,"cancel_at":null,"cancel_at_period_end":false,
            "ended_at":null,"pause_collection":{"behavior":"void","resumes_at":null},"trial_start":null,"trial_end":null,
            "metadata":{},"items":{"object":"list","has_more":false,"data":[{"id":"si_1","object":"subscription_item",
            "current_period_start":\(now - 3600),"current_period_end":\(now + 86_400),
            "price":{"id":"price_1","object":"price","product":"prod_1"}}]}}}}
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

    /// Writes the configuration anew with these files of webhook secrets, and another server in place of Stripe's.
    private static func configure(
        _ files: [String], of installation: Installation, base: String = "http://127.0.0.1:9"
    ) throws {
        let content = try Data(contentsOf: installation.configurationFile)
        var configuration = try JSONSerialization.jsonObject(with: content) as? [String: Any] ?? [:]
        configuration["stripe"] = [
            [
                "environment": "sandbox", "secret_key_path": "stripe-key", "webhook_secret_paths": files,
                "success_url": "https://example.com/thanks", "cancel_url": "https://example.com/plans",
                "base_url": base,
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
        #expect(
            try await Self.deliver(Self.paused(of: "evt_1"), signedWith: "whsec_second", to: client).status == 200)
        #expect(both.stop() == 0)

        try Self.configure(["second"], of: installation)
        let rolled = try await installation.rightful("verify")
        #expect(rolled.contains("every signature checked but 1 of webhooks"), "\(rolled)")
        let said = try await installation.rightful("forget", "c-1", "--yes")
        #expect(said.hasPrefix("forgotten at position "), "\(said)")
        let paused = "sub_evt_1 (pro, sandbox) is paused, and charged again by Stripe when that ends; cancel it there"
        #expect(said.contains("\n\(paused), if it is still to end\n"), "\(said)")
        let erased = try await installation.rightful("verify")
        #expect(erased.contains("every signature checked,"), "\(erased)")
        try Self.write(#"{"products":[]}"#, to: "empty.json", of: installation)
        try await installation.rightful("catalog", "apply", installation.directory.appending(path: "empty.json").path())
        let status = try await installation.rightful("status")
        let unmapped = "stripe.price price_1, stripe.product prod_1 is not in the catalog: 2 events"
        #expect(status.contains(unmapped), "\(status)")
        for log in [first.logText, both.logText] {
            #expect(!log.contains("whsec_") && !log.contains("rk_test"), "\(log)")
        }

        try Self.write("sk_live_5678", to: "stripe-key", of: installation)
        let refused = try await installation.run(["serve"])
        #expect(refused.status == 1 && refused.errors.contains("secret_key_path of stripe for sandbox"))
        #expect(!refused.errors.contains("sk_live_5678") && refused.errors.contains("live mode"), "\(refused.errors)")
    }

    /// A refund of what `paid` paid, which names no invoice.
    private static func refund(of id: String) -> String {
        let now = Int64(Date().timeIntervalSince1970)
        return """
            {"id":"evt_refund","object":"event","created":\(now - 2),"livemode":false,"pending_webhooks":1,"request":null,
            "type":"charge.refund.updated","data":{"object":{"id":"re_1","object":"refund","amount":999,
            "created":\(now - 2),"status":"succeeded","payment_intent":"pi_1","charge":"ch_\(id)"}}}
            """
    }

    @Test("killed between a webhook and what is read because of it, the service reads it when it is started again")
    func killed() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let stripe = try HostileServer { _, _ in .silence }
        try Self.write("rk_test_1234\n", to: "stripe-key", of: installation)
        try Self.write("whsec_first\n", to: "first", of: installation)
        try Self.write(Self.catalog, to: "web-catalog.json", of: installation)
        try Self.configure(["first"], of: installation, base: stripe.url)
        let key = try await installation.adminKey()
        let catalog = installation.directory.appending(path: "web-catalog.json").path()
        try await installation.rightful("catalog", "apply", catalog)
        let first = try await ServiceProcess.start(installation)
        let client = HTTPClient(first.url, key: key)
        let paid = Self.paid("c-1", id: "evt_1")
        #expect(try await Self.deliver(paid, signedWith: "whsec_first", to: client).status == 200)
        let refund = Self.refund(of: "evt_1")
        let delivery = Task { try await Self.deliver(refund, signedWith: "whsec_first", to: client) }
        // The list of events is asked for, too, and sooner.
        while !stripe.requests.contains(where: { $0.target.hasPrefix("/v1/invoice_payments") }) {
            try await Task.sleep(for: .milliseconds(10))
        }
        first.killWithoutWarning()
        _ = try? await delivery.value
        stripe.stop()

        let event = try #require(JSONSerialization.jsonObject(with: Data(paid.utf8)) as? [String: Any])
        let data = event["data"] as? [String: Any]
        let invoice = try JSONSerialization.data(withJSONObject: try #require(data?["object"]))
        let payment = """
            {"object":"list","has_more":false,"data":[{"id":"inpay_1","object":"invoice_payment","amount_paid":999,
            "invoice":\(String(decoding: invoice, as: UTF8.self)),
            "payment":{"type":"payment_intent","payment_intent":"pi_1"}}]}
            """
        let again = try HostileServer { request, _ in
            .answer(
                request.target.hasPrefix("/v1/invoice_payments") ? 200 : 503,
                request.target.hasPrefix("/v1/invoice_payments") ? payment : "{}")
        }
        defer { again.stop() }
        try Self.configure(["first"], of: installation, base: again.url)
        let second = try await ServiceProcess.start(installation)
        let reader = HTTPClient(second.url, key: key)
        func access() async throws -> String {
            try await reader.send("GET", "/v1/customers/c-1/entitlements", query: ["environment": "sandbox"]).text
        }
        // Stripe is not asked to send it once more: the webhook may have been answered.
        while try await !access().contains(#""state":"revoked""#) { try await Task.sleep(for: .milliseconds(200)) }
        let checked = try await installation.rightful("verify")
        #expect(checked.contains("1 pieces of evidence are what Stripe's API answered"), "\(checked)")
        #expect(second.stop() == 0)
        #expect(!first.logText.contains("rk_test_1234") && !second.logText.contains("rk_test_1234"))
    }
}
