import Foundation
import TestSupport
import Testing

/// The endpoints of webhooks from the command line, beside a service that sends.
@Suite("Webhooks from the command line", .serialized, .timeLimit(.minutes(3)))
struct WebhookCommandTests {
    private static func document(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    @Test("an endpoint is made, changed, tried, listed, paused and rotated, and what HTTP refuses is refused")
    func commands() async throws {
        let (receiver, other) = (
            try HostileServer { _, _ in .answer(200, "") }, try HostileServer { _, _ in .answer(200, "") }
        )
        defer {
            receiver.stop()
            other.stop()
        }
        let installation = try await Installation(settings: [
            "webhooks": ["allow_private_addresses": true] as [String: any Sendable]
        ])
        defer { installation.remove() }
        let url = receiver.url + "/hook"
        for (options, says) in [
            (["--types", ","], "--types names no type"), (["--types", "nonsense"], "nonsense"),
            (["--description", String(repeating: "d", count: 501)], "description"),
            (["--description", "a\u{7}b"], "control characters"), (["--app", "a/b"], "bundle id"),
            (["--app", String(repeating: "a", count: 256)], "app"), (["--format", "soap"], "soap"),
        ] {
            let result = try await installation.run(["webhooks", "create", url] + options)
            #expect(result.status == 2 && result.output.isEmpty && result.errors.contains(says), "\(result)")
        }
        #expect(try await installation.run(["webhooks", "create", "nowhere"]).status == 2)
        let made = try await installation.run([
            "webhooks", "create", url, "--types", "entitlements.changed",
            "--app", "com.example.typo",
        ])
        #expect(made.status == 0 && made.output.hasPrefix("whsec_"), "\(made)")
        #expect(made.errors.contains("com.example.typo"), "an app that is not configured is told of")
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }

        let list = try Self.document(try await installation.rightful("webhooks", "list", "--json"))
        let endpoint = try #require((list["items"] as? [[String: Any]])?.first)
        let id = try #require(endpoint["id"] as? String)
        #expect(endpoint["url"] as? String == url && endpoint["health"] as? String == "ok" && endpoint["secret"] == nil)
        #expect(try await installation.rightful("webhooks", "list").contains(id))

        #expect(try await installation.rightful("webhooks", "test", id).contains("status 200"))
        #expect(receiver.requests.count == 1)
        try await installation.rightful(
            "webhooks", "update", id, "--url", other.url + "/new", "--types", "all", "--environment", "sandbox",
            "--description", "billing")
        #expect(try await installation.rightful("webhooks", "test", id).contains("status 200"))
        #expect(other.requests.count { $0.target == "/new" && $0.body.contains(#""type":"test""#) } == 1)
        let changed = try Self.document(try await installation.rightful("webhooks", "list", "--json"))
        let now = try #require((changed["items"] as? [[String: Any]])?.first)
        #expect(now["id"] as? String == id && now["environment"] as? String == "sandbox")
        #expect(now["description"] as? String == "billing" && (now["types"] as? [String])?.isEmpty ?? false)
        try await installation.rightful("webhooks", "update", id, "--environment", "both", "--description", "")
        let wide = try Self.document(try await installation.rightful("webhooks", "list", "--json"))
        let both = try #require((wide["items"] as? [[String: Any]])?.first)
        #expect(both["environment"] is NSNull && both["description"] is NSNull)
        #expect(try await installation.run(["webhooks", "update", id]).status == 2, "nothing is to be changed")

        let deliveries = try Self.document(try await installation.rightful("webhooks", "deliveries", id, "--json"))
        let items = try #require(deliveries["items"] as? [[String: Any]])
        let tests = items.filter { $0["type"] as? String == "test" }
        #expect(tests.count == 2 && tests.allSatisfy { $0["state"] as? String == "delivered" })
        let message = try #require(tests.first?["id"] as? String)
        #expect(try await installation.rightful("webhooks", "deliveries", id).contains(message))
        let again = try await installation.rightful("webhooks", "redeliver", id, "--webhook-id", message)
        #expect(again == "1 delivery to be sent again\n")
        #expect(
            try await installation.run(["webhooks", "redeliver", id, "--failed", "--webhook-id", message]).status == 2)
        let backwards = ["--since", "2026-02-01T00:00:00Z", "--until", "2026-01-01T00:00:00Z"]
        let span = try await installation.run(["webhooks", "redeliver", id] + backwards)
        #expect(span.status == 2 && span.errors.contains("--until must not be before --since"), "\(span)")

        let secret = try await installation.rightful("webhooks", "rotate", id, "--keep-old-seconds", "0")
        #expect(secret.hasPrefix("whsec_") && secret != made.output && secret.filter(\.isWhitespace).count == 1)
        try await installation.rightful("webhooks", "pause", id)
        let refused = try await installation.run(["webhooks", "test", id])
        #expect(refused.status == 1 && refused.errors.contains("resume it first"), "\(refused)")
        #expect(try await installation.run(["webhooks", "pause", id]).status == 1)
        try await installation.rightful("webhooks", "resume", id)
        try await installation.rightful("webhooks", "delete", id)
        #expect(try await installation.run(["webhooks", "test", id]).errors.contains("there is no endpoint"))
    }
}
