import Foundation
import Testing

/// The console in a real browser, in a zone where clocks are put back in autumn.
@Suite("The console in a browser: times", .serialized, .timeLimit(.minutes(10)))
struct ConsoleTimeTests {
    /// The next year's day on which clocks in Berlin are put back: the last Sunday of October.
    private static func lastSunday() throws -> (year: Int, day: Int) {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        let year = calendar.component(.year, from: Date()) + 1
        let last = try #require(calendar.date(from: DateComponents(year: year, month: 10, day: 31)))
        return (year, 32 - calendar.component(.weekday, from: last))
    }

    @Test("an hour that comes twice is told by its zone, and moving on in the second one stays there")
    func twice() async throws {
        let (year, day) = try Self.lastSunday()
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            for (name, time) in [("plus", "00:30"), ("premium", "01:30")] {
                let body = #"{"entitlement":"\#(name)","until":"\#(year)-10-\#(day)T\#(time):00Z","reason":"r"}"#
                let answer = try await stage.client.send(
                    "POST", "/v1/customers/twice/actions/grant", body: Array(body.utf8))
                try #require(answer.status == 200, "\(answer.text)")
            }
            try await stage.signIn()
            try await stage.show("twice")
            let said = try await browser.text("#answer") ?? ""
            #expect(said.contains("plus until \(day) October \(year) at 02:30 CEST"), "\(said)")
            #expect(said.contains("premium until \(day) October \(year) at 02:30 CET"), "\(said)")
            // Within the reasons there is one zone, that of the service's own sentences.
            let why = try await browser.text("#explanation") ?? ""
            #expect(why.contains(" UTC") && !why.contains(" CET") && !why.contains(" CEST"), "\(why)")
            try await stage.show("twice", "&at=\(year)-10-\(day)T01:15:00Z")
            let field = try await browser.run("return document.querySelector('#at-field').value") as? String
            #expect(field?.hasPrefix("\(year)-10-\(day)T02:15") == true, "\(field ?? "")")
            try await browser.run(
                """
                const field = document.querySelector("#at-field");
                field.focus();
                field.value = arguments[0];
                field.dispatchEvent(new Event("change", { bubbles: true }));
                field.blur();
                """, ["\(year)-10-\(day)T02:16"])
            try await browser.wait("location.hash.includes('at=')")
            try await browser.wait("decodeURIComponent(location.hash).includes('T01:16:00')")
            // The form tells which of the two it takes, before and in what it foresees.
            try await browser.click("#do-grant")
            try await browser.wait("document.querySelector('#until')")
            try await browser.run(
                """
                const field = document.querySelector("#until");
                field.value = arguments[0];
                field.dispatchEvent(new Event("input", { bubbles: true }));
                """, ["\(year)-10-\(day)T02:30"])
            try await browser.wait("#until-read", says: "\(day) October \(year) at 02:30 CEST (the first of two")
            try await stage.foresee([("#entitlement", "archive"), ("#reason", "r")])
            try await browser.wait("#outcome", says: "archive and plus until \(day) October \(year) at 02:30 CEST")
            try await stage.expectCleanConsole()
        }
    }

    @Test("a line of the picture that names a day, a month or a year stands where that begins, in either zone")
    func lines() async throws {
        try await ConsoleStage.with { stage in
            try await stage.browser.open(stage.console)
            let found = try await stage.browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const done = arguments[arguments.length - 1];
                    (async () => {
                        const [{ Scale }, { dayText, setUTC, timeText }] = await Promise.all(["picture", "time"].map((name) =>
                            import(new URL(`console/assets/1/${name}.js`, document.baseURI))));
                        const texts = [];
                        // Across the day on which clocks are put back in Berlin.
                        const [day, middle] = [86400000, Date.UTC(2026, 9, 22, 7)];
                        for (const isUTC of [false, true]) for (const days of [7, 31, 92, 366, 3660]) {
                            setUTC(isUTC);
                            const scale = new Scale(middle - days * day / 2, middle + days * day / 2, 1000);
                            for (const { at, text } of scale.ticks()) {
                                const isRight = timeText(at).includes(" at 00:00 ") && dayText(at).includes(text)
                                    && (days < 366 || dayText(at).startsWith("1 "));
                                texts.push(isRight ? "" : `${text} at ${timeText(at)}`);
                            }
                        }
                        done([texts.length, texts.filter(Boolean)]);
                    })();
                    """, "args": [Any](),
                ])
            let lines = try #require(found as? [Any])
            #expect(try #require(lines.first as? NSNumber).intValue > 40)
            #expect(lines.last as? [String] == [])
        }
    }
}
