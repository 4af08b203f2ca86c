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

    @Test("what is not known is on the overview, with an event of it, and a slash behind the address does not matter")
    func unknown() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            var story = Storyteller(world: stage.installation.world, seed: 5)
            _ = story.subscribe(
                ConsoleStage.Person(8).account, to: StoreWorld.ProductID.proMonthly, at: ConsoleStage.now - Span.day)
            var odd = try #require(story.notifications.first)
            odd.payload["notificationType"] = .string("A_NEW_ONE")
            _ = story.buy(ConsoleStage.Person(8).account, StoreWorld.ProductID.season, at: ConsoleStage.now - Span.day)
            try await stage.tell([odd, #require(story.notifications.last)])
            let without =
                #"{"products":[{"product_id":"\#(StoreWorld.ProductID.season)","entitlements":["premium"]}]}"#
            #expect(try await stage.client.send("PUT", "/v1/catalog", body: Array(without.utf8)).status == 200)
            let slash = try #require(URL(string: "\(stage.console)/"))
            try await stage.signIn(at: slash)
            #expect(try await browser.run("return location.pathname") as? String == "/console")
            try await browser.click("#open-service")
            try await browser.wait("#seen", says: "Notifications of an unknown type")
            try await browser.wait("#seen", says: StoreWorld.ProductID.proMonthly)
            let said = try await stage.client.send("GET", "/v1/remarks").json
            let products = try #require(said["unmapped_products"] as? [[String: Any]])
            let endless = try #require(said["products_without_duration"] as? [[String: Any]])
            #expect(endless.map { $0["name"] as? String } == [StoreWorld.ProductID.season])
            #expect(try await browser.count("#seen code") == products.count + endless.count)
            try await browser.wait("#seen", says: "says no duration")
            try await browser.click("#seen ul:last-of-type button")
            try await browser.wait("dialog", says: "What it states")
            try await stage.expectCleanConsole()
            let bound = HTTPClient(
                stage.service.url, key: try await stage.key("events:read", "--app", stage.installation.world.bundleID))
            #expect(try await bound.send("GET", "/v1/remarks").status == 403)
        }
    }
}
