import EntitlementCore
import Foundation
import StoreSimulator
import TestSupport
import Testing

/// The console in a real browser, of a service that may ask the App Store and Stripe.
@Suite("The console in a browser: what stores are asked", .serialized, .timeLimit(.minutes(10)))
struct ConsoleStoreTests {
    /// A console stage beside a simulated store and a simulated Stripe.
    private struct Shops {
        let console: ConsoleStage
        let store: StoreAPIStage
        let web: WebLife

        func deliver(_ event: StripeEventEntry) async throws {
            let body = event.json(.recent).json
            let answer = try await console.client.send(
                "POST", "/v1/notifications/stripe", body: body,
                headers: [
                    "Content-Type": "application/json",
                    "Stripe-Signature": StripeSigner.header(body, secrets: [StripeStage.secret], at: StoreAPIStage.now),
                ])
            #expect(answer.status == 200, "\(event.id): \(answer.text)")
        }
    }

    /// - Parameter others: lives that Stripe has in its books, too.
    private func with(_ others: [WebLife] = [], _ play: (Shops) async throws -> Void) async throws {
        let web = WebLife.recent(
            seed: 7, customers: ["web-1", "web-2"], until: StoreAPIStage.now + 25 * Span.day, isReadable: true)
        let stripe = SimulatedStripe(
            .production, key: StripeStage.key, lives: [web] + others, now: { StoreAPIStage.now })
        let server = try HTTPServerBox(stripe)
        let settings = StripeStage.settings(at: server.url).merging(
            ["webhooks": ["allow_private_addresses": true] as [String: any Sendable]]) { $1 }
        let store = try await StoreAPIStage(world: .standardOnWeb, settings: settings)
        try StripeStage.writeSecrets(of: store.installation)
        do {
            try await ConsoleStage.with(store.installation, sign: { try store.send($0) }) { console in
                try await play(Shops(console: console, store: store, web: web))
            }
        } catch {
            await server.stop()
            await store.remove()
            throw error
        }
        await server.stop()
        await store.remove()
    }

    private func until(_ stage: ConsoleStage, _ id: String) async throws -> String? {
        let answer = try await stage.client.send("GET", "/v1/customers/\(id)/entitlements")
        return (answer.json["entitlements"] as? [[String: Any]])?.first?["until"] as? String
    }

    private func original(_ stage: ConsoleStage, _ id: String) async throws -> String {
        let events = try await stage.client.send("GET", "/v1/customers/\(id)/events")
        let items = try #require(events.json["items"] as? [[String: Any]])
        return try #require(items.compactMap { $0["original_transaction_id"] as? String }.first)
    }

    @Test("days are given after they were shown, with who did it and why; what the store will not do is said before")
    func extend() async throws {
        try await with { shops in
            let (stage, browser) = (shops.console, shops.console.browser)
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            let before = try #require(try await until(stage, stage.ann.id))
            try await browser.click("#do-extend")
            try await stage.foresee([("#days", "5"), ("#reason", "the outage of May")])
            #expect(try await browser.texts("#outcome .sides").count == 1)
            #expect(try await browser.text("#outcome")?.contains("extended 0 times") == true)
            #expect(try await stage.count("extension_requested") == 0, "nothing was sent")
            let (_, ordered) = try await stage.confirm()
            #expect(ordered["type"] as? String == "extension_requested")
            let after = try #require(try await until(stage, stage.ann.id))
            let span =
                try #require(Timestamp(rfc3339: after)).milliseconds - #require(Timestamp(rfc3339: before)).milliseconds
            #expect(span == 5 * Span.day)
            let facts = "\(ordered["facts"] ?? "")"
            #expect(facts.contains("the outage of May") && facts.contains("test"), "\(facts)")
            try await stage.closeDialog()
            // Two people who answer one complaint do not give twice, unless they say so.
            try await browser.click("#do-extend")
            try await stage.foresee([("#reason", "once more")])
            #expect(try await browser.text("#outcome .problem")?.contains("less than 24 hours ago") == true)
            try await browser.click("#confirm")
            try await browser.wait("dialog .problem", says: "less than 24 hours ago")
            #expect(try await until(stage, stage.ann.id) == after)
            try await stage.closeDialog()
            try await stage.show(stage.cleo.id)
            try await browser.click("#do-extend")
            try await stage.foresee([("#reason", "she asked")])
            #expect(try await browser.text("#outcome .problem")?.contains("it was refunded") == true)
            try await stage.expectCleanConsole(allowing: ["status of 422"])
        }
    }

