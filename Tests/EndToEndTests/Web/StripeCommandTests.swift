import Foundation
import StoreSimulator
import TestSupport
import Testing

/// A developer tries a purchase with `store-simulator stripe`, as docs/web-checkout.md tells.
@Suite("The simulated Stripe as a command", .serialized, .timeLimit(.minutes(5)))
struct StripeCommandTests {
    @Test("a checkout of the service is paid on its page, renewed, cancelled and refunded, and the service knows")
    func purchase() async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        let first = try await SimulatorProcess.start(["stripe", "--data", directory.path, "--port", "0"])
        let port = try #require(
            (first.app["base_url"] as? String).flatMap { URLComponents(string: $0)?.port }, "\(first.app)")
        first.stop()
        let files = try #require(first.app["webhook_secret_paths"] as? [String])
        var entry: [String: any Sendable] = first.app.compactMapValues { $0 as? String }
        entry["webhook_secret_paths"] = files
        let installation = try await Installation(world: .standardOnWeb, settings: ["stripe": [entry]])
        defer { installation.remove() }
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let stripe = try await SimulatorProcess.start([
            "stripe", "--data", directory.path, "--port", "\(port)", "--url", service.url.absoluteString,
            "--period-minutes", "1",
        ])
        defer { stripe.stop() }
        #expect(NSDictionary(dictionary: stripe.app) == NSDictionary(dictionary: first.app), "its keys are kept")

        let client = HTTPClient(service.url, key: key)
        let checkout = try await client.send(
            "POST", "/v1/customers/c-1/checkout",
            body: Array(
                #"{"product_id":"\#(StoreWorld.ProductID.proMonthly)","environment":"sandbox"}"#.utf8),
            headers: ["Content-Type": "application/json"])
        let page = try #require((checkout.json["url"] as? String).flatMap { URL(string: $0) }, "\(checkout.text)")
        let pages = HTTPClient(try #require(URL(string: "http://127.0.0.1:\(port)")))
        #expect(try await pages.send("GET", page.path()).text.contains("Pay by card"))
        _ = try await pages.send("POST", page.path(), body: Array("payment=card".utf8))
        // Some subscriptions are incomplete until a second after they are paid, and do not renew until that is said.
        let active = try await wait(client) { $0["state"] as? String == "active" && $0["will_renew"] as? Bool == true }
        let subscription = try #require(active["original_transaction_id"] as? String)
        #expect(active["source"] as? String == "web_checkout")
        let portal = try await client.send(
            "POST", "/v1/customers/c-1/portal",
            body: Array(#"{"return_url":"https://example.com/plans","environment":"sandbox"}"#.utf8),
            headers: ["Content-Type": "application/json"])
        let portalPage = try #require((portal.json["url"] as? String).flatMap { URL(string: $0) }, "\(portal.text)")
        #expect(try await pages.send("GET", portalPage.path()).text.contains(subscription))
        _ = try await pages.send(
            "POST", "/act", body: Array("deed=cancel_at_period_end&id=\(subscription)&back=/".utf8))
        _ = try await wait(client) { $0["will_renew"] as? Bool == false }
        _ = try await pages.send("POST", "/act", body: Array("deed=refund&id=\(subscription)&back=/".utf8))
        _ = try await state(of: client) { $0 == "revoked" }
        let overview = try await pages.send("GET", "/")
        #expect(overview.text.contains("answered 200") && !overview.text.contains("no answer"))
    }

    private func state(of client: HTTPClient, _ isWanted: @Sendable (String) -> Bool) async throws -> [String: Any] {
        try await wait(client) { ($0["state"] as? String).map(isWanted) ?? false }
    }

    /// Asks until the customer's `premium` is as wanted.
    private func wait(_ client: HTTPClient, _ isWanted: ([String: Any]) -> Bool) async throws -> [String: Any] {
        let deadline = ContinuousClock.now + .seconds(60)
        var last = ""
        while ContinuousClock.now < deadline {
            let answer = try await client.send(
                "GET", "/v1/customers/c-1/entitlements", query: ["environment": "sandbox"])
            last = answer.text
            let items = answer.json["entitlements"] as? [[String: Any]] ?? []
            if let premium = items.first(where: { $0["id"] as? String == "premium" }), isWanted(premium) {
                return premium
            }
            try await Task.sleep(for: .milliseconds(200))
        }
        Issue.record("it never came about: \(last)")
        return [:]
    }

    @Test("an unknown option is refused, and a file that holds no key is not taken for one")
    func refusals() async throws {
        let directory = ScratchSpaceDirectory()
        defer { directory.remove() }
        try FileManager.default.createDirectory(atPath: directory.path, withIntermediateDirectories: true)
        try Data("hello\n".utf8).write(to: URL(filePath: "\(directory.path)/stripe-secret-key"))
        for (arguments, status) in [(["--colour", "red"], Int32(2)), ([], 1)] {
            let process = Process()
            process.executableURL = try Products.url("store-simulator")
            process.arguments = ["stripe", "--data", directory.path] + arguments
            let errors = Pipe()
            process.standardError = errors
            process.standardOutput = FileHandle.nullDevice
            try await process.runWithAllSignals()
            #expect(process.waitForEnd() == status)
            let text = String(decoding: errors.fileHandleForReading.availableData, as: UTF8.self)
            #expect(text.contains(status == 2 ? "--colour" : "sk_test_") && !text.contains("hello"), "\(text)")
        }
    }
}
