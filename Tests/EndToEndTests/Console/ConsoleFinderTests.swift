import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// The console in a real browser: what people paste, and what a key that sees a part is told.
@Suite("The console in a browser: finding, and what is called how", .serialized, .timeLimit(.minutes(10)))
struct ConsoleFinderTests {
    @Test("an id is found as it is pasted: with a number sign, a label, quotes, spaces, a comma, or in full width")
    func pasted() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            let list = try await stage.client.send("GET", "/v1/customers/\(stage.ann.id)/events")
            let items = try #require(list.json["items"] as? [[String: Any]])
            let original = try #require(items.compactMap { $0["original_transaction_id"] as? String }.first)
            let wide = String(original.map { $0 == "2" ? "２" : $0 })
            let halves = "\(original.prefix(6)) \(original.dropFirst(6))"
            for text in [
                "#\(original)", "\(original),", " \(original) ", halves, wide, "Transaction ID: \(original)",
                "Transaction \(original)",
                "“\(stage.ann.id)”", "\u{200B}\(stage.ann.id).", stage.ann.id.replacingOccurrences(of: "-", with: ""),
            ] {
                try await stage.show(stage.bob.id)
                // The driver types no characters of zero width.
                try await browser.run("document.querySelector('#find').value = arguments[0]", [text])
                try await browser.click(".find button")
                try await browser.wait(
                    "document.querySelector('#customer')?.textContent === arguments[0]", [stage.ann.id])
            }
            try await stage.find("Ann <ann@example.org>")
            try await browser.wait("#found", says: "The ledger has no e-mail addresses.")
            try await stage.find("nosuch")
            try await browser.wait("#found", says: "Nobody and nothing is known by “nosuch”.")
            try await stage.expectCleanConsole(allowing: ["status of 404", "status of 422"])
        }
    }

    @Test("a customer is not taken for another whose id is a part of what was typed, nor for one without its spaces")
    func others() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            for id in ["4242", "sp", "sp "] {
                _ = try await stage.client.send(
                    "POST", "/v1/customers/\(id)/actions/grant",
                    body: Array(#"{"entitlement":"premium","reason":"to be found"}"#.utf8))
            }
            try await stage.signIn()
            try await stage.find("acme:4242")
            try await browser.wait("#found", says: "Nobody and nothing is known by “acme:4242”, only by “4242”:")
            try await stage.find("sp ")
            try await browser.wait("document.querySelector('#customer')?.textContent === 'sp '")
            try await stage.find("4242 ")
            try await browser.wait("document.querySelector('#customer')?.textContent === '4242'")
            try await stage.expectCleanConsole(allowing: ["status of 404", "status of 422"])
        }
    }

    @Test("a key of one app says above what it answers that it sees that app alone")
    func oneApp() async throws {
        try await ConsoleStage.with { stage in
            let app = stage.installation.world.bundleID
            try await stage.signIn(try await stage.key("customers:read,events:read", "--app", app))
            try await stage.show(stage.cleo.id)
            try await stage.browser.wait("#as-far-as", says: "As far as \(app) goes")
            try await stage.expectCleanConsole()
        }
    }

    @Test("blanks at the ends of an id are a part of it: they are sent, seen and remarked")
    func blanks() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            for id in ["team 7", "team 7 ", "team 7  "] {
                let given = try await stage.client.send(
                    "POST", "/v1/customers/\(id)/actions/grant",
                    body: Array(#"{"entitlement":"seat","reason":"r"}"#.utf8))
                #expect(given.status == 200, "\(given.text)")
            }
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            try await browser.click("#do-transfer")
            try await stage.foresee([("#to", "team 7 "), ("#reason", "changed their account")])
            #expect(
                try await browser.texts("#outcome .problem") == [
                    "“team 7 ” begins or ends with a blank, which is a part of the id."
                ])
            let (_, moved) = try await stage.confirm()
            #expect(moved["customer_id"] as? String == "team 7 ", "\(moved)")
            try await stage.closeDialog()
            // Whose page it is, where a blank more would be another's.
            try await browser.run("location.hash = 'customer=team%207%20'")
            try await browser.wait("document.querySelector('#customer')?.textContent === 'team 7 '")
            try await stage.settle()
            let widths = try await browser.run(
                "return [...document.querySelectorAll('#customer mark')].map((one) => one.offsetWidth > 2)")
            #expect(widths as? [Bool] == [true])
            try await browser.click("#do-link")
            try await stage.foresee([("#linked", "team 7  "), ("#reason", "one person")])
            #expect(try await browser.texts("#outcome h4").map(\.count) == [7, 8])
            let (_, linked) = try await stage.confirm()
            #expect(linked["customer_id"] as? String == "team 7  ", "\(linked)")
            let held = try await stage.client.send("GET", "/v1/customers/team 7  /entitlements").json
            let names = try #require(held["entitlements"] as? [[String: Any]]).compactMap { $0["id"] as? String }
            #expect(names.contains("premium") && names.contains("seat"), "\(held)")
            // Files that are called after ids that differ are called differently.
            let files = try await browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const [done, module] = [arguments[arguments.length - 1], document.querySelector("link[href$='history.js']").href];
                    import(module.replace("history.js", "saving.js")).then(({ fileName }) =>
                        done(["a/b", "a:b", "a_b", "a=2fb", "é 1"].map(fileName)), (error) => done([String(error)]));
                    """, "args": [Any](),
                ])
            #expect(files as? [String] == ["a=2fb", "a=3ab", "a_b", "a=3d2fb", "é=201"])
            try await stage.expectCleanConsole()
        }
    }

    @Test("an answer of Stripe's is called by what it adds, and a refund of a part as that")
    func readings() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            let called = try await browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const done = arguments[arguments.length - 1];
                    import(document.querySelector("link[href$='history.js']").href).then(({ History, eventWords }) => {
                        const history = new History("c", "production", {});
                        const invoices = [{ invoice: "in_1", amount_paid: 999 }];
                        const refund = (amount) => [{ refund: "re_1", amount, status: "succeeded" }];
                        const dispute = [{ dispute: "dp_1", amount: 999, status: "lost" }];
                        history.add([
                            ["invoice.paid", { invoices }], ["web_reading", { invoices, refunds: refund(300) }],
                            ["web_reading", { invoices, refunds: refund(300) }],
                            ["web_reading", { invoices, refunds: refund(300), disputes: dispute }],
                        ].map(([type, facts]) => ({ type, facts })));
                        done(history.events.map(eventWords));
                    }, (error) => done([String(error)]));
                    """, "args": [Any](),
                ])
            let told = "told by Stripe when asked"
            #expect(
                called as? [String]
                    == ["invoice paid", "a part refunded on the web, \(told)", told, "payment disputed, \(told)"])
        }
    }
}
