import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// The console in a real browser: who is let in, and finding a customer.
@Suite("The console in a browser: signing in and finding", .serialized, .timeLimit(.minutes(10)))
struct ConsoleTests {
    @Test("a person signs in with a key that is kept nowhere, stays so over a reload, and signs out of everything")
    func signingIn() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await browser.open(stage.console)
            try await browser.wait("document.activeElement?.id === 'key'")
            try await browser.type("rightful_sk_wrong", into: "#key")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("#sign-in-problem", says: "The API key is unknown")
            let publishable = try await stage.key("publishable", "--app", stage.installation.world.bundleID)
            try await browser.type(publishable, into: "#key")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("#sign-in-problem", says: "publishable")
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            try await browser.click("#pin")

            let kept = try await browser.run(
                """
                return [document.documentElement.outerHTML, JSON.stringify(localStorage), JSON.stringify(sessionStorage),
                    document.cookie, location.href].join("\\n")
                """)
            let text = try #require(kept as? String)
            #expect(!text.contains(stage.admin) && !text.contains("rightful_cs_"))
            #expect(text.contains("rightful.pinned") && text.contains(stage.ann.id))
            try await browser.reload()
            try await browser.wait("document.querySelector('#customer')?.textContent === arguments[0]", [stage.ann.id])

