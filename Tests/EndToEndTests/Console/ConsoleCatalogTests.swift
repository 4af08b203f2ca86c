import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// The console in a real browser: the catalog.
@Suite("The console in a browser: the catalog", .serialized, .timeLimit(.minutes(10)))
struct ConsoleCatalogTests {
    private typealias Fields = [String: Any]

    private func catalog(_ stage: ConsoleStage) async throws -> [String: Any] {
        try await stage.client.send("GET", "/v1/catalog").json
    }

    private func products(_ catalog: [String: Any]) throws -> [String: [String]] {
        Dictionary(
            uniqueKeysWithValues: try #require(catalog["products"] as? [[String: Any]]).map { product in
                (product["product_id"] as? String ?? "", product["entitlements"] as? [String] ?? [])
            })
    }

    private func held(_ stage: ConsoleStage, _ id: String) async throws -> Set<String> {
        let answer = try await stage.client.send("GET", "/v1/customers/\(id)/entitlements")
        let held = try #require(answer.json["entitlements"] as? [[String: Any]])
        return Set(held.filter { $0["gives_access"] as? Bool == true }.compactMap { $0["id"] as? String })
    }

    /// Puts what a product gives into the draft.
    private func draft(_ browser: Browser, _ product: String, gives entitlements: String) async throws {
        try await browser.click("[data-product='\(product)'] td button")
        try await browser.type(entitlements, into: "#gives")
        try await browser.click("#take")
        try await browser.wait("document.querySelector('#try') && !document.querySelector('dialog')")
    }

    @Test("a change is tried on everybody first, with examples that open the customer, then applied, and undone")
    func change() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await browser.click("#open-catalog")
            try await browser.wait("document.querySelector('#products tbody tr')")
            let former = try await catalog(stage)
            #expect(try await browser.count("#products tbody tr") == products(former).count)
            for (id, entitlements) in try products(former) {
                let text = try await browser.text("[data-product='\(id)']")
                #expect(entitlements.allSatisfy { text?.contains($0) == true }, "\(id)")
            }
            let plan = StoreWorld.ProductID.proMonthly
            let head = try await stage.client.head()
            let before = try await held(stage, stage.ann.id)
            try await draft(browser, plan, gives: "archive")
            #expect(try await browser.text("[data-product='\(plan)']")?.contains("changed") == true)
            try await browser.click("#try")
            try await browser.wait("document.querySelector('#apply')")
            #expect(try await stage.client.head() == head, "a trial records nothing")
            // What the API says of the same.
            let proposed = try products(former).map { id, gives -> Fields in
                ["product_id": id, "entitlements": id == plan ? ["archive"] : gives]
            }
            let body = try JSONSerialization.data(
                withJSONObject: ["products": proposed, "policy": try #require(former["policy"])])
            let trial = try await stage.client.send("POST", "/v1/catalog/actions/try", body: Array(body)).json
            let effects = try #require(trial["effects"] as? [[String: Any]])
            #expect(effects.count >= 2)
            for effect in effects {
                let name = "\(effect["environment"] ?? "") \(effect["entitlement"] ?? "") \(effect["effect"] ?? "")"
                let text = try await browser.text("[data-effect='\(name)']")
                let count = try #require(effect["customers"] as? NSNumber).intValue
                #expect(text?.hasPrefix("\(count) ") == true, "\(name): \(text ?? "")")
                let examples = try #require(effect["examples"] as? [Any]).count
                #expect(try await browser.count("[data-effect='\(name)'] button") == examples)
            }
            #expect(try await browser.count("[data-effect]") == effects.count)
            try await browser.click("#apply")
            try await browser.wait("#applied", says: "event \(head + 1)")
            #expect(try await held(stage, stage.ann.id).contains("archive"))
            #expect(try await held(stage, stage.ann.id) != before)
            try await browser.click("#undo")
            try await browser.wait("#applied", says: "event \(head + 2)")
            #expect(try await held(stage, stage.ann.id) == before)
            #expect(try products(try await catalog(stage)) == products(former))
            // An example leads to the customer, and the browser back to what was drafted and tried.
            try await draft(browser, plan, gives: "archive")
            try await browser.click("#try")
            try await browser.click("[data-effect] button")
            try await browser.wait("document.querySelector('#customer')")
            try await browser.run("history.back()")
            try await browser.wait("document.querySelector('#trial')")
            #expect(try await browser.text("[data-product='\(plan)']")?.contains("changed") == true)
            try await browser.click("#apply")
            try await browser.wait("#applied", says: "event \(head + 3)")
            // What was done can be undone after another screen as well.
            try await browser.click("#open-service")
            try await browser.wait("document.querySelector('#feed')")
            try await browser.run("history.back()")
            try await browser.click("#undo")
            try await browser.wait("#applied", says: "event \(head + 4)")
            // Of a session that is over nothing is drafted.
            try await draft(browser, plan, gives: "archive")
            try await browser.click("header .account button:last-child")
            try await stage.signIn()
            try await browser.click("#open-catalog")
            try await browser.wait("document.querySelector('#products tbody tr')")
            #expect(try await browser.run("return document.querySelector('#change').hidden") as? Bool == true)
            try await stage.expectCleanConsole()
        }
    }

    @Test("a catalog that changed meanwhile is not overwritten: the new one is offered, with the change on top")
    func meanwhile() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await browser.click("#open-catalog")
            let plan = StoreWorld.ProductID.proMonthly
            try await draft(browser, plan, gives: "archive")
            try await browser.click("#try")
            try await browser.wait("document.querySelector('#apply')")
            // Somebody else is faster.
            var theirs = try await catalog(stage)
            let added: [Fields] = [["product_id": "com.example.other", "entitlements": ["other"]]]
            theirs["products"] = try #require(theirs["products"] as? [Fields]) + added
            let put = try await stage.client.send(
                "PUT", "/v1/catalog", body: Array(try JSONSerialization.data(withJSONObject: theirs)))
            #expect(put.status == 200, "\(put.text)")
            try await browser.click("#apply")
            try await browser.wait("#overtaken", says: "event \(put.json["position"] ?? "")")
            #expect(try products(try await catalog(stage))[plan] != ["archive"], "nothing was overwritten")
            try await browser.click("#rebase")
            try await browser.wait("document.querySelector(\"[data-product='com.example.other']\")")
            try await browser.click("#try")
            try await browser.click("#apply")
            try await browser.wait("document.querySelector('#applied')")
            let now = try products(try await catalog(stage))
            #expect(now[plan] == ["archive"] && now["com.example.other"] == ["other"])
            // Of an undoing as well.
            theirs["products"] = added
            let again = try await stage.client.send(
                "PUT", "/v1/catalog", body: Array(try JSONSerialization.data(withJSONObject: theirs)))
            #expect(again.status == 200)
            try await browser.click("#undo")
            try await browser.wait("#problem", says: "meanwhile")
            #expect(try products(try await catalog(stage)) == ["com.example.other": ["other"]])
            #expect(try await browser.count("#products tbody tr") == 1, "what is there now is shown")
            try await stage.expectCleanConsole(allowing: ["status of 412"])
        }
    }

    @Test("whoever changes a product of a long catalog stays on its page")
    func pages() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            var long = try await catalog(stage)
            long["products"] = (100..<160).map { ["product_id": "p\($0)", "entitlements": ["premium"]] as Fields }
            let put = try await stage.client.send(
                "PUT", "/v1/catalog", body: Array(try JSONSerialization.data(withJSONObject: long)))
            #expect(put.status == 200, "\(put.text)")
            try await stage.signIn()
            try await browser.click("#open-catalog")
            try await browser.wait("#products .pages", says: "Page 1 of 2")
            try await browser.click("#products .pages button:last-child")
            try await draft(browser, "p155", gives: "archive")
            #expect(try await browser.text("#products .pages")?.contains("Page 2 of 2") == true)
            try await stage.expectCleanConsole()
        }
    }

    @Test(
        "products are added and removed, a whole file is pasted, the policy changed; what is wrong is said and nothing lost"
    )
    func drafts() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await browser.click("#open-catalog")
            try await browser.click("#add-product")
            try await browser.type("com.example.<b>new</b>", into: "#product-id")
            try await browser.type("premium\nnews\nvip, gold", into: "#gives")
            try await browser.type("three days", into: "#duration")
            try await browser.click("#take")
            try await browser.click("#try")
            try await browser.wait("#problem", says: "duration")
            #expect(try await browser.count("#products b") == 0)
            try await browser.click("[data-product='com.example.<b>new</b>'] td button")
            try await browser.type("P3D", into: "#duration")
            try await browser.click("#take")
            try await browser.run("document.querySelector('#policy-grace_gives_access').click()")
            try await browser.click("#try")
            try await browser.wait("#trial", says: "The policy")
            let trial = try await browser.text("#trial") ?? ""
            #expect(trial.contains("1 customer loses"), "Bob is in a grace period")
            #expect(trial.contains("New entitlements: vip, gold"), "whoever changes how long it runs: \(trial)")
            try await browser.click("#drop")
            try await browser.wait("document.querySelector('#change').hidden")
            try await browser.click("#paste")
            try await browser.type("{", into: "#whole")
            try await browser.click("#take")
            try await browser.wait("dialog .problem", says: "That is no catalog")
            try await browser.type(#"{"products":[],"policy":{"leeway":1}}"#, into: "#whole")
            try await browser.click("#take")
            try await browser.click("#try")
            try await browser.wait("#trial", says: "Products that are gone")
            try await browser.wait("#trial .remarks", says: "policy.leeway means nothing here")
            try await browser.click("#apply")
            try await browser.wait("document.querySelector('#applied')")
            #expect(try await browser.text("#change .remarks")?.contains("policy.leeway") == true)
            #expect(try await held(stage, stage.ann.id).isEmpty)
            try await stage.expectCleanConsole(allowing: ["status of 400"])
            for scopes in [["customers:read"], ["catalog:write,customers:read", "--environment", "production"]] {
                try await browser.send("DELETE", "cookie", nil)
                let key =
                    scopes.count == 1
                    ? try await stage.key(scopes[0]) : try await stage.key(scopes[0], scopes[1], scopes[2])
                try await stage.signIn(key)
                try await browser.click("#open-catalog")
                try await browser.wait("document.querySelector('#products')?.textContent")
                #expect(try await browser.count("#add-product, #paste, #products td button") == 0, "\(scopes)")
            }
        }
    }
}
