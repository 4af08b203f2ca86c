import Foundation
import StoreSimulator
import TestSupport
import Testing

/// The console in a real browser, before a customer of whom very much is known.
@Suite("The console in a browser: thousands of events", .serialized, .timeLimit(.minutes(10)))
struct ConsoleLongLifeTests {
    private static let count = Campaign.factor > 1 ? 10_000 : 3000
    private static let workers = 8

    /// Somebody buys the yearly plan, and switches its renewal off and on, again and again.
    private func tell(_ stage: ConsoleStage, of account: StoreAccount) async throws {
        var story = Storyteller(world: stage.installation.world, seed: 16)
        let begin = ConsoleStage.now - 300 * Span.day
        let key = story.subscribe(account, to: StoreWorld.ProductID.proYearly, at: begin)
        for number in 1..<Self.count {
            story.setAutoRenew(key, number.isMultiple(of: 2), at: begin + Int64(number) * 40 * 60_000)
        }
        let notifications = story.notifications
        #expect(notifications.count == Self.count)
        let (authority, client) = (stage.installation.authority, stage.client)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<Self.workers {
                group.addTask {
                    for index in stride(from: worker, to: notifications.count, by: Self.workers) {
                        let answer = try await client.notify(authority.sign(notifications[index]))
                        try #require(answer.status == 200, "\(answer.text)")
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("thousands of events are listed by pages, reached by the slider, and leave the page small")
    func longLife() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let somebody = ConsoleStage.Person(7)
            try await tell(stage, of: somebody.account)
            try await stage.signIn()
            try await browser.run("location.hash = arguments[0]", ["customer=\(somebody.id)"])
            try await browser.wait("#answer", says: "They have")
            try await browser.wait("document.querySelector('#known-slider')?.max === '\(Self.count)'")
            try await browser.wait("#events .pages", says: "Page 1 of \(Self.count / 50) (\(Self.count) in all)")
            #expect(try await browser.count("#events li") == 50)
            try await browser.click("#events .pages button:last-child")
            try await browser.wait("#events .pages", says: "Page 2 of \(Self.count / 50)")
            // Asked for again, what is read stays where it is.
            try await browser.run(
                """
                window.row = document.querySelector("#events li");
                window.asked = performance.getEntriesByType("resource").length;
                document.dispatchEvent(new Event("visibilitychange"));
                """)
            try await browser.wait(
                """
                performance.getEntriesByType("resource").slice(window.asked).filter((one) => /\\/events\\?/.test(one.name)).length > 0
                    && performance.getEntriesByType("resource").slice(window.asked).some((one) => one.name.includes("/explain"))
                """)
            try await stage.settle()
            #expect(try await browser.text("#events .pages")?.contains("Page 2 of \(Self.count / 50)") == true)
            #expect(try await browser.run("return window.row.isConnected") as? Bool == true)
            // Half of it known.
            try await browser.run(
                """
                const slider = document.querySelector("#known-slider");
                slider.value = \(Self.count / 2);
                slider.dispatchEvent(new Event("input", { bubbles: true }));
                """)
            try await browser.wait("#not-known", says: "\(Self.count / 2) later events were not known then")
            try await browser.wait("!document.querySelector('main').ariaBusy")
            try await browser.wait("location.hash.includes('known_at=')")
            let position = try #require(try await browser.fragment().split(separator: "known_at=").last)
            let told = try await stage.client.send(
                "GET", "/v1/customers/\(somebody.id)/entitlements", query: ["known_at": String(position)])
            let held = try #require(told.json["entitlements"] as? [[String: Any]])
            #expect(!held.isEmpty)
            let shown = try #require(try await browser.text("#answer"))
            for one in held {
                let words = one["will_renew"] as? Bool == true ? "It renews by itself then." : "It will not renew."
                #expect(shown.contains(words), "\(shown)")
            }
            let nodes = try #require(
                try await browser.run("return document.querySelectorAll('*').length") as? NSNumber)
            #expect(nodes.intValue < 10_000)
            try await stage.expectCleanConsole()
        }
    }
}
