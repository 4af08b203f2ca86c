import EntitlementCore
import Foundation
import Testing

/// The console in a real browser, before a service that is asked and says nothing.
@Suite("The console in a browser: a service that hangs", .serialized, .timeLimit(.minutes(10)))
struct ConsoleSilenceTests {
    /// Has the page wait for a tenth of what it waits for an answer, from when `window.isHasty` is set.
    private static let haste = """
        const wait = window.setTimeout;
        window.setTimeout = (work, span, ...more) =>
            wait(work, window.isHasty && span >= 10000 ? span / 10 : span, ...more);
        """

    @Test("what has ended is not told as the present while the service hangs, nor one moment as another")
    func customer() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let until = Timestamp(milliseconds: ConsoleStage.now + 600_000)
            let granted = try await stage.client.send(
                "POST", "/v1/customers/leaving/actions/grant",
                body: Array(#"{"entitlement":"premium","until":"\#(until)","reason":"r"}"#.utf8))
            #expect(granted.status == 200, "\(granted.text)")
            try await browser.runFirst(Self.haste)
            try await stage.signIn()
            try await stage.show("leaving")
            try await browser.wait("#answer", says: "They have premium until")
            try await browser.wait("document.querySelector('#events li')")
            try await stage.settle()
            stage.service.signal(SIGSTOP)
            defer { stage.service.signal(SIGCONT) }
            // The grant has ended since, and somebody looks at the page again.
            try await browser.run(
                """
                const real = Date.now;
                Date.now = () => real() + 620000;
                document.dispatchEvent(new Event("visibilitychange"));
                """)
            try await browser.wait(
                "!document.querySelector('#stale').hidden && document.querySelector('#problem').textContent === ''")
            #expect(try await browser.text("#stale")?.contains("may be so no more") == true)
            // Another moment is asked for: what is held now is not what was held then.
            try await browser.click("#at-before")
            try await browser.wait("#answer", says: "Loading")
            #expect(try await browser.count("#answer .sentence") == 0)
            let isDrawn = "return document.querySelector('.timeline').checkVisibility()"
            #expect(try await browser.run(isDrawn) as? Bool == false)
            // Nobody waits for ever.
            try await browser.run("window.isHasty = true")
            try await browser.click("#at-after")
            try await browser.wait("#problem", says: "The service cannot be reached")
            try await browser.wait("document.querySelector('#try-again')")
            stage.service.signal(SIGCONT)
            try await browser.run("window.isHasty = false")
            try await browser.click("#try-again")
            try await browser.wait("document.querySelector('#answer .sentence')")
            #expect(try await browser.text("#problem") == "")
            #expect(try await browser.run(isDrawn) as? Bool == true)
            try await stage.expectCleanConsole()
        }
    }
}
