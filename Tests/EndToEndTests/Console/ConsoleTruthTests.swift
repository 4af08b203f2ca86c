import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// The console in a real browser: what is read out is true, and nothing is done that nobody meant.
@Suite("The console in a browser: what may be relied on", .serialized, .timeLimit(.minutes(10)))
struct ConsoleTruthTests {
    /// Sends a command over HTTP, and returns its answer.
    @discardableResult
    private func order(
        _ stage: ConsoleStage, _ id: String, _ action: String, _ body: String
    ) async throws -> [String: Any] {
        let answer = try await stage.client.send(
            "POST", "/v1/customers/\(id)/actions/\(action)", body: Array(body.utf8))
        try #require(answer.status == 200, "\(answer.text)")
        return answer.json
    }

    private func events(_ stage: ConsoleStage, _ id: String, _ type: String) async throws -> [Int64] {
        let list = try await stage.client.send("GET", "/v1/customers/\(id)/events", query: ["limit": "1000"])
        let items = try #require(list.json["items"] as? [[String: Any]])
        return items.filter { $0["type"] as? String == type }
            .compactMap { ($0["position"] as? NSNumber)?.int64Value }
    }

    private func daysAhead(_ days: Int64) -> Timestamp {
        Timestamp(milliseconds: ConsoleStage.now + days * Span.day)
    }

    @Test("the date of a loss goes with the reason of that loss, and what came later is said beside it")
    func losses() async throws {
        try await ConsoleStage.with { stage in
            var story = Storyteller(world: stage.installation.world, seed: 31)
            let person = ConsoleStage.Person(6)
            let season = story.buy(
                person.account, StoreWorld.ProductID.season, at: ConsoleStage.now - 100 * Span.day)
            story.refund(season, at: ConsoleStage.now - 3 * Span.day)
            try await stage.tell(story.notifications.sorted { $0.signedDate < $1.signedDate })
            try await stage.signIn()
            try await stage.show(person.id)
            try await stage.browser.wait("#answer", says: "it ran out.")
            let said = try await stage.browser.text("#answer") ?? ""
            #expect(said.contains("They have had no season since "), "\(said)")
            #expect(said.contains(": it ran out. Also, a refund was made for it."), "\(said)")
            // Where both are one, it is said once.
            try await stage.show(stage.cleo.id)
            try await stage.browser.wait("#answer", says: ": a refund was made for it.")
            #expect(try await stage.browser.text("#answer")?.contains("Also,") == false)
            // What is only foreseen has no date of a loss.
            try await stage.browser.click("#do-grant")
            try await stage.foresee([("#entitlement", "studio"), ("#reason", "r")])
            let foreseen = try await stage.browser.text("#outcome") ?? ""
            #expect(foreseen.contains("They have no ") && foreseen.contains(": a refund was made for it."))
            try await stage.expectCleanConsole()
        }
    }

