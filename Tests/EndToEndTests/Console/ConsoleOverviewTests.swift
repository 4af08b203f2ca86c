import Foundation
import StoreSimulator
import Testing

/// The console in a real browser: the service as a whole.
@Suite("The console in a browser: the service as a whole", .serialized, .timeLimit(.minutes(10)))
struct ConsoleOverviewTests {
    @Test("the log, its views, streams, differences, endpoints and news are there, and news come while one looks")
    func overview() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            let made = try await stage.client.send(
                "POST", "/v1/webhook_endpoints", body: Array(#"{"url":"https://example.com/%3Cb%3Etold"}"#.utf8))
            #expect(made.status == 200, "\(made.text)")
            try await browser.click("#open-service")
            let head = try await stage.client.head()
            try await browser.wait("#head", says: "\(head) events")
            try await browser.wait("#streams", says: stage.installation.world.bundleID)
            try await browser.wait("#unexplained", says: "No difference is unexplained.")
            try await browser.wait("#endpoints", says: "https://example.com/%3Cb%3Etold")
            let views = try await stage.client.send("GET", "/v1/ledger").json["projections"] as? [[String: Any]]
            #expect(try await browser.count("#log tbody tr") == views?.count)
            try await browser.wait("#feed li", says: "webhook endpoint made")
            #expect(try await browser.count("#feed li") == Int(head))
            _ = try await stage.client.send(
                "POST", "/v1/customers/c-new/actions/grant",
                body: Array(#"{"entitlement":"premium","reason":"r"}"#.utf8))
            try await browser.wait("#feed li", says: "granted")
            #expect(try await browser.text("#feed li")?.contains("#\(head + 1)") == true)
            try await browser.wait("#head", says: "\(head + 1) events")
            // From there to the customer, and back by the browser.
            try await browser.click("#feed li .id")
            try await browser.wait("document.querySelector('#customer')?.textContent === 'c-new'")
            try await browser.run("history.back()")
            try await browser.wait("document.querySelector('#overview')")
            try await stage.expectCleanConsole()

            try await browser.send("DELETE", "cookie", nil)
            try await stage.signIn(try await stage.key("events:read"))
            try await browser.wait("#feed", says: "granted")
            #expect(try await browser.count("#find, #feed .link.id") == 0, "that takes customers:read")
            #expect(try await browser.count("#endpoints") == 0, "that takes admin")
            try await browser.send("DELETE", "cookie", nil)
            try await stage.signIn(try await stage.key("customers:read"))
            #expect(try await browser.count("#open-service") == 0)
            #expect(try await browser.count("#open-catalog") == 1)
        }
    }
}