            let cookie = try #require(try await browser.send("GET", "cookie", nil) as? [[String: Any]]).first
            let session = try #require(cookie?["value"] as? String)
            #expect(cookie?["httpOnly"] as? Bool == true && cookie?["sameSite"] as? String == "Strict")
            try await browser.run("[...document.querySelectorAll('header button')].at(-1).click()")
            try await browser.wait("document.querySelector('#key')")
            #expect(try await browser.run("return localStorage.length") as? NSNumber == 0)
            #expect(try await browser.fragment().isEmpty)
            let after = try await HTTPClient(stage.service.url).send(
                "GET", "/v1/ledger", headers: ["Cookie": "rightful_session=\(session)"])
            #expect(after.status == 401)
            // What the page had asked for when it was left is refused.
            try await stage.expectCleanConsole(
                allowing: ["console/session - Failed to load resource", "status of 401"])
        }
    }

    @Test("a link signs in once, and is gone from the address")
    func links() async throws {
        try await ConsoleStage.with { stage in
            let key = try await stage.installation.rightful("keys", "list").split(separator: "\n")
                .compactMap { $0.split(separator: " ").first { $0.hasPrefix("key_") } }.first
            let printed = try await stage.installation.rightful(
                "console-link", String(try #require(key)), "--url", "\(stage.service.url)/console/")
            let link = try #require(URL(string: printed.trimmingCharacters(in: .whitespacesAndNewlines)))
            #expect(link.path() == "/console")
            try await stage.browser.open(link)
            try await stage.browser.wait("document.querySelector('#find')")
            #expect(try await stage.browser.fragment().isEmpty)
            try await stage.expectCleanConsole()
            try await stage.browser.send("DELETE", "cookie", nil)
            try await stage.browser.open(try #require(URL(string: "about:blank")))
            try await stage.browser.open(link)
            try await stage.browser.wait("#sign-in-problem", says: "was used before")
            // The installation names no port.
            #expect(try await stage.installation.run(["console-link"]).errors.contains("--url"))
            for url in ["localhost", "http://local host/", "http://localhost/?a"] {
                #expect(try await stage.installation.run(["console-link", "--url", url]).status == 2, "\(url)")
            }
            let nobody = try await stage.installation.run(["console-link", "key_none", "--url", "http://localhost"])
            #expect(nobody.status == 1 && nobody.errors.contains("key_none"))
        }
    }

    @Test("one field finds a customer by whatever id there is; one that was made up says so")
    func finding() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            let events = try await stage.client.send("GET", "/v1/customers/\(stage.ann.id)/events")
            let items = try #require(events.json["items"] as? [[String: Any]])
            let last = try #require(items.last)
            let ids = try [
                stage.ann.id, stage.ann.id.uppercased(), #require(last["original_transaction_id"] as? String),
                #require(last["transaction_id"] as? String), "700000000000000001",
            ]
            for id in ids {
                try await browser.run("location.hash = ''")
                try await browser.wait("!document.querySelector('#customer')")
                try await stage.find(id)
                try await browser.wait(
                    "document.querySelector('#customer')?.textContent === arguments[0]", [stage.ann.id])
            }
            try await stage.find("made-up")
            try await browser.wait("#found", says: "Nobody and nothing is known by “made-up”")
            // Whoever is sent an address of nobody is told so, too.
            try await stage.show("nobody-at-all")
            try await browser.wait("#answer", says: "Nobody is known by “nobody-at-all”")
            try await browser.click("header h1 button")
            try await browser.wait("document.querySelector('.customers')")
            #expect(try await browser.texts(".customers button").contains(stage.ann.id))
            try await stage.expectCleanConsole()
        }
    }

    @Test("an id with markup in it is text, wherever it is shown")
    func markup() async throws {
        try await ConsoleStage.with { stage in
            let id = #"<img src=x onerror="document.title='owned'"><b>bold"#
            let grant = try await stage.client.send(
                "POST", "/v1/customers/\(id)/actions/grant",
                body: Array(#"{"entitlement":"<b>premium</b>","reason":"<i onclick=alert(1)>because</i>"}"#.utf8))
            #expect(grant.status == 200, "\(grant.text)")
            try await stage.signIn()
            try await stage.find(id)
            try await stage.browser.wait("document.querySelector('#customer')?.textContent === arguments[0]", [id])
            try await stage.settle()
            try await stage.browser.wait("#answer", says: "They have <b>premium</b>")
            try await stage.browser.click("#events button")
            try await stage.browser.wait("dialog", says: "<i onclick=alert(1)>because</i>")
            #expect(try await stage.browser.count("main img, main script, main b, dialog i") == 0)
            #expect(try await stage.browser.run("return document.title") as? String == "\(id) – Rightful")
            try await stage.expectCleanConsole()
        }
    }

    @Test("a session that ended asks to sign in again; a command without the page's token is refused")
    func endedSession() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            let head = try await stage.client.head()
            let status = try await browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const done = arguments[arguments.length - 1];
                    fetch("v1/customers/c/actions/grant", { method: "POST", body: '{"entitlement":"premium","reason":"x"}' })
                        .then((answer) => done(answer.status));
                    """, "args": [Any](),
                ])
            #expect(status as? NSNumber == 403)
            #expect(try await stage.client.head() == head)
            try await stage.installation.asOwner("DELETE FROM console_session")
            // What the page asks for by itself may have been refused already.
            try await browser.run("document.querySelector('#at-before')?.click()")
            try await browser.wait("#sign-in-problem", says: "The session has ended")
            #expect(try await browser.count("#customer") == 0)
            // Whoever signs in again is where they were.
            try await browser.type(stage.admin, into: "#key")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("document.querySelector('#customer')?.textContent === arguments[0]", [stage.ann.id])
        }
    }

    @Test("what a key may not do is not offered, and what it may is")
    func rights() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn(try await stage.key("customers:read", "--environment", "production"))
            try await stage.show(stage.bob.id)
            #expect(try await browser.count("#events, #commands button, #environment") == 0)
            #expect(try await browser.text("#answer")?.contains("grace period") == true)
            try await browser.click("#known-before")
            try await browser.wait("location.hash.includes('known_at=')")
            try await stage.settle()
            try await stage.expectCleanConsole()

            let bound = try await stage.key(
                "customers:read,customers:write,events:read", "--app", stage.installation.world.bundleID)
            try await browser.send("DELETE", "cookie", nil)
            try await stage.signIn(bound)
            try await stage.show(stage.ann.id)
            try await browser.wait("document.querySelector('#do-transfer')")
            #expect(try await browser.count("#do-grant, #do-link, #do-revoke") == 0)
            // What is nobody's is given by a key of every app alone.
            try await browser.click("#do-transfer")
            try await browser.wait("document.querySelector('#original option')")
            #expect(try await browser.count("#original option[value=nobodys]") == 0)
            try await stage.closeDialog()
            try await stage.show("nobody-at-all")
            #expect(try await browser.count("#do-transfer") == 0)
            try await stage.expectCleanConsole()
        }
    }
}