    @Test("an end is said of what ends then, and what gives access from then on is named")
    func ends() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            // Before his grace period is over, and so not the end of it.
            let grant = "{\"entitlement\":\"plus\",\"until\":\"\(daysAhead(2))\",\"reason\":\"r\"}"
            try await order(stage, stage.bob.id, "grant", grant)
            try await stage.signIn()
            try await stage.show(stage.bob.id)
            try await browser.wait("#answer", says: ": it was granted. After that they have it until ")
            let said = try await browser.text("#answer") ?? ""
            #expect(said.contains("by a grace period, for the renewal could not be charged."), "\(said)")
            #expect(said.contains("They should look at how they pay."), "\(said)")
            // The table calls what was granted so, and what is paid for and renews does not run out.
            try await browser.run("document.querySelector('details.table').open = true")
            try await browser.wait(
                "[...document.querySelectorAll('details.table tbody tr')].some((one) => /granted/.test(one.innerText))")
            try await stage.show(stage.ann.id)
            try await browser.run("document.querySelector('details.table').open = true")
            try await browser.wait("details.table tbody", says: "renews by itself")
            #expect(try await browser.text("details.table tbody")?.contains("runs out") == false)
            try await stage.expectCleanConsole()
        }
    }

    @Test("what is undone is undone once, however often it is pressed, and keeps the focus")
    func undoneOnce() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let id = "pressed-twice"
            try await order(stage, id, "grant", #"{"entitlement":"premium","reason":"r"}"#)
            try await stage.signIn()
            try await stage.show(id)
            try await browser.click("#do-revoke")
            try await stage.foresee([("#reason", "a slip")])
            #expect(try await browser.text("dialog h2")?.contains(id) == true, "whom it is about")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("#outcome", says: "Recorded as event ")
            #expect(
                try await browser.run("return document.activeElement.closest('#outcome') !== null") as? Bool == true)
            try await browser.wait("document.querySelector('#undo') && !document.querySelector('#undo').disabled")
            try await browser.run(
                "const undo = document.querySelector('#undo'); for (const _ of [1, 2, 3]) undo.click()")
            try await browser.wait("document.querySelector('#undone')")
            #expect(
                try await browser.run("return document.activeElement.closest('#outcome') !== null") as? Bool == true)
            try await stage.settle()
            #expect(try await events(stage, id, "granted").count == 2)
            try await stage.closeDialog()
            // Nor is it offered again, where it was given again.
            let revoked = try #require(try await events(stage, id, "grant_revoked").first)
            try await browser.wait("#events", says: "#\(revoked)")
            try await browser.wait("document.querySelector('#do-revoke')")
            try await browser.run(
                """
                [...document.querySelectorAll("#events button")].find((one) => one.textContent === arguments[0]).click()
                """, ["#\(revoked)"])
            try await browser.wait("dialog", says: "What it states")
            #expect(try await browser.count("#undo-event") == 0)
            try await stage.expectCleanConsole()
        }
    }

    @Test("somebody of both environments is not taken for somebody of the sandbox")
    func environments() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await order(stage, "in-both", "grant", #"{"entitlement":"premium","reason":"r"}"#)
            for id in ["in-both", "in-sandbox"] {
                try await order(
                    stage, id, "grant", #"{"entitlement":"coins","reason":"r","environment":"sandbox"}"#)
            }
            try await stage.signIn()
            try await stage.find("in-sandbox")
            try await browser.wait("#answer", says: "They have coins")
            #expect(try await browser.text("#answer")?.contains("This is the sandbox") == true)
            #expect(try await browser.count("#also-in button") == 0)
            try await stage.find("in-both")
            try await browser.wait("document.querySelectorAll('#found button').length === 2")
            try await stage.show("in-both", "&environment=sandbox")
            try await browser.wait("#also-in", says: "Also known in Production.")
            try await browser.click("#also-in button")
            try await browser.wait("#answer", says: "They have premium")
            // Somebody at whom one looks in production may have asked about the sandbox.
            try await browser.wait("#also-in", says: "Also known in Sandbox.")
            try await stage.expectCleanConsole()
        }
    }

    @Test("a form goes with whom it was opened for, and remarks an id of which nobody has heard")
    func forms() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.cleo.id)
            try await stage.show(stage.ann.id)
            try await browser.click("#do-transfer")
            try await browser.wait("dialog h2", says: stage.ann.id)
            #expect(try await browser.text("#original")?.contains(StoreWorld.ProductID.proMonthly) == true)
            try await stage.foresee([("#to", "nosuch"), ("#reason", "r")])
            try await browser.wait("#outcome", says: "Nobody is known by “nosuch”.")
            try await stage.foresee([("#to", stage.cleo.id), ("#reason", "r")])
            #expect(try await browser.text("#outcome")?.contains("Nobody is known") == false)
            try await browser.run("history.back()")
            try await browser.wait("document.querySelector('#customer')?.textContent === arguments[0]", [stage.cleo.id])
            #expect(try await browser.count("dialog") == 0)
            try await stage.expectCleanConsole()
        }
    }

    @Test("what a link moves is on the screen at once, and gone with its undoing")
    func links() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            for id in ["link-a", "link-b", "link-a"] {
                try await order(stage, id, "grant", #"{"entitlement":"premium","reason":"r"}"#)
            }
            let earliest = try #require(try await events(stage, "link-a", "granted").first)
            try await stage.signIn()
            try await stage.show("link-b")
            try await browser.wait("document.querySelectorAll('#events li').length === 1")
            try await browser.click("#do-link")
            try await stage.foresee([("#linked", "link-a"), ("#reason", "one person")])
            try await browser.click("#confirm")
            try await browser.wait("#events", says: "#\(earliest)")
            try await browser.wait("#also-known", says: "link-a")
            try await browser.wait("document.querySelector('#undo') && !document.querySelector('#undo').disabled")
            try await browser.click("#undo")
            try await browser.wait("document.querySelector('#undone')")
            try await browser.wait("#events", says: "link undone")
            try await browser.wait("document.querySelector('#also-known').hidden")
            try await browser.wait("!document.querySelector('#events').innerText.includes('#\(earliest)')")
            try await stage.closeDialog()
            try await browser.click("#do-forget")
            try await stage.foresee([("#typed", "link-b")])
            #expect(try await browser.text("dialog")?.contains("These ids are one customer") == false)
            try await stage.closeDialog()
            // Whoever had an id until it was linked elsewhere is named, and nobody is where it was its own.
            try await order(stage, "link-c", "link", #"{"customer_id":"link-a","reason":"r"}"#)
            for (id, before) in [("link-a", "link-c"), ("link-d", nil)] as [(String, String?)] {
                try await browser.click("#do-link")
                try await stage.foresee([("#linked", id), ("#reason", "one person")])
                try await browser.click("#confirm")
                try await browser.wait("document.querySelector('#undo')")
                let said = try await browser.text("#outcome") ?? ""
                #expect(said.contains("Until now") == (before != nil), "\(id): \(said)")
                if let before { #expect(said.contains("Until now it was \(before)’s."), "\(said)") }
                try await stage.closeDialog()
            }
            try await stage.expectCleanConsole()
        }
    }

    @Test("an event is called what happened, or what may have, where one word of the store's is for two things")
    func names() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            var story = Storyteller(world: stage.installation.world, seed: 32)
            let people = [ConsoleStage.Person(6), ConsoleStage.Person(7)]
            let plan = StoreWorld.ProductID.proMonthly
            _ = story.subscribe(people[0].account, to: plan, at: ConsoleStage.now - 9 * Span.day, familyShared: true)
            let own = story.subscribe(people[1].account, to: plan, at: ConsoleStage.now - 9 * Span.day)
            story.announcePrice(own, accepted: true, at: ConsoleStage.now - 8 * Span.day)
            story.planRenewal(own, as: plan, at: ConsoleStage.now - 7 * Span.day)
            try await stage.tell(story.notifications)
            try await stage.signIn()
            try await stage.show(people[0].id)
            try await browser.wait("#events", says: "shared by family")
            for part in ["#events", "#explanation"] {
                let said = try await browser.text(part) ?? ""
                #expect(!said.contains("subscribed") && !said.contains("bought a"), "she bought nothing: \(said)")
            }
            try await browser.click("#events button")
            try await browser.wait("dialog .lead", says: "shared by family")
            try await stage.closeDialog()
            try await stage.show(people[1].id)
            for said in [
                "bought a subscription", "a higher price holds: agreed to, or no consent was needed",
                "plan for the next renewal changed, or a change taken back",
            ] { try await browser.wait("#events", says: said) }
            try await stage.expectCleanConsole()
        }
    }

    @Test("before anything of somebody was known, nothing is said of what they bought")
    func before() async throws {
        try await ConsoleStage.with { stage in
            let listed = try await stage.client.send("GET", "/v1/customers/\(stage.bob.id)/events")
            let first = try #require((listed.json["items"] as? [[String: Any]])?.first?["position"] as? Int)
            try await stage.signIn()
            try await stage.show(stage.bob.id, "&known_at=\(first - 1)")
            try await stage.browser.wait("#moment", says: "before anything of them was known")
            try await stage.browser.wait("document.querySelector('#nobody')?.textContent === 'They hold nothing.'")
            try await stage.expectCleanConsole()
        }
    }

    @Test("a key that does not see everything is not told that there is nobody")
    func half() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn(try await stage.key("customers:read"))
            try await stage.show("nobody-at-all")
            try await browser.wait("#answer", says: "They hold nothing that this key may see.")
            #expect(try await browser.text("#answer")?.contains("never heard") == false)
            try await stage.find("nobody-at-all")
            try await browser.wait("#found", says: "Nobody that this key may see is known by “nobody-at-all”.")
            // A number that opens nothing is no button.
            try await stage.show(stage.ann.id)
            #expect(try await browser.text("#explanation")?.contains("#") == true)
            #expect(try await browser.count("#explanation button") == 0)
            try await stage.expectCleanConsole()
        }
    }

    @Test("the present is asked for when something ends, says how old it is when nobody is there, and is told once")
    func present() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            // By itself the page comes by each half minute, which would hide that it has waited for the end.
            try await browser.runFirst(
                """
                const every = window.setInterval;
                window.isHeld = true;
                window.setInterval = (work, wait) => every(() => { if (!window.isHeld) work(); }, wait);
                """)
            try await stage.signIn()
            let end = Int64(Date().timeIntervalSince1970 * 1000) + 30_000
            let until = Timestamp(milliseconds: end)
            try await order(
                stage, "leaving", "grant", "{\"entitlement\":\"premium\",\"until\":\"\(until)\",\"reason\":\"r\"}")
            try await stage.show("leaving")
            try await browser.wait("#answer", says: "They have premium until")
            try await browser.wait("#answer", says: "They have had no premium since")
            // Asked for again, the same is not put into the live region again.
            try await stage.settle()
            try await browser.run(
                """
                window.changes = 0;
                new MutationObserver((list) => { window.changes += list.length; }).observe(
                    document.querySelector("#answer"), { childList: true, characterData: true, subtree: true });
                window.asked = performance.getEntriesByType("resource").length;
                document.dispatchEvent(new Event("visibilitychange"));
                """)
            try await browser.wait("performance.getEntriesByType('resource').length > window.asked + 3")
            try await stage.settle()
            #expect(try await browser.run("return window.changes") as? NSNumber == 0)
            // Ten minutes later nobody has moved anything, and the timer of the page comes by.
            try await browser.run(
                "window.isHeld = false; const real = Date.now; window.real = real; Date.now = () => real() + 660000")
            try await browser.wait("#stale", says: "may be so no more")
            try await browser.run("Date.now = window.real; document.querySelector('#ask-again').click()")
            try await browser.wait("document.querySelector('#stale').hidden")
            try await stage.expectCleanConsole()
        }
    }

    @Test("where a moment cannot be asked for, no other one's answer is left, and no position beyond the log is taken")
    func unasked() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.bob.id)
            try await browser.run(
                "window.fetching = window.fetch; window.fetch = () => Promise.reject(new TypeError())")
            try await browser.click("#at-before")
            try await browser.wait("document.querySelector('#try-again')")
            #expect(try await browser.count("#answer .sentence") == 0)
            try await browser.run("window.fetch = window.fetching")
            try await browser.click("#try-again")
            try await browser.wait(
                "document.querySelector('#answer .sentence') && !document.querySelector('#try-again')")
            #expect(try await browser.text("#moment")?.hasPrefix("On ") == true)
            try await browser.type("999999999", into: "#known-field")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait(".sliders .problem", says: "The log ends at event")
            // Nor what a browser would guess to be a date.
            for text in ["05/11/2026", "-1", "5 Nov 2026"] {
                try await browser.type(text, into: "#known-field")
                try await browser.press(Browser.Keys.enter)
                try await browser.wait(".sliders .problem", says: "That is neither a position nor a time")
            }
            #expect(try await browser.fragment().contains("known_at") == false)
            let day = Timestamp(milliseconds: ConsoleStage.now).description.prefix(10)
            try await browser.type("\(day) 00:00:00Z", into: "#known-field")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("decodeURIComponent(location.hash).includes('known_at=\(day)T00:00:00.000Z')")
            // It is said as people say it.
            try await browser.wait("#moment", says: "as known at ")
            let moment = try await browser.text("#moment") ?? ""
            #expect(moment.contains("as known at ") && !moment.contains("T00:00"), "\(moment)")
            try await stage.expectCleanConsole()
        }
    }

    @Test("a key that signs in in the same browser is named before anything is done in its name")
    func otherKey() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.cleo.id)
            let other = try await stage.key("customers:read,customers:write,events:read")
            try await browser.click("#do-grant")
            try await browser.type("premium", into: "#entitlement")
            try await browser.type("made good", into: "#reason")
            let head = try await stage.client.head()
            try await stage.signInElsewhere(other, then: "window.isIn = true;")
            try await browser.wait("window.isIn")
            try await browser.click("#preview")
            try await browser.wait("dialog", says: "Another key signed in in this browser: support.")
            #expect(try await stage.client.head() == head, "nothing was done")
            #expect(try await browser.text(".who")?.contains("support") == true)
            #expect(try await browser.run("return document.querySelector('#reason').value") as? String == "made good")
            try await browser.click("#preview")
            try await browser.wait("document.activeElement?.id === 'confirm'")
            try await stage.expectCleanConsole(allowing: ["status of 403"])
        }
    }
}
