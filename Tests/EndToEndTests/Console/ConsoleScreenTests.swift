import EntitlementCore
import Foundation
import Testing

/// The console in a real browser: a customer on one screen.
@Suite("The console in a browser: a customer", .serialized, .timeLimit(.minutes(10)))
struct ConsoleScreenTests {
    /// What the screen says of each entitlement: its state, and whether it gives access.
    private func shown(_ browser: Browser) async throws -> [String: String] {
        let found = try await browser.run(
            """
            return Object.fromEntries([...document.querySelectorAll("#answer [data-entitlement]")].map((one) =>
                [one.dataset.entitlement, `${one.dataset.state} ${one.hasAttribute("data-access")}`]))
            """)
        return try #require(found as? [String: String])
    }

    /// What the API says at the moment that the address names.
    private func told(_ stage: ConsoleStage, _ id: String) async throws -> [String: String] {
        let fragment = try await stage.browser.fragment()
        var query: [String: String] = [:]
        for part in fragment.dropFirst().split(separator: "&") {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            if ["at", "known_at"].contains(pair[0]) { query[pair[0]] = pair[1] }
        }
        let answer = try await stage.client.send("GET", "/v1/customers/\(id)/entitlements", query: query)
        try #require(answer.status == 200, "\(answer.text)")
        let held = try #require(answer.json["entitlements"] as? [[String: Any]])
        return Dictionary(
            uniqueKeysWithValues: held.map { one in
                ("\(one["id"] ?? "")", "\(one["state"] ?? "") \(one["gives_access"] as? Bool ?? false)")
            })
    }

    /// Moves a slider as a hand does, and waits until everything follows.
    private func slide(_ stage: ConsoleStage, _ slider: String, to value: Int) async throws {
        try await stage.browser.run(
            """
            const slider = document.querySelector(arguments[0]);
            slider.value = arguments[1];
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            """, [slider, value])
        // Until the request of this frame has begun, and the address was written.
        _ = try await stage.browser.send(
            "POST", "execute/async",
            [
                "script": "requestAnimationFrame(() => setTimeout(arguments[arguments.length - 1], 150))",
                "args": [Any](),
            ])
        try await stage.settle()
    }

    @Test("each customer's sentence says how they stand, the picture and its table show it, and events open from both")
    func screens() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            for (person, words, state) in [
                (stage.ann, "It renews by itself then.", "active"), (stage.bob, "a grace period runs until", "grace"),
                (stage.cleo, "a refund was made for it", "revoked"), (stage.dan, "the store keeps trying", "retry"),
            ] {
                try await stage.show(person.id)
                #expect(try await browser.text("#answer")?.contains(words) == true, "\(person.id)")
                #expect(try await browser.count(".timeline .state.\(state)") > 0, "\(state)")
                #expect(try await browser.count(".timeline .now line") == 1)
                #expect(try await shown(browser) == told(stage, person.id))
            }
            // A stretch tells of itself to whoever points at it, and the table says the same.
            try await stage.show(stage.bob.id)
            #expect(try await browser.count(".timeline .expected") > 0, "what is expected is drawn lighter")
            try await browser.run(
                "document.querySelector('[data-stretch]').dispatchEvent(new MouseEvent('mouseenter'))")
            try await browser.wait("#readout", says: "By events #")
            try await browser.run("document.querySelector('details.table').open = true")
            try await browser.wait("document.querySelectorAll('details.table tbody tr').length >= 3")
            #expect(try await browser.texts("details.table tbody tr").contains { $0.contains("grace period") })

