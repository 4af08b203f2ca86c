import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// The console in a real browser: whose a purchase is, and what is said of who is locked out because of it.
@Suite("The console in a browser: what is another's", .serialized, .timeLimit(.minutes(10)))
struct ConsoleOwnerTests {
    /// Has a device of a customer show a purchase of somebody else's, as the store signed it.
    private func claim(_ stage: ConsoleStage, of owner: String, by claimant: String) async throws -> String {
        let list = try await stage.client.send("GET", "/v1/customers/\(owner)/events", query: ["limit": "1000"])
        let items = try #require(list.json["items"] as? [[String: Any]])
        let event = try #require(items.last { $0["original_transaction_id"] is String })
        let position = try #require(event["position"] as? NSNumber)
        let told = try await stage.client.send("GET", "/v1/events/\(position)").json
        let payload = (told["evidence"] as? [String: Any])?["payload"] as? [String: Any]
        let data = try #require(payload?["data"] as? [String: Any])
        let body: [String: Any] = [
            "app": stage.installation.world.bundleID,
            "signed_transactions": [try #require(data["signedTransactionInfo"])],
            "signed_renewal_infos": [data["signedRenewalInfo"]].compactMap(\.self),
        ]
        let bytes = Array(try JSONSerialization.data(withJSONObject: body))
        let answer = try await stage.client.send("POST", "/v1/customers/\(claimant)/reconcile", body: bytes)
        try #require(answer.status == 200, "\(answer.text)")
        return try #require(event["original_transaction_id"] as? String)
    }

    @Test("whoever claims another's purchase is told so first, and is offered neither its days nor its transfer")
    func claimed() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let original = try await claim(stage, of: stage.ann.id, by: "partner")
            try await stage.signIn()
            try await stage.show("partner")
            try await browser.wait("#answer", says: "A device of theirs shows the purchase \(original)")
            try await browser.wait("#answer", says: "which is \(stage.ann.id)’s.")
            let said = try await browser.text("#answer") ?? ""
            #expect(said.contains("They hold nothing.") && !said.contains("never did"), "\(said)")
            #expect(try await browser.texts("#explanation h3").first == "Claimed, and somebody else’s")
            // The lane says whose it is, and what is chosen does.
            try await browser.wait(
                "document.querySelector('.timeline')?.textContent.includes(arguments[0])",
                ["another customer’s (\(stage.ann.id)) · "])
            try await stage.settle()
            try await browser.wait("document.querySelector('#do-check')")
            #expect(try await browser.count("#do-extend") == 0)
            try await browser.click("#do-transfer")
            try await browser.wait("document.querySelector('#original')")
            #expect(try await browser.text("#original")?.contains(original) == false)
            try await stage.closeDialog()
            try await browser.click("#do-check")
            try await browser.wait("#owner", says: "It is another customer’s (\(stage.ann.id)).")
            #expect(try await browser.text("#original")?.contains("another customer’s") == true)
            try await browser.click("#owner button")
            try await browser.wait("document.querySelector('#customer')?.textContent === arguments[0]", [stage.ann.id])
            #expect(try await browser.count("dialog") == 0)
            // The plan says whose it is, also where the id is typed, and is not carried out for anybody else.
            let other = try await claim(stage, of: stage.bob.id, by: stage.ann.id)
            try await browser.click("#do-extend")
            try await browser.wait("document.querySelector('#original [value=typed]')")
            try await browser.run(
                """
                const choice = document.querySelector("#original");
                choice.value = "typed";
                choice.dispatchEvent(new Event("change", { bubbles: true }));
                """)
            try await browser.type(other, into: "#typed-original")
            try await browser.type("they asked", into: "#reason")
            try await browser.click("#preview")
            try await browser.wait("dialog .problem[role=alert]", says: "That is \(stage.bob.id)’s")
            #expect(try await browser.count("#confirm") == 0)
            let plan = try await stage.client.send(
                "POST", "/v1/subscriptions/\(other)/actions/extend",
                body: Array(#"{"days":5,"reason_code":"other","reason":"r","dry_run":true}"#.utf8))
            #expect(plan.json["customer_id"] as? String == stage.bob.id, "\(plan.text)")
            try await stage.expectCleanConsole()
        }
    }

    @Test("that nothing ever gave them anything is said of whom nothing else is known, not after an undone link")
    func undone() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let path = "/v1/customers/c-9/actions/link"
            let body = #"{"customer_id":"\#(stage.bob.id)","reason":"r"}"#
            let linked = try await stage.client.send("POST", path, body: Array(body.utf8))
            let position = try #require(linked.json["position"] as? NSNumber, "\(linked.text)")
            let undone = try await stage.client.send(
                "POST", path, body: Array(#"{"undo":\#(position),"reason":"r"}"#.utf8))
            #expect(undone.status == 200, "\(undone.text)")
            try await stage.signIn()
            try await stage.show("c-9")
            try await browser.wait("#events", says: "linked")
            try await browser.wait("#answer", says: "They hold nothing.")
            #expect(try await browser.text("#answer")?.contains("never did") == false)
            try await stage.expectCleanConsole()
        }
    }

    @Test("of many purchases the newest is there, and how many are left out is said")
    func many() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let person = ConsoleStage.Person(6)
            var story = Storyteller(world: stage.installation.world, seed: 33)
            var newest = ""
            for number in 0..<45 {
                let bought = story.buy(
                    person.account, StoreWorld.ProductID.coins, at: ConsoleStage.now - Int64(60 - number) * Span.day)
                newest = bought.originalTransactionID
            }
            try await stage.tell(story.notifications)
            try await stage.signIn()
            try await stage.show(person.id)
            try await browser.wait("#unread", says: "5 further purchases are not drawn")
            // What decides nothing is read after all else.
            for _ in 0..<40 {
                try await browser.wait("document.querySelector('#do-check')")
                try await browser.click("#do-check")
                try await browser.wait("document.querySelector('#original')")
                if try await browser.count("#original option") == 41 { break }
                try await stage.closeDialog()
            }
            #expect(
                try await browser.run("return document.querySelector('#original').value") as? String == newest)
            #expect(try await browser.count("#original option") == 41)
            try await stage.expectCleanConsole()
        }
    }

    @Test("of many grants the first is taken back as the last is, and how many are not drawn is said")
    func manyGrants() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let path = "/v1/customers/often-given/actions"
            let lasting = try await stage.client.send(
                "POST", "\(path)/grant", body: Array(#"{"entitlement":"premium","reason":"for good"}"#.utf8))
            let first = try #require(lasting.json["grant_id"] as? String, "\(lasting.text)")
            for number in 1...41 {
                let given = try await stage.client.send(
                    "POST", "\(path)/grant", body: Array(#"{"entitlement":"plus","reason":"\#(number)"}"#.utf8))
                guard number == 41 else { continue }
                let last = try #require(given.json["grant_id"] as? String)
                _ = try await stage.client.send(
                    "POST", "\(path)/revoke_grant", body: Array(#"{"grant_id":"\#(last)","reason":"r"}"#.utf8))
            }
            try await stage.signIn()
            try await stage.show("often-given")
            try await browser.wait("#undrawn", says: "2 earlier grants are not drawn.")
            try await browser.click("#do-revoke")
            try await browser.wait("document.querySelectorAll('#grant option').length === 41")
            try await browser.run("document.querySelector('#grant').value = arguments[0]", [first])
            try await stage.foresee([("#reason", "it was for a year")])
            let (_, event) = try await stage.confirm()
            let facts = event["facts"] as? [String: Any]
            #expect(facts?["grant_id"] as? String == first, "\(event)")
            try await stage.expectCleanConsole()
        }
    }

    @Test("a tab that shows somebody who was forgotten elsewhere says that nobody is known, as a grant from there does")
    func forgottenElsewhere() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.bob.id)
            try await browser.wait("document.querySelector('#events li')")
            let gone = try await stage.client.send(
                "POST", "/v1/customers/\(stage.bob.id)/actions/forget",
                body: Array(#"{"confirm":"\#(stage.bob.id)"}"#.utf8))
            #expect(gone.status == 200, "\(gone.text)")
            try await browser.run("document.dispatchEvent(new Event('visibilitychange'))")
            try await browser.wait("#answer", says: "Nobody is known by “\(stage.bob.id)”.")
            try await browser.wait("!document.querySelector('#events li')")
            try await browser.wait("!document.querySelector('#do-forget')")
            try await browser.click("#do-grant")
            try await stage.foresee([("#entitlement", "premium"), ("#reason", "r")])
            #expect(try await browser.text("#outcome .problem")?.contains("Nobody is known by") == true)
            try await stage.expectCleanConsole()
        }
    }

    @Test("what a renewal is to give is read off the catalog of the moment that is shown, on a page left open, too")
    func catalogOfMoment() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let (person, news) = (ConsoleStage.Person(7), StoreWorld.ProductID.newsMonthly)
            var story = Storyteller(world: stage.installation.world, seed: 34)
            let bought = story.subscribe(
                person.account, to: StoreWorld.ProductID.proMonthly, at: ConsoleStage.now - 9 * Span.day)
            story.planRenewal(bought, as: news, at: ConsoleStage.now - 7 * Span.day)
            try await stage.tell(story.notifications)
            let before = try await stage.client.head()
            try await stage.signIn()
            try await stage.show(person.id)
            let less = "It is to renew as \(news) then, which does not give "
            try await browser.wait("#answer", says: less)
            var world = stage.installation.world
            world.mappings = world.mappings.filter { $0.productID != news }
            world.mappings.append(CatalogMapping(news, ["news", "premium", "plus"]))
            let file = Array(try world.catalogFile.encoded())
            #expect(try await stage.client.send("PUT", "/v1/catalog", body: file).status == 200)
            try await browser.run("document.dispatchEvent(new Event('visibilitychange'))")
            try await browser.wait("#answer", says: "It is to renew as \(news) then.")
            try await stage.show(person.id, "&known_at=\(before)")
            try await browser.wait("#answer", says: less)
            try await stage.expectCleanConsole()
        }
    }

    @Test("a renewal that awaits consent, or is of something that gives less, is not said to be made by itself")
    func renewals() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let people = [ConsoleStage.Person(6), ConsoleStage.Person(7)]
            var story = Storyteller(world: stage.installation.world, seed: 34)
            let plan = StoreWorld.ProductID.proMonthly
            let news = StoreWorld.ProductID.newsMonthly
            let first = story.subscribe(people[0].account, to: plan, at: ConsoleStage.now - 9 * Span.day)
            story.announcePrice(first, accepted: false, at: ConsoleStage.now - 8 * Span.day)
            let second = story.subscribe(people[1].account, to: plan, at: ConsoleStage.now - 9 * Span.day)
            story.planRenewal(second, as: news, at: ConsoleStage.now - 7 * Span.day)
            try await stage.tell(story.notifications)
            try await stage.signIn()
            let said = [
                "It renews only if they agree to the higher price; that they did is not heard of yet.",
                "It is to renew as \(news) then, which does not give ",
            ]
            // Now, and at another instant.
            for more in ["", "&at=\(Timestamp(milliseconds: ConsoleStage.now - Span.day))"] {
                for (person, sentence) in zip(people, said) {
                    try await stage.show(person.id, more)
                    try await browser.wait("#answer", says: sentence)
                    #expect(try await browser.text("#answer")?.contains("renews by itself") == false)
                }
            }
            // What is only foreseen promises nothing either.
            try await browser.click("#do-grant")
            try await stage.foresee([("#entitlement", "archive"), ("#reason", "r")])
            let foreseen = try await browser.text("#outcome") ?? ""
            #expect(foreseen.contains("It is set to renew.") && !foreseen.contains("by itself"), "\(foreseen)")
            try await stage.expectCleanConsole()
        }
    }
}
