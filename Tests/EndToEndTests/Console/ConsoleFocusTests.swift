import Foundation
import StoreSimulator
import Testing

/// The console in a real browser, by the keyboard: the focus stays where somebody is, and what is typed counts when it is whole.
@Suite("The console in a browser: the focus", .serialized, .timeLimit(.minutes(10)))
struct ConsoleFocusTests {
    private typealias Keys = Browser.Keys

    /// Puts the focus on something, presses Enter, and waits for what follows.
    private func enter(_ browser: Browser, on selector: String, then script: String) async throws {
        try await browser.wait("document.querySelector(arguments[0])", [selector])
        try await browser.run("document.querySelector(arguments[0]).focus()", [selector])
        try await browser.press(Keys.enter)
        try await browser.wait(script)
    }

    /// What has the focus.
    private func focus(_ browser: Browser) async throws -> String? {
        try await browser.run("return document.activeElement.id || document.activeElement.textContent") as? String
    }

    @Test("what was pressed keeps the focus where it cannot be pressed again, and where all is drawn anew")
    func kept() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            for _ in 0..<51 {
                let answer = try await stage.client.send(
                    "POST", "/v1/customers/paged/actions/grant",
                    body: Array(#"{"entitlement":"plus","reason":"r"}"#.utf8))
                try #require(answer.status == 200, "\(answer.text)")
            }
            try await stage.signIn()
            #expect(try await focus(browser) == "main", "whoever signs in begins where it goes on")
            try await stage.show("paged")
            try await enter(browser, on: "#at-before", then: "location.hash.includes('at=')")
            try await enter(browser, on: "#at-now", then: "!location.hash.includes('at=')")
            #expect(try await focus(browser) == "at-now")
            try await enter(browser, on: "#known-before", then: "location.hash.includes('known_at=')")
            try await enter(browser, on: "#known-all", then: "!location.hash.includes('known_at=')")
            #expect(try await focus(browser) == "known-all")
            try await stage.settle()
            try await enter(
                browser, on: "#events .pages button:last-child",
                then: "document.querySelector('#events .pages').innerText.includes('Page 2 of 2')")
            #expect(try await focus(browser) == "Further")
            #expect(
                try await browser.run("return document.activeElement.ariaDisabled") as? String == "true",
                "the last page")
            try await enter(browser, on: "#pin", then: "document.querySelector('#pin').textContent === 'Unpin'")
            #expect(try await browser.count("#pin[aria-pressed]") == 0, "the word says what it does")
            try await enter(browser, on: "#times", then: "document.querySelector('#times').textContent.includes('UTC')")
            #expect(try await focus(browser) == "times")

            // Of the catalog one product is removed, however often Enter is pressed.
            try await browser.run("location.hash = 'view=catalog'")
            let first = "#products tbody tr:first-child"
            try await browser.wait("document.querySelector(arguments[0])", [first])
            let id = try #require(
                try await browser.run("return document.querySelector(arguments[0]).dataset.product", [first]) as? String
            )
            try await browser.run(
                "document.querySelector(arguments[0]).focus()", ["\(first) button:last-child"])
            try await browser.press(Keys.enter)
            try await browser.wait("document.querySelectorAll('#products tr.removed').length === 1")
            #expect(try await focus(browser) == "turn-\(id)")
            #expect(try await browser.text(first)?.contains("removed") == true, "it stays where it was")
            try await browser.press(Keys.enter)
            try await browser.wait("!document.querySelector('#products tr.removed')")
            try await browser.wait("document.querySelector('#change').hidden")
            try await stage.expectCleanConsole()
        }
    }

    @Test("a moment that nobody typed anything into does not count when it is left, whatever seconds it has")
    func left() async throws {
        try await ConsoleStage.with { stage in
            try await stage.browser.open(stage.console)
            let told = try await stage.browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const done = arguments[arguments.length - 1];
                    import(new URL("console/assets/1/sliders.js", document.baseURI)).then(({ Sliders }) => {
                        const told = [];
                        for (const seconds of [0, 1, 59]) {
                            const sliders = new Sliders({ at: (at) => told.push([seconds, at]), knownAt: () => {} });
                            document.body.append(sliders.node);
                            sliders.show({ at: null, now: Date.UTC(2026, 10, 29, 12, 51, seconds), knownAt: null });
                            sliders.atField.focus();
                            sliders.atField.blur();
                        }
                        done(told);
                    });
                    """, "args": [Any](),
                ])
            #expect(try #require(told as? [Any]).isEmpty, "\(told)")
        }
    }

    @Test(
        "a moment counts when it is typed and left; what is wrong is said of its field, and what was said is taken back"
    )
    func typed() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await browser.open(stage.console)
            try await browser.type("rightful_sk_wrong", into: "#key")
            try await browser.press(Keys.enter)
            try await browser.wait("document.querySelector('#key').ariaInvalid === 'true'")
            #expect(
                try await browser.run("return document.querySelector('#key').getAttribute('aria-errormessage')")
                    as? String == "sign-in-problem")
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            // Segment by segment, as the field has it: each press changes its value, and asks for nothing.
            try await browser.run(
                """
                window.asked = [];
                const real = window.fetch;
                window.fetch = (url, options) => { window.asked.push(String(url)); return real(url, options); };
                document.querySelector("#at-field").focus();
                """)
            try await browser.press("0", "1")
            #expect(try await browser.fragment().contains("at=") == false)
            try await browser.press("\u{E003}")
            #expect(try await browser.run("return document.querySelector('#at-field').value") as? String == "")
            try await browser.press(Keys.enter)
            try await browser.wait(".sliders .problem", says: "That is no whole date with a time.")
            #expect(
                try await browser.run("return document.querySelector('#at-field').ariaInvalid") as? String == "true")
            let asked = try await browser.run("return window.asked.filter((one) => one.includes('at=')).length")
            #expect(asked as? NSNumber == 0)
            try await browser.press("0", "1")
            try await browser.press(Keys.enter)
            try await browser.wait("location.hash.includes('at=')")
            #expect(try await browser.text(".sliders .problem")?.isEmpty == true)
            try await stage.settle()

            try await browser.click("#do-grant")
            try await browser.type("premium", into: "#entitlement")
            try await browser.type("r", into: "#reason")
            try await browser.run("document.querySelector('#until').value = '2020-01-01T00:00'")
            try await browser.click("#preview")
            try await browser.wait("document.querySelector('#until').ariaInvalid === 'true'")
            #expect(try await focus(browser) == "until")
            let problem = try await browser.run("return document.activeElement.getAttribute('aria-errormessage')")
            #expect(try await browser.text("#\(problem ?? "")")?.hasPrefix("until lies in the past") == true)
            try await stage.closeDialog()
            // Somebody who was found is no more told of while another one is looked at.
            try await stage.find(stage.bob.id)
            try await browser.wait("document.querySelector('.aside[role=status]').textContent.startsWith('Found')")
            try await browser.wait("document.querySelector('.aside[role=status]').textContent === ''")
            try await stage.expectCleanConsole(allowing: ["status of 401", "status of 422"])
        }
    }
}
