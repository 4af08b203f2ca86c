import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// The console in a real browser, in a hurry: other tabs while the page is on its way, and what is pressed twice.
@Suite("The console in a browser: other tabs and hasty fingers", .serialized, .timeLimit(.minutes(10)))
struct ConsoleHasteTests {
    @Test("a grant whose answer is lost is given once, and what becomes of it is said also where its dialog is closed")
    func lostAnswer() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.cleo.id)
            let head = try await stage.client.head()
            try await browser.run(
                """
                const ask = window.fetch;
                window.fetch = async (url, options) => {
                    const answer = await ask(url, options);
                    if (!window.losing || !String(url).includes("actions/grant")) return answer;
                    await new Promise((resolve) => { window.lose = resolve; });
                    throw new TypeError("lost");
                };
                window.losing = true;
                """)
            try await browser.click("#do-grant")
            try await stage.foresee([("#entitlement", "premium"), ("#reason", "made good for an outage")])
            try await browser.click("#confirm")
            try await browser.wait("window.lose")
            try await browser.run("window.lose(); window.losing = false")
            try await browser.wait("dialog .problem[role=alert]", says: "it may have been done. Press again")
            // The button that stands there is not the one that the preview makes anew.
            try await browser.run("document.querySelector('#confirm').id = 'former'")
            try await browser.click("#preview")
            try await browser.wait("document.querySelector('#confirm')")
            try await browser.click("#confirm")
            try await browser.wait("#outcome", says: "Recorded as event \(head + 1)")
            #expect(try await stage.client.head() == head + 1)
            try await browser.press(Browser.Keys.escape)
            try await browser.wait("!document.querySelector('dialog')")

            try await browser.run("window.losing = true; window.lose = null")
            try await browser.click("#do-grant")
            try await stage.foresee([("#entitlement", "plus"), ("#reason", "made good again")])
            try await browser.click("#confirm")
            try await browser.wait("window.lose")
            try await browser.press(Browser.Keys.escape)
            try await browser.wait("!document.querySelector('dialog')")
            try await browser.run("window.lose()")
            try await browser.wait("#problem", says: "it may have been done")
        }
    }

    /// Nothing of the page listens to other tabs before all of it is there: `early.js` keeps what it asks for to itself.
    @Test("a page on its way that hears of other tabs is drawn, whoever is signed in then")
    func onItsWay() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await browser.runFirst(
                """
                const tabs = new BroadcastChannel("rightful-session");
                const timer = setInterval(() => tabs.postMessage("signed in"), 3);
                setTimeout(() => clearInterval(timer), 1500);
                """)
            var parts = try #require(URLComponents(url: stage.console, resolvingAgainstBaseURL: false))
            parts.fragment = "customer=\(stage.ann.id)"
            for _ in 0..<3 {
                try await browser.open(try #require(URL(string: "about:blank")))
                try await browser.open(try #require(parts.url))
                try await browser.wait("document.querySelector('#answer [data-entitlement]')")
            }
            // What it asks last must not meet the end of the session, which the browser would complain about.
            try await browser.wait(
                """
                performance.getEntriesByType('resource').some((one) => one.name.includes('/events?environment=sandbox'))
                """)
            try await browser.send("DELETE", "cookie", nil)
            try await browser.reload()
            try await browser.wait("document.querySelector('#key')")
            try await stage.expectCleanConsole()
        }
    }

    @Test("an answer that was asked for before an event came is not left above it")
    func early() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            // The events come after the answer, and tell of more.
            try await browser.runFirst(
                """
                const ask = window.fetch;
                window.fetch = async (url, options) => {
                    if (String(url).includes("/events?")) await new Promise((go) => { window.letGo = go; });
                    return ask(url, options);
                };
                """)
            try await browser.reload()
            try await browser.run("location.hash = arguments[0]", ["customer=\(stage.dan.id)"])
            try await browser.wait("window.letGo && document.querySelector('#answer')?.textContent")
            let granted = try await stage.client.send(
                "POST", "/v1/customers/\(stage.dan.id)/actions/grant",
                body: Array(#"{"entitlement":"gift","reason":"made good"}"#.utf8))
            #expect(granted.status == 200, "\(granted.text)")
            let start = ContinuousClock.now
            try await browser.run("window.letGo()")
            try await browser.wait("document.querySelector('#answer [data-entitlement=gift][data-access]')")
            #expect(start.duration(to: .now) < .seconds(20), "and not with what is asked for every thirty seconds")
            try await stage.expectCleanConsole()
        }
    }

    /// What is on its way while somebody signs in anew elsewhere comes to the service with a cookie that holds no more.
    @Test("an answer refused for a session that another tab replaced is not taken for the end of it")
    func replaced() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.cleo.id)
            let other = try await stage.key("customers:read,customers:write,events:read")
            let refuse = """
                window.refused = new Set();
                const ask = window.fetch;
                window.fetch = (url, options) => {
                    const isFirst = String(url).includes("/v1/") && !window.refused.has(String(url));
                    if (isFirst) window.refused.add(String(url));
                    window.lastAsked = performance.now();
                    return ask(url, isFirst ? { ...options, credentials: "omit" } : options);
                };
                window.heard = [];
                for (const kind of ["signed-out", "other-session"]) {
                    document.addEventListener(kind, () => window.heard.push(kind));
                }
                """
            try await browser.run(refuse)
            try await stage.settle()
            try await browser.run("document.dispatchEvent(new Event('visibilitychange'))")
            try await browser.wait("window.refused.size >= 2")
            try await stage.settle()
            #expect(try await browser.run("return window.heard.length") as? NSNumber == 0, "the same key goes on")
            #expect(try await browser.count("#try-again, #key") == 0)
            try await browser.click("#do-grant")
            try await browser.type("made good", into: "#reason")
            // What the form asks for must not be under way: refused before the new cookie comes, it would have the page take itself
            // for signed out, and nothing tells this page of the other session, as another tab would.
            try await browser.wait("performance.now() - window.lastAsked > 1500")
            // Whoever is busy as they are looked at asks nothing, and does when they are looked at again.
            let lookAgain = """
                window.refused.clear();
                const looks = setInterval(() => document.dispatchEvent(new Event("visibilitychange")), 500);
                document.addEventListener("other-session", () => clearInterval(looks));
                """
            try await stage.signInElsewhere(other, then: lookAgain)
            try await browser.wait("dialog", says: "Another key signed in in this browser: support.")
            #expect(try await browser.run("return window.heard.join()") as? String == "other-session")
            #expect(try await browser.count("#key") == 0)
            #expect(
                try await browser.run("return document.querySelector('#reason').value") as? String == "made good")
            try await stage.expectCleanConsole(allowing: ["status of 401"])
        }
    }

    @Test("a signing-out that did not come through is not taken for one; a used link ends no session")
    func stillSignedIn() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            for command in ["Network.enable", "Network.setBlockedURLs"] {
                try await browser.devTools(command, ["urls": ["*console/session*"]])
            }
            try await browser.click("header .account button:last-child")
            try await browser.wait("#page > .problem", says: "this browser is still signed in")
            #expect(try await browser.count("header .who") == 1)
            try await browser.devTools("Network.setBlockedURLs", ["urls": [String]()])
            let key = try await stage.installation.rightful("keys", "list").split(separator: "\n")
                .compactMap { $0.split(separator: " ").first { $0.hasPrefix("key_") } }.first
            let printed = try await stage.installation.rightful(
                "console-link", String(try #require(key)), "--url", "\(stage.service.url)")
            let link = try #require(URL(string: printed.trimmingCharacters(in: .whitespacesAndNewlines)))
            for text in ["", "was used before"] {
                try await browser.open(try #require(URL(string: "about:blank")))
                try await browser.open(link)
                try await browser.wait("document.querySelector('header .who')")
                if !text.isEmpty { try await browser.wait("#page > .problem", says: text) }
            }
            try await browser.click("header .account button:last-child")
            try await browser.wait("document.querySelector('#key')")
            try await browser.reload()
            try await browser.wait("document.querySelector('#key')")
            try await stage.expectCleanConsole(allowing: ["console/session"])
        }
    }

    @Test("a key that signs in elsewhere finds nothing of another's catalog: no draft, no trial and no undoing")
    func otherKeysCatalog() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let other = try await stage.key("admin")
            let reader = try await stage.key("customers:read,events:read")
            try await stage.signIn()
            try await browser.click("#open-catalog")
            let plan = StoreWorld.ProductID.proMonthly
            try await browser.click("[data-product='\(plan)'] td button")
            try await browser.type("archive", into: "#gives")
            try await browser.click("#take")
            try await browser.click("#try")
            try await browser.wait("document.querySelector('#apply')")
            for key in [other, reader] {
                try await stage.signInElsewhere(
                    key, then: "new BroadcastChannel('rightful-session').postMessage('signed in');")
                try await browser.wait("#page > .other-key", says: "Another key signed in")
                try await browser.wait("document.querySelector('#products tbody tr')")
                #expect(try await browser.run("return document.querySelector('#change').hidden") as? Bool == true)
                #expect(try await browser.count("#try, #apply, #undo") == 0)
                try await browser.run("location.hash = ''")
                try await browser.wait("document.querySelector('main .card')")
                try await browser.click("#open-catalog")
                try await browser.wait("document.querySelector('#products tbody tr')")
            }
            // Whose session runs out, and who comes back, goes on where they were.
            try await browser.send("DELETE", "cookie", nil)
            try await stage.signIn(other)
            try await browser.click("#open-catalog")
            try await browser.click("[data-product='\(plan)'] td button")
            try await browser.type("archive", into: "#gives")
            try await browser.click("#take")
            try await browser.send("DELETE", "cookie", nil)
            try await browser.click("#try")
            try await browser.wait("document.querySelector('#key')")
            try await browser.type(other, into: "#key")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("document.querySelector('#try')")
            try await stage.expectCleanConsole(allowing: ["status of 401"])
        }
    }

    @Test("what is pressed twice is done once, and whoever uses the keyboard stays where it was done")
    func twice() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            let click = "for (let count = 0; count < 2; count += 1) document.querySelector(arguments[0]).click();"
            try await browser.run(click, ["#do-grant"])
            try await browser.wait("document.activeElement?.id === 'entitlement'")
            #expect(try await browser.count("dialog") == 1)
            try await stage.closeDialog()
            try await browser.click("#open-catalog")
            try await browser.wait("document.querySelector('#products tbody tr')")
            let head = try await stage.client.head()
            try await browser.click("[data-product='\(StoreWorld.ProductID.proMonthly)'] td button")
            try await browser.type("archive", into: "#gives")
            try await browser.click("#take")
            try await browser.click("#try")
            for (button, count) in [("#apply", 1), ("#undo", 2)] {
                try await browser.wait("document.querySelector(arguments[0])", [button])
                try await browser.run(click, [button])
                try await browser.wait("#applied", says: "event \(head + Int64(count))")
                #expect(try await browser.run("return document.activeElement.id") as? String == "applied")
                #expect(try await browser.text("#problem") == "")
            }
            #expect(try await stage.client.head() == head + 2)
            try await stage.expectCleanConsole()
        }
    }

    @Test("what lies ahead is not told as if it had happened")
    func ahead() async throws {
        try await ConsoleStage.with { stage in
            try await stage.signIn()
            let answer = try await stage.client.send("GET", "/v1/customers/\(stage.ann.id)/entitlements").json
            let held = try #require((answer["entitlements"] as? [[String: Any]])?.first)
            let until = try #require((held["until"] as? String).flatMap { Timestamp(rfc3339: $0) })
            try await stage.show(stage.ann.id, "&at=\(until.adding(milliseconds: Span.day))")
            let text = try await stage.browser.text("#answer") ?? ""
            #expect(text.contains("nothing is known yet that gives them plus or premium"), "\(text)")
            #expect(!text.contains("They have had no"), "\(text)")
        }
    }
}