            // An event with what it states, what was signed, and the proof that it is in the log.
            try await browser.click("#explanation .why ul li:last-child button")
            try await browser.wait("dialog", says: "What it states")
            #expect(try await browser.text("dialog")?.contains("original_transaction_id") == true)
            try await stage.waitForCheckpoint()
            try await browser.click("#check-proof")
            try await browser.wait("dialog .steps", says: "leaf")
            let steps = try await browser.texts("dialog .steps li")
            #expect(steps.count == 3 && steps.allSatisfy { $0.hasPrefix("✓") }, "\(steps)")
            try await stage.expectCleanConsole()
        }
    }

    @Test("what the page takes for a proof is one: another hash, another path and another root are refused")
    func proofs() async throws {
        try await ConsoleStage.with { stage in
            try await stage.signIn()
            let head = try await stage.client.head()
            let verdicts = try await stage.browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const done = arguments[arguments.length - 1];
                    const size = arguments[0];
                    (async () => {
                        const { rootOf } = await import(new URL("console/assets/1/proof.js", document.baseURI));
                        const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
                        const roots = new Set();
                        const wrong = [];
                        for (let position = 1; position <= size; position += 1) {
                            const proof = await (await fetch(`v1/events/${position}/proof?size=${size}`)).json();
                            const path = proof.hashes.map(bytes);
                            const leaf = bytes(proof.leaf_hash);
                            roots.add(String(await rootOf(leaf, position, size, path)));
                            wrong.push(await rootOf(leaf, position % size + 1, size, path));
                            wrong.push(await rootOf(leaf, position, size, path.slice(1)));
                            wrong.push(await rootOf(leaf.map((byte) => byte ^ 1), position, size, path));
                        }
                        done([roots.size, wrong.filter((root) => roots.has(String(root))).length]);
                    })();
                    """, "args": [head],
                ])
            #expect(verdicts as? [NSNumber] == [1, 0])
        }
    }

    @Test("both sliders change everything at once, as the API answers, and the address with them")
    func sliders() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            for person in [stage.bob, stage.cleo] {
                try await stage.show(person.id)
                let most = try #require(
                    try await browser.run("return Number(document.querySelector('#at-slider').max)") as? NSNumber)
                for share in [0, 13, 40, 62, 80, 97, 100] {
                    try await slide(stage, "#at-slider", to: most.intValue * share / 100)
                    #expect(try await browser.fragment().contains("at=20"))
                    #expect(try await shown(browser) == told(stage, person.id), "\(person.id) at \(share)")
                }
                // Where something changes: exactly there, and no instant before.
                for _ in 0..<2 {
                    try await browser.click("#at-before")
                    try await slide(stage, "#known-slider", to: 99)
                    #expect(try await shown(browser) == told(stage, person.id))
                }
                let stops = try #require(
                    try await browser.run("return Number(document.querySelector('#known-slider').max)") as? NSNumber)
                #expect(stops.intValue >= 2)
                for stop in 0...stops.intValue {
                    try await slide(stage, "#known-slider", to: stop)
                    #expect(try await shown(browser) == told(stage, person.id), "\(person.id) known \(stop)")
                    #expect(try await browser.fragment().contains("known_at=") == (stop < stops.intValue))
                }
            }
            // A view that was sent is what was seen.
            try await slide(stage, "#known-slider", to: 1)
            let seen = try await browser.text("#answer")
            let address = try await browser.run("return location.href") as? String
            try await browser.open(try #require(URL(string: "about:blank")))
            try await browser.open(try #require(address.flatMap { URL(string: $0) }))
            try await browser.wait(
                "document.querySelector('#explanation section') && document.querySelector('#answer').innerText")
            try await stage.settle()
            try await browser.wait("document.querySelector('#answer').innerText === arguments[0]", [seen ?? ""])
            #expect(try await browser.text("#not-known")?.contains("not known then") == true)
            try await stage.expectCleanConsole()
        }
    }

    @Test("of answers that come in another order than they were asked for, the last one asked for is shown")
    func order() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.cleo.id)
            // Every answer but the last one's waits, and is not told that nobody waits for it any more.
            try await browser.run(
                """
                const real = window.fetch;
                window.held = [];
                window.fetch = (url, options) => {
                    const { signal, ...rest } = options;
                    if (!String(url).includes("/entitlements")) return real(url, rest);
                    return new Promise((resolve) => window.held.push(() => real(url, rest).then(resolve)));
                };
                """)
            for value in [200, 1200, 1990] {
                try await browser.run(
                    """
                    const slider = document.querySelector("#at-slider");
                    slider.value = arguments[0];
                    slider.dispatchEvent(new Event("input", { bubbles: true }));
                    """, [value])
                try await browser.wait("window.held.length >= arguments[0]", [[200: 1, 1200: 2, 1990: 3][value] ?? 0])
            }
            try await browser.run("window.held[2]()")
            try await browser.wait("!document.querySelector('#moment').hidden")
            let last = try await browser.text("#answer")
            try await browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const done = arguments[arguments.length - 1];
                    window.held[0]();
                    window.held[1]();
                    setTimeout(done, 500);
                    """, "args": [Any](),
                ])
            #expect(try await browser.text("#answer") == last)
            #expect(try await shown(browser) == told(stage, stage.cleo.id))
        }
    }

    @Test("the keyboard alone signs in, finds, moves through time and picture, opens an event and comes back")
    func keyboard() async throws {
        typealias Keys = Browser.Keys
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await browser.open(stage.console)
            try await browser.wait("document.activeElement?.id === 'key'")
            for letter in stage.admin { try await browser.press(String(letter)) }
            try await browser.press(Keys.enter)
            try await browser.wait("document.querySelector('#find')")
            try await tab(browser, to: "document.activeElement.id === 'find'")
            for letter in stage.bob.id { try await browser.press(String(letter)) }
            try await browser.press(Keys.enter)
            try await browser.wait("document.querySelector('#customer')?.textContent === arguments[0]", [stage.bob.id])
            try await stage.settle()
            try await tab(browser, to: "document.activeElement.id === 'at-slider'")
            for _ in 0..<3 { try await browser.press(Keys.left) }
            try await browser.wait("location.hash.includes('at=')")
            try await stage.settle()
            #expect(
                try await browser.run("return document.activeElement.id") as? String == "at-slider", "the focus stays")
            #expect(try await shown(browser) == told(stage, stage.bob.id))
            try await tab(browser, to: "document.activeElement.id === 'known-slider'")
            try await browser.press(Keys.home)
            try await browser.wait("#answer", says: "They hold nothing")
            try await browser.press(Keys.end)
            try await browser.wait("!location.hash.includes('known_at')")
            try await stage.settle()
            try await tab(browser, to: "document.activeElement.matches('[data-stretch]')")
            let first = try await browser.run("return document.activeElement.ariaLabel") as? String
            try await browser.press(Keys.right)
            let second = try await browser.run("return document.activeElement.ariaLabel") as? String
            #expect(first?.contains("paid") == true && second?.contains("grace period") == true && first != second)
            #expect(try await browser.text("#readout")?.contains("grace period") == true)
            try await browser.press(Keys.enter)
            try await browser.wait("document.activeElement.matches('[data-stretch]') && location.hash.includes('at=')")
            try await stage.settle()
            #expect(try await shown(browser) == told(stage, stage.bob.id))
            try await tab(
                browser,
                to: "document.activeElement.closest('#explanation') && document.activeElement.tagName === 'BUTTON'")
            try await browser.press(Keys.enter)
            try await browser.wait("document.querySelector('dialog[open]')?.contains(document.activeElement)")
            try await browser.press(Keys.escape)
            try await browser.wait(
                "!document.querySelector('dialog') && document.activeElement.closest('#explanation')")
            // The same where what the event was opened from is made anew behind it, as the present is every half minute.
            try await browser.run(
                """
                window.former = document.activeElement;
                document.getElementById('at-slider').stepDown();
                document.getElementById('at-slider').dispatchEvent(new Event('input', { bubbles: true }));
                window.former.click();
                """)
            try await browser.wait("document.querySelector('dialog[open]') && !window.former.isConnected")
            try await stage.settle()
            try await browser.press(Keys.escape)
            try await browser.wait(
                "!document.querySelector('dialog') && document.activeElement.closest('#explanation button')")
            try await stage.expectCleanConsole()
        }
    }

    /// Goes on by the tabulator until a script says that it is there.
    private func tab(_ browser: Browser, to script: String, sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        for _ in 0..<60 {
            if try await browser.run("return Boolean(\(script))") as? Bool == true { return }
            try await browser.press(Browser.Keys.tab)
        }
        Issue.record("the tabulator does not lead to \(script)", sourceLocation: sourceLocation)
        throw Browser.Failure(code: "unreachable", message: script)
    }
}
