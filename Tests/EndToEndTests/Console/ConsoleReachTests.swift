import Foundation
import Testing

/// The console in a real browser: what is long, small or turned round is read and reached all the same.
@Suite("The console in a browser: within reach", .serialized, .timeLimit(.minutes(10)))
struct ConsoleReachTests {
    private func resize(_ browser: Browser, _ width: Int, _ height: Int) async throws {
        try await browser.devTools(
            "Emulation.setDeviceMetricsOverride",
            ["width": width, "height": height, "deviceScaleFactor": 1, "mobile": true])
    }

    @Test("a form for the longest id is filled in and closed in the smallest window")
    func longIDs() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            let id = String(repeating: "W", count: 255)
            try await stage.show(id)
            for height in [568, 256] {
                try await resize(browser, 320, height)
                try await browser.click("#do-grant")
                try await browser.wait("document.activeElement?.id === 'entitlement'")
                #expect(try await browser.text("dialog h2")?.contains(id) == true)
                // Each field is what is seen where it is, and Close stays in the window.
                let faults = try await browser.run(
                    """
                    const [dialog, close] = ["dialog", "dialog button"].map((one) => document.querySelector(one));
                    const seen = (one) => {
                        const box = one.getBoundingClientRect();
                        const [x, y] = [box.left + 8, box.top + box.height / 2];
                        return box.left >= 0 && box.right <= innerWidth && one.contains(document.elementFromPoint(x, y));
                    };
                    const faults = dialog.scrollWidth > dialog.clientWidth ? ["wide"] : [];
                    for (const name of ["#entitlement", "#until", "#reason", "#preview"]) {
                        const one = document.querySelector(name);
                        one.scrollIntoView({ block: "center" });
                        if (!seen(one)) faults.push(name);
                        if (!seen(close)) faults.push(`close at ${name}`);
                    }
                    return faults;
                    """)
                #expect(try #require(faults as? [String]).isEmpty, "\(height): \(faults ?? "")")
                try await browser.click("dialog button")
                try await browser.wait("!document.querySelector('dialog')")
            }
            try await stage.expectCleanConsole()
        }
    }

    @Test("on a phone a table is moved sideways rather than broken letter by letter")
    func tables() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let made = try await stage.client.send(
                "POST", "/v1/webhook_endpoints",
                body: Array(#"{"url":"https://example.com/receivers/of/changes/with/a/long/address"}"#.utf8))
            try #require(made.status == 200, "\(made.text)")
            try await stage.signIn()
            try await resize(browser, 320, 568)
            for (place, table) in [
                ("view=service", "#endpoints table"), ("view=service", "#streams table"),
                ("view=catalog", "#products table"), ("customer=\(stage.ann.id)", "details.table table"),
            ] {
                try await browser.run("location.hash = arguments[0]", [place])
                try await browser.wait("document.querySelector('#endpoints, #products, details.table summary')")
                try await browser.run(
                    "document.querySelectorAll('details.table').forEach((one) => { one.open = true; })")
                try await browser.wait("document.querySelector(arguments[0])?.rows.length > 1", [table])
                let shape = try await browser.run(
                    """
                    const table = document.querySelector(arguments[0]);
                    const place = table.closest(".wide");
                    const cells = [...table.querySelectorAll("th, td")].map((one) => one.offsetWidth);
                    return [Math.min(...cells), place.scrollWidth - place.clientWidth, table.offsetHeight / table.rows.length,
                        document.documentElement.scrollWidth - innerWidth];
                    """, [table])
                let numbers = try #require(shape as? [NSNumber]).map(\.doubleValue)
                #expect(numbers[0] >= 90 && numbers[1] > 0, "\(table): \(numbers)")
                #expect(numbers[2] < 200 && numbers[3] <= 0, "\(table): \(numbers)")
            }
            try await stage.expectCleanConsole()
        }
    }

    @Test("an event's words are read in a window of any width, and on paper, where nothing is that one would press")
    func events() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.bob.id)
            try await browser.wait("document.querySelectorAll('#events li').length > 1")
            for (width, medium) in [(320, ""), (641, ""), (700, ""), (800, ""), (1280, ""), (718, "print")] {
                try await resize(browser, width, 1000)
                try await browser.devTools("Emulation.setEmulatedMedia", ["media": medium])
                let narrowest = try await browser.run(
                    "return Math.min(...[...document.querySelectorAll('#events li > span')].map((one) => one.offsetWidth))"
                )
                #expect(try #require(narrowest as? NSNumber).intValue >= 100, "\(width) \(medium)")
            }
            let pressed = try await browser.run(
                """
                return [...document.querySelectorAll("header, input, select, button:not(.link)")]
                    .filter((one) => one.checkVisibility()).map((one) => one.outerHTML);
                """)
            #expect(try #require(pressed as? [String]) == [])
            try await browser.wait("#customer", says: stage.bob.id)
            #expect(try await browser.text(".sliders output")?.contains("now") == true, "of when it is")
            try await stage.expectCleanConsole()
        }
    }

    /// Where the first of each of two texts begins within an element, in pixels from the left.
    private func places(_ browser: Browser, _ selector: String, _ texts: [String]) async throws -> [Double] {
        let found = try await browser.run(
            """
            const node = document.querySelector(arguments[0]).firstChild;
            return arguments[1].map((text) => {
                const range = document.createRange();
                range.setStart(node, node.data.indexOf(text));
                range.setEnd(node, node.data.indexOf(text) + text.length);
                return range.getBoundingClientRect().left;
            });
            """, [selector, texts])
        return try #require(found as? [NSNumber]).map(\.doubleValue)
    }

    @Test("an id that runs from right to left, or turns what follows round, leaves the sentence as it is")
    func directions() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            for id in ["سارة-1", "77"] {
                let linked = try await stage.client.send(
                    "POST", "/v1/customers/of-three-names/actions/link",
                    body: Array(#"{"customer_id":"\#(id)","reason":"r"}"#.utf8))
                try #require(linked.status == 200, "\(linked.text)")
                let given = try await stage.client.send(
                    "POST", "/v1/customers/\(id)/actions/grant",
                    body: Array(#"{"entitlement":"plus","reason":"r"}"#.utf8))
                try #require(given.status == 200, "\(given.text)")
            }
            try await stage.signIn()
            try await stage.show("of-three-names")
            try await browser.wait("#also-known", says: "77")
            let names = try await places(browser, "#also-known", ["سارة", "77"])
            #expect(names[0] < names[1], "in the order in which they are listed: \(names)")
            let turning = "kamil\u{202E}gnp.exe"
            try await stage.show(turning)
            try await browser.wait("#nobody", says: "Nobody is known by")
            let words = try await places(browser, "#nobody", ["Nobody", "ledger", "heard"])
            #expect(words == words.sorted(), "\(words)")
            // What is typed to forget somebody can be taken from the form.
            try await stage.show("سارة-1")
            try await browser.click("#do-forget")
            try await browser.wait("document.querySelector('dialog label .id')?.textContent === 'سارة-1'")
            try await stage.closeDialog()
            try await stage.expectCleanConsole()
        }
    }
}