    @Test("what the store was not heard to say is asked for, recorded and shown; of what is bought once, that it is")
    func check() async throws {
        try await with { shops in
            let (stage, browser) = (shops.console, shops.console.browser)
            var story = Storyteller(world: .standardOnWeb, seed: 99)
            let person = ConsoleStage.Person(9)
            let key = story.subscribe(
                person.account, to: StoreWorld.ProductID.proMonthly, at: ConsoleStage.now - 40 * Span.day)
            story.renew(key)
            let told = story.notifications.sorted { $0.signedDate < $1.signedDate }
            try await stage.tell([told[0]])
            for lost in told.dropFirst() { _ = try shops.store.send(lost) }
            try await stage.signIn()
            try await stage.show(person.id)
            #expect(try await browser.text("#answer")?.contains("They have had no") == true)
            try await browser.click("#do-check")
            try await browser.click("#preview")
            try await browser.wait("#outcome", says: "recorded")
            #expect(try await browser.text("#outcome")?.contains("The store says: paid") == true)
            try await browser.wait("#answer", says: "It renews by itself then.")
            try await stage.closeDialog()
            // Of these the store names no state.
            let owner = ConsoleStage.Person(8)
            let lifetime = story.buy(
                owner.account, StoreWorld.ProductID.lifetime, at: ConsoleStage.now - 9 * Span.day)
            try await stage.tell([try #require(story.notifications.last)])
            func asked() async throws -> String? {
                try await stage.show(owner.id)
                try await browser.click("#do-check")
                try await browser.click("#preview")
                try await browser.wait("#outcome", says: "The ledger reads now:")
                let said = try await browser.text("#outcome")
                try await stage.closeDialog()
                return said
            }
            let bought = try await asked()
            #expect(bought?.contains("The store says: bought. The ledger reads now: paid.") == true, "\(bought ?? "")")
            story.refund(lifetime, at: ConsoleStage.now - Span.day)
            _ = try shops.store.send(try #require(story.notifications.last))
            let taken = try await asked()
            #expect(
                taken?.contains("The store says: taken back. The ledger reads now: revoked.") == true, "\(taken ?? "")")
            try await stage.expectCleanConsole()
        }
    }

    @Test("what was bought on the web and is nobody's is found as that, and given to a customer on their page")
    func nobodys() async throws {
        var story = WebStoryteller(seed: 8)
        let instant = (StoreAPIStage.now - 2 * Span.day) / 1000 * 1000
        let buyer = story.buyer("guest", at: instant)
        let original = story.subscribe(
            buyer, to: [SimulatedShop.proMonthly], at: instant + Span.minute, names: WebNames(nil))
        let life = WebLife(story, seed: 8)
        try await with([life]) { shops in
            let (stage, browser) = (shops.console, shops.console.browser)
            for event in life.events { try await shops.deliver(event) }
            try await stage.signIn()
            func expectNobodys() async throws {
                try await stage.find(original)
                try await browser.wait("#found", says: "It is given to a customer by a transfer")
                let found = try await browser.text("#found") ?? ""
                let said = "A purchase of \(StoreWorld.ProductID.proMonthly) is known by “\(original)” in production"
                #expect(found.contains("\(said), and it is nobody’s."), "\(found)")
            }
            try await expectNobodys()
            // A customer without purchases, of whom nobody has heard.
            try await stage.show("c-1017")
            try await browser.click("#do-transfer")
            try await browser.wait("document.querySelector('#nobodys')?.offsetParent")
            #expect(try await browser.run("return !document.querySelector('#to').offsetParent") as? Bool == true)
            try await stage.foresee([("#nobodys", original), ("#reason", "receipt in ticket 4711")])
            let sides = try await browser.texts("#outcome .sides")
            #expect(sides.count == 1 && sides[0].contains("c-1017") && sides[0].contains("They have"), "\(sides)")
            #expect(try await stage.count("transferred") == 0)
            let (_, event) = try await stage.confirm()
            let facts = event["facts"] as? [String: Any]
            #expect(event["type"] as? String == "transferred" && facts?["from_nobody"] as? Bool == true, "\(event)")
            try await browser.wait("#answer", says: "They have")
            try await browser.click("#undo")
            try await browser.wait("document.querySelector('#undone')")
            try await stage.closeDialog()
            try await expectNobodys()
            // What the App Store sold is given in the same way, where no device claims it.
            var apple = Storyteller(world: .standardOnWeb, seed: 97)
            let account = StoreAccount(.production, appAccountToken: nil, appTransactionID: nil)
            let unclaimed = apple.subscribe(
                account, to: StoreWorld.ProductID.proMonthly, at: ConsoleStage.now - Span.day)
            try await stage.tell(apple.notifications)
            try await stage.find(unclaimed.originalTransactionID)
            try await browser.wait("#found", says: "or is given to a customer by a transfer")
            try await stage.show("c-1018")
            try await browser.click("#do-transfer")
            try await stage.foresee([
                ("#nobodys", unclaimed.originalTransactionID), ("#reason", "receipt in ticket 4712"),
            ])
            #expect(try await browser.texts("#outcome .sides").first?.contains("They have") == true)
            try await stage.closeDialog()
            // The sandbox knows neither.
            try await stage.expectCleanConsole(allowing: ["status of 404"])
        }
    }

    @Test("the order id of a receipt finds whose the purchase is, by the store's word")
    func orders() async throws {
        try await with { shops in
            let (stage, browser) = (shops.console, shops.console.browser)
            try await stage.signIn()
            let order = SimulatedStoreAPI.orderID(of: try await original(stage, stage.bob.id))
            try await stage.find(order.lowercased())
            try await browser.wait("document.querySelector('#customer')?.textContent === arguments[0]", [stage.bob.id])
            try await stage.find("MVX000000")
            try await browser.wait("#found", says: "Nobody and nothing is known by “MVX000000”")
            let bound = HTTPClient(
                stage.service.url, key: try await stage.key("customers:read", "--environment", "sandbox"))
            let hidden = try await bound.send("GET", "/v1/customers", query: ["order_id": order])
            #expect(hidden.status == 200 && (hidden.json["items"] as? [Any])?.isEmpty == true, "\(hidden.text)")
            let twice = try await stage.client.send(
                "GET", "/v1/customers", query: ["order_id": order, "transaction_id": "1"])
            #expect(twice.status == 400)
            try await stage.expectCleanConsole()
        }
        try await ConsoleStage.with { stage in
            try await stage.signIn()
            try await stage.find("MVX000000")
            try await stage.browser.wait("#found", says: "no app has app_store_api")
            try await stage.expectCleanConsole(allowing: ["status of 422"])
        }
    }

    @Test("what was bought on the web is found by Stripe's ids, drawn, explained, and asked about at Stripe")
    func web() async throws {
        try await with { shops in
            let (stage, browser) = (shops.console, shops.console.browser)
            for event in shops.web.events where event.created < StoreAPIStage.now { try await shops.deliver(event) }
            let buyer = try #require(
                shops.web.record.customers.first {
                    !shops.web.record.customer($0).answer(at: StoreAPIStage.now).isEmpty
                })
            let held = try #require(shops.web.record.customer(buyer).answer(at: StoreAPIStage.now).first)
            try await stage.signIn()
            let customer = buyer.customerID
            try await stage.find(held.originalTransactionID)
            try await browser.wait("document.querySelector('#customer')?.textContent === arguments[0]", [customer])
            try await stage.settle()
            let answer = try await stage.client.send("GET", "/v1/customers/\(customer)/entitlements")
            let names = try #require(answer.json["entitlements"] as? [[String: Any]]).compactMap { $0["id"] as? String }
            for name in names { #expect(try await browser.count("[data-entitlement='\(name)']") == 1, "\(name)") }
            let drawn = try await browser.run("return document.querySelector('.timeline').textContent") as? String
            #expect(drawn?.contains(held.originalTransactionID) == true)
            #expect(try await browser.count("#explanation .why") > 0)
            try await browser.click("#events button")
            try await browser.wait("dialog", says: "What it states")
            try await stage.closeDialog()
            try await browser.click("#do-check")
            try await browser.click("#preview")
            try await browser.wait("#outcome", says: "The store says:")
            try await stage.expectCleanConsole()
        }
    }

    @Test("webhooks are sent again about one event, and of everything that was given up")
    func resend() async throws {
        let receiver = try HostileServer { _, _ in .answer(200, "") }
        defer { receiver.stop() }
        try await with { shops in
            let (stage, browser) = (shops.console, shops.console.browser)
            let made = try await stage.client.send(
                "POST", "/v1/webhook_endpoints", body: Array(#"{"url":"\#(receiver.url)/hook"}"#.utf8))
            #expect(made.status == 200, "\(made.text)")
            _ = try await stage.client.send(
                "POST", "/v1/customers/\(stage.ann.id)/actions/grant",
                body: Array(#"{"entitlement":"archive","reason":"r"}"#.utf8))
            let head = try await stage.client.head()
            func received() -> Int { receiver.requests.count { $0.body.contains("archive") } }
            func waitUntilMore(than before: Int) async throws {
                let end = ContinuousClock.now + Browser.patience
                while received() <= before, ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(50)) }
                #expect(received() > before)
            }
            try await waitUntilMore(than: 0)
            try await Task.sleep(for: .seconds(1))
            let before = received()
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            // Where the endpoints cannot be read, that is said where they would be chosen.
            let refuse = """
                window.fetching = window.fetch;
                window.fetch = (url, options) => String(url).includes(arguments[0])
                    ? Promise.reject(new TypeError()) : window.fetching(url, options);
                """
            try await browser.run(refuse, ["webhook_endpoints"])
            try await browser.click("#do-resend")
            try await browser.wait("#unread-endpoints", says: "The service cannot be reached")
            try await browser.run("window.fetch = window.fetching")
            try await stage.closeDialog()
            try await browser.click("#do-resend")
            try await browser.wait("document.querySelector('#endpoint option')")
            try await browser.run("document.querySelector('#event').value = arguments[0]", ["\(head)"])
            try await browser.click("#preview")
            try await browser.wait("#outcome", says: "sent again")
            try await waitUntilMore(than: before)
            // Of what was given up as well, wherever it is said how much that is.
            // The endpoint is locked first, as the service does, whose messages may be under way.
            try await stage.installation.asOwner(
                """
                BEGIN; SELECT FROM webhook_endpoint ORDER BY endpoint FOR UPDATE;
                UPDATE webhook_delivery SET state = 3, due_at = NULL; COMMIT
                """)
            try await stage.closeDialog()
            let then = received()
            try await browser.click("#open-service")
            try await browser.wait("document.querySelector('#endpoints .resend')")
            try await browser.run(refuse, ["redeliver"])
            try await browser.click("#endpoints .resend")
            try await browser.wait("#problem", says: "The service cannot be reached")
            try await browser.run("window.fetch = window.fetching")
            try await browser.wait("!document.querySelector('#endpoints .resend').disabled")
            try await browser.click("#endpoints .resend")
            try await browser.wait("document.querySelector('#problem').textContent === ''")
            try await waitUntilMore(than: then)
            try await stage.expectCleanConsole()
        }
    }

    @Test(
        "somebody is exported, then forgotten for good: the id is typed again, and nothing of it stays, in the browser neither"
    )
    func forgetting() async throws {
        try await with { shops in
            let (stage, browser) = (shops.console, shops.console.browser)
            try await stage.signIn()
            try await stage.show(stage.bob.id)
            try await browser.click("#pin")
            try await browser.wait("document.querySelector('#do-forget')")
            let export = try await browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const done = arguments[arguments.length - 1];
                    let blob;
                    URL.createObjectURL = (one) => { blob = one; return "#"; };
                    HTMLAnchorElement.prototype.click = async function () {
                        done([this.download, JSON.parse(await blob.text())]);
                    };
                    document.querySelector("#do-export").click();
                    """, "args": [Any](),
                ])
            let saved = try #require(export as? [Any])
            #expect(saved.first as? String == "\(stage.bob.id)-export.json")
            let file = try #require(saved.last as? [String: Any])
            #expect(try #require(file["environments"] as? [Any]).count == 2, "of both environments")
            #expect(file["object"] as? String == "customer_export" && file["customer_id"] as? String == stage.bob.id)
            let events = try await stage.client.send("GET", "/v1/customers/\(stage.bob.id)/events")
            #expect(try #require(file["events"] as? [Any]).count >= (events.json["items"] as? [Any])?.count ?? 1)

            try await browser.click("#do-forget")
            try await browser.wait("dialog", says: "cannot be undone")
            try await browser.type("somebody else", into: "#typed")
            try await browser.click("#preview")
            try await browser.wait("dialog .problem[role=alert]", says: "not the id")
            try await stage.foresee([("#typed", stage.bob.id)])
            #expect(try await browser.text("#outcome")?.contains("2 pieces of evidence") == true)
            #expect(try await browser.text("#forget-ids")?.contains("\(stage.bob.id) is erased") == true)
            #expect(
                try await browser.text("#outcome")?.contains("by the App Store") == true, "he goes on being charged")
            #expect(try await stage.count("forgotten") == 0)
            let (_, event) = try await stage.confirm()
            #expect(event["type"] as? String == "forgotten")
            #expect(try await browser.count("#undo") == 0)
            try await stage.closeDialog()
            let kept =
                try await browser.run(
                    "return [document.documentElement.outerHTML, JSON.stringify(localStorage), location.href].join()")
                as? String
            #expect(kept?.contains(stage.bob.id) == false)
            let held = try await stage.client.send("GET", "/v1/customers/\(stage.bob.id)/entitlements")
            #expect((held.json["entitlements"] as? [Any])?.isEmpty == true)
            try await stage.find(stage.bob.id)
            try await browser.wait("#found", says: "Nobody and nothing is known")
            #expect(try await stage.installation.rightful("verify").contains("verified"))
            try await stage.expectCleanConsole()

            // Nobody may do that whose key is not for everything.
            try await browser.send("DELETE", "cookie", nil)
            try await stage.signIn(try await stage.key("customers:read,customers:write,events:read"))
            try await stage.show(stage.ann.id)
            try await browser.wait("document.querySelector('#do-export')")
            #expect(try await browser.count("#do-forget, #do-resend") == 0)
            // Where the session has ended, that is said.
            try await browser.send("DELETE", "cookie", nil)
            try await browser.click("#do-export")
            try await browser.wait("document.querySelector('#key')")
            #expect(try await browser.text("#sign-in-problem")?.contains("The session has ended") == true)
        }
    }
}
